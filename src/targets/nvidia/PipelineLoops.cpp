// See PipelineLoops.h. LoopPipeliner decides (which loads, which dots, how many slots) and then rewrites one loop.
#include "targets/nvidia/PipelineLoops.h"
#include "layout/Conversion.h"
#include "targets/nvidia/AsyncDots.h"
#include "targets/nvidia/BlockEdit.h"
#include "targets/nvidia/Descriptors.h"
#include "targets/nvidia/DotChoice.h"
#include "targets/nvidia/Layouts.h"
#include "targets/nvidia/LoopObstacles.h"
#include "targets/nvidia/LoopSlice.h"
#include "targets/nvidia/TileLoop.h"
#include <algorithm>
#include <map>

namespace tegula::nvidia {

using namespace ir;

namespace {

/// Tiles in shared memory that are filled in turn: by copies some iterations ahead, or by the iteration itself.
struct Ring {
  Op *source;              // the load, or the to_shared
  Type tile;
  bool isCopied = false;   // by async_copy or tma_copy
  bool isTma = false;
  bool staysInFlight = false; // a wgmma may read a slot beyond the end of its iteration
  bool feedsWgmma = false;
  unsigned slots = 0;
  Value *memory = nullptr;
};

class LoopPipeliner {
public:
  LoopPipeliner(Module &m, Op &loop, const NvTarget &target, const NvOptions &options, DiagEngine *remarks)
      : b_(m), module_(m), loop_(loop), body_(*loop.region(0)), slice_(loop), target_(target), options_(options), remarks_(loop, remarks) {
    b_.setFolding(false);
  }

  bool run() {
    if (std::optional<std::string> reason = obstacleOfLoop(loop_))
      return remarks_.notPipelined(*reason), false;
    if (!hasDot(loop_))
      return remarks_.notPipelined("it has no dot, and loads are started early only for those"), false;
    findCopies();
    findAsyncDots();
    if (rings_.empty() && waits_.waits.empty()) {
      if (loadsOfDots(body_).empty())
        remarks_.notPipelined("nothing is loaded in it that its dots are computed from");
      return false;
    }
    if (!fitMemory())
      return false;
    rewrite();
    return true;
  }

private:
  using Map = LoopSlice::Map;

  // ---- decisions

  /// The layout a tile of this load has if wgmma is to read it as it lies; 0 if no user wants that.
  uint16_t wantedLayout(const Value *v) {
    for (const Op *user : usersIn(body_, v)) {
      if (user->kind == OpKind::ToShared)
        return user->result()->type.layout;
      if (user->kind == OpKind::Permute || user->kind == OpKind::Reshape)
        if (uint16_t l = wantedLayout(user->result()))
          return module_.internLayout(operandLayout(*user, LinearLayout(module_.layouts[l - 1u])));
    }
    return 0;
  }

  Type tileOf(const Op &load) {
    const Type &t = load.result()->type;
    if (load.kind == OpKind::DescLoad)
      return Type::shared(t.shape, t.elem, module_.internLayout(tmaTile(t)));
    uint16_t l = wantedLayout(load.result());
    if (!l) {
      std::vector<int64_t> shape(t.shape.begin(), t.shape.end()), order(shape.size());
      for (size_t i = 0; i < order.size(); ++i)
        order[i] = static_cast<int64_t>(order.size() - 1 - i);
      std::optional<layout::SwizzleMode> mode;
      if (shape.size() == 2) {
        unsigned fast = contiguousAxis(module_.layoutOf(t));
        order = {fast, 1 - fast};
        mode = layout::widestSwizzle(shape[fast] * byteWidth(t.elem));
      }
      l = module_.internLayout(mode ? layout::sharedSwizzled(shape, order, 8 * byteWidth(t.elem), *mode) : layout::sharedLinear(shape, order));
    }
    return Type::shared(t.shape, t.elem, l);
  }

  void findCopies() {
    const std::vector<Op *> loads = loadsOfDots(body_);
    remarks_.otherLoads(loads);
    for (Op *load : loads) {
      if (std::optional<std::string> reason = obstacleOfCopy(*load)) {
        remarks_.notCopied(*load, *reason);
        continue;
      }
      if (!std::all_of(load->operands.begin(), load->operands.end(), [&](const Value *v) { return slice_.add(v); })) {
        remarks_.notComputedAhead(*load);
        continue;
      }
      Ring r;
      r.source = load;
      r.tile = tileOf(*load);
      r.isCopied = true;
      r.isTma = load->kind == OpKind::DescLoad;
      rings_.push_back(r);
    }
  }

  Ring *ringOf(const Op *source) {
    auto it = std::find_if(rings_.begin(), rings_.end(), [&](const Ring &r) { return r.source == source; });
    return it == rings_.end() ? nullptr : &*it;
  }

  /// The ring a dot's tile comes from; null if the tile does not change in the loop or has no ring.
  Ring *ringOfTile(const Value *tile) {
    const Op *op = tile->def;
    if (!op || op->parent != &body_)
      return nullptr;
    if (Ring *r = ringOf(op))
      return r;
    for (op = op->operands[0]->def; op && op->parent == &body_ && (op->kind == OpKind::Permute || op->kind == OpKind::Reshape);)
      op = op->operands[0]->def;
    Ring *r = op && op->parent == &body_ ? ringOf(op) : nullptr;
    return r && r->tile.layout == wantedLayout(r->source->result()) ? r : nullptr;
  }

  void findAsyncDots() {
    std::vector<Op *> dots;
    for (Op *op : body_.ops) {
      if (op->kind != OpKind::Dot || !op->operands[1]->type.isShared || bitWidth(op->result()->type.elem) != 32)
        continue;
      const std::vector<Value *> &yields = body_.terminator()->operands;
      if (std::count(yields.begin(), yields.end(), op->result()) > 1)
        continue;
      dots.push_back(op);
      // What is computed and then stored for wgmma takes turns as well.
      for (unsigned i = 0; i < 2; ++i)
        if (Op *tile = op->operands[i]->def; tile && tile->kind == OpKind::ToShared && tile->parent == &body_ && !ringOfTile(op->operands[i])) {
          Ring r;
          r.source = tile;
          r.tile = tile->result()->type;
          rings_.push_back(r);
        }
    }
    waits_ = placeDotWaits(body_, dots);
    for (Op *dot : dots)
      for (unsigned i = 0; i < 2; ++i)
        if (Ring *r = dot->operands[i]->type.isShared ? ringOfTile(dot->operands[i]) : nullptr) {
          r->feedsWgmma = true;
          r->staysInFlight |= waits_.isAtEnd(dot);
        }
    dots_ = std::move(dots);
  }

  /// Scratch that operations of the body will want beside the rings.
  uint64_t scratchOfBody() const {
    uint64_t most = 4096;
    for (const Op *op : body_.ops)
      if (op->kind == OpKind::Convert && layout::exchangeScope(module_.layoutOf(op->operands[0]->type), module_.layoutOf(op->result()->type)) >
                                             layout::ExchangeScope::Warp)
        most = std::max<uint64_t>(most, std::min<uint64_t>(64 * 1024, slotBytes(op->result()->type)));
    return most;
  }

  /// Bytes of tiles from outside that the body uses.
  uint64_t outerTiles() const {
    std::map<const Op *, uint64_t> tiles;
    for (size_t i = placeOfPrologue(); loop_.parent->ops[i] != &loop_; ++i)
      if (const Op *op = loop_.parent->ops[i]; op->kind == OpKind::ToShared)
        tiles[op] = slotBytes(op->result()->type);
    for (const Op *op : body_.ops)
      for (const Value *v : op->operands)
        if (v->type.isShared && v->def && v->def->parent != &body_)
          tiles[v->def] = slotBytes(v->type);
    uint64_t sum = 0;
    for (auto [op, bytes] : tiles)
      sum += bytes;
    return sum;
  }

  template <typename Test> bool anyRing(Test test) const { return std::any_of(rings_.begin(), rings_.end(), test); }

  /// Numbers of slots for this distance; bytes of all rings. Tiles that TMA brings form stages: one slot of each ring, one number of slots.
  uint64_t giveSlots(unsigned slack) {
    stages_ = static_cast<unsigned>(ahead_) + 1 + anyRing([](const Ring &r) { return r.isTma && r.staysInFlight; }) + slack;
    uint64_t bytes = 0;
    for (Ring &r : rings_) {
      r.slots = r.isTma ? stages_ : static_cast<unsigned>(r.isCopied ? ahead_ : 1) + 1 + r.staysInFlight;
      bytes += slotBytes(r.tile) * r.slots;
    }
    return bytes;
  }

  bool fitMemory() {
    uint64_t taken = scratchOfBody() + outerTiles(), left = target_.sharedLimit();
    bool hasCopies = anyRing([](const Ring &r) { return r.isCopied; }), hasTma = anyRing([](const Ring &r) { return r.isTma; });
    // A stage more lets warpgroups drift apart, so that one computes while the other's wgmmas run.
    unsigned slack = hasTma && options_.numWarps >= 8;
    int64_t wanted = std::max<int64_t>(1, loop_.intAttr("num_stages", options_.numStages) - 1);
    uint64_t needed = 0;
    for (ahead_ = wanted; ahead_ > 0; --ahead_) {
      if (taken + giveSlots(slack) <= left || taken + giveSlots(0) <= left) {
        if (ahead_ < wanted)
          remarks_.shortOfMemory(ahead_, wanted, needed, left);
        return true;
      }
      if (ahead_ == wanted || ahead_ == 1)
        needed = taken + giveSlots(0);
      if (!hasCopies)
        break;
    }
    remarks_.shortOfMemory(0, wanted, needed, left);
    return false;
  }

  // ---- the new loop

  Value *carry(Value *init, std::string name) { return nvidia::carry(module_, loop_, init, std::move(name)); }
  void carryOn(const Value *arg, Value *next) { nvidia::carryOn(loop_, arg, next); }

  void rewrite() {
    Block before, top;
    before.parent = loop_.parent->parent;
    top.parent = body_.parent;
    b_.setLoc(loop_.loc);
    b_.setInlinedAt(loop_.inlinedAt);
    b_.setBlock(&before);
    for (Ring &r : rings_)
      r.memory = b_.create1(OpKind::SharedAlloc, {}, r.tile, {{"slots", int64_t{r.slots}}});
    bool hasCopies = anyRing([](const Ring &r) { return r.isCopied; });
    if (anyRing([](const Ring &r) { return r.isTma; })) {
      Type type = Type::shared({1}, Elem::I64, 0);
      full_ = b_.create1(OpKind::BarrierAlloc, {}, type, {{"slots", int64_t{stages_}}, {"arrivals", int64_t{1}}});
      empty_ = b_.create1(OpKind::BarrierAlloc, {}, type, {{"slots", int64_t{stages_}}, {"arrivals", int64_t{options_.numWarps}}});
    }
    bool isTiled = startTiles(before);
    std::vector<Value *> ahead = !hasCopies ? std::vector<Value *>{} : isTiled ? valuesAhead() : prologue();
    Value *zero = b_.constI32(0);
    for (const Ring &r : rings_)
      if (!slot_.count(r.slots))
        slot_[r.slots] = carry(isTiled ? tileSlot_ : zero, "slot");
    if (full_) {
      Stage first = stageAhead(isTiled ? tileSlot_ : zero, isTiled ? tilePhase_ : zero, ahead_);
      phase_ = carry(isTiled ? tilePhase_ : zero, "phase");
      last_ = carry(zero, "last");
      fill_ = carry(first.slot, "fill");
      fillPhase_ = carry(first.freePhase, "fill.phase");
    }
    Block middle;
    middle.parent = body_.parent;
    if (hasCopies)
      copiesAhead(top, middle, ahead);
    splice(before, *loop_.parent, placeOfPrologue());
    insertWaits();
    // Starting copies takes issue slots that nobody misses while the first wgmma runs.
    splice(middle, body_, dots_.empty() ? 0 : positionOf(body_, dots_.front()) + 1);
    size_t at = top.ops.size();
    splice(top, body_, 0);
    for (Ring &r : rings_)
      r.isCopied ? useCopies(r, at) : storeInTurn(r);
    Block end;
    end.parent = body_.parent;
    b_.setBlock(&end);
    if (full_)
      releaseStage();
    for (auto [slots, arg] : slot_)
      carryOn(arg, nextSlot(arg, slots, 1));
    splice(end, body_, body_.ops.size() - 1);
    dropFirstBarrier();
    if (isTiled)
      endTile();
  }

  // ---- the loop over tiles around the loop

  /// A stage of the ring, and the parity of the phase of it being free to be filled. Nobody waits for stages that were never used: the phase
  /// before the first counts as over.
  struct Stage {
    Value *slot, *freePhase;
  };
  Stage stageAhead(Value *slot, Value *phase, int64_t distance) {
    Value *one = b_.constI32(1), *wraps = b_.cmp(CmpPred::Sge, b_.binary(OpKind::Add, slot, b_.constI32(static_cast<int32_t>(distance))),
                                                 b_.constI32(static_cast<int32_t>(stages_)));
    return {nextSlot(slot, stages_, distance), b_.select(wraps, phase, b_.binary(OpKind::Xor, phase, one))};
  }

  /// If rings and barriers can live as long as the loop over tiles: moves them, which `before` holds, in front of it with the first tile's
  /// copies. `before` is empty then.
  bool startTiles(Block &before) {
    uint64_t bytes = 16 * stages_; // mbarriers
    std::vector<const Op *> loads;
    for (const Ring &r : rings_) {
      bytes += slotBytes(r.tile) * r.slots;
      loads.push_back(r.source);
    }
    if (!full_ || anyRing([](const Ring &r) { return !r.isTma; }) || outerTiles() || !TileLoop::allows(module_, loop_, target_.sharedLimit() - std::min<uint64_t>(bytes, target_.sharedLimit()), loads))
      return false;
    tiles_.emplace(loop_);
    Map parameters{{tileSlot_ = module_.createValue(Type::scalar(Elem::I32)), nullptr},
                   {tilePhase_ = module_.createValue(Type::scalar(Elem::I32)), nullptr},
                   {tileRuns_ = module_.createValue(Type::scalar(Elem::I1)), nullptr}};
    tilePrologue_.parent = loop_.parent->parent;
    b_.setBlock(&tilePrologue_);
    prologue();
    // Rings and barriers are made in front of the loop over tiles: nothing to compute.
    for (const Op *op : before.ops)
      parameters[op->result()] = op->result();
    if (!tiles_->covers(tilePrologue_, parameters)) {
      tiles_.reset();
      tileRuns_ = nullptr;
      b_.setBlock(&before);
      return false;
    }
    Op &outer = tiles_->op();
    before.parent = outer.parent->parent;
    b_.setBlock(&before);
    Value *zero = b_.constI32(0);
    Map first = tiles_->firstTile();
    for (const Op *op : before.ops)
      for (Value *v : op->results)
        first[v] = v;
    first[tileSlot_] = first[tilePhase_] = zero;
    first[tileRuns_] = tiles_->hasFirst(b_);
    tiles_->place(b_, tilePrologue_, std::move(first));
    splice(before, *outer.parent, positionOf(*outer.parent, &outer));
    // From here on the values of the current tile.
    parameterSlot_ = tileSlot_;
    parameterPhase_ = tilePhase_;
    tileSlot_ = nvidia::carry(module_, outer, zero, "slot");
    tilePhase_ = nvidia::carry(module_, outer, zero, "phase");
    before.parent = loop_.parent->parent;
    b_.setBlock(&before);
    return true;
  }

  /// Behind the loop and its wait: the last stage is free, the next tile's copies start, the ring goes on where it is.
  void endTile() {
    Block after;
    after.parent = loop_.parent->parent;
    b_.setBlock(&after);
    b_.setLoc(loop_.loc);
    auto resultOf = [&](const Value *arg) { return loop_.results[arg->index - 1]; };
    if (anyRing([](const Ring &r) { return r.staysInFlight; })) {
      Value *operands[] = {barrierAt(empty_, resultOf(last_)), runsAhead(b_, loop_, loop_.operands[0], 0)};
      b_.create(OpKind::BarrierArrive, operands, {});
    }
    Map next = tiles_->nextTile(b_);
    next[parameterSlot_] = resultOf(slot_[stages_]);
    next[parameterPhase_] = resultOf(phase_);
    next[tileRuns_] = tiles_->hasNext(b_);
    tiles_->place(b_, tilePrologue_, std::move(next));
    size_t at = positionOf(*loop_.parent, &loop_) + 1;
    if (loop_.parent->ops[at]->kind == OpKind::DotWait)
      ++at;
    splice(after, *loop_.parent, at);
    nvidia::carryOn(tiles_->op(), tileSlot_, resultOf(slot_[stages_]));
    nvidia::carryOn(tiles_->op(), tilePhase_, resultOf(phase_));
  }

  /// Every thread reads exactly what it has copied itself.
  bool readsOwnCopies(const Op &load) const {
    const Op *memory = load.operands[0]->def;
    while (memory && memory->kind != OpKind::SharedAlloc)
      memory = memory->operands[0]->def;
    for (const Ring &r : rings_)
      if (memory && r.memory->def == memory && r.isCopied && !r.isTma) {
        const Type &copied = r.source->operands[0]->type;
        const LinearLayout &l = module_.layoutOf(copied);
        return copied.layout == load.result()->type.layout && !l.freeMask(layout::Dim::Lane) && !l.freeMask(layout::Dim::Warp);
      }
    return false;
  }

  /// Where a computed operand brings a barrier of its own in front of the dots, that one serves the copies as well, if nothing
  /// before it looks at what other threads copied.
  void dropFirstBarrier() {
    auto isBarrier = [](const Op *op) { return op->kind == OpKind::SharedBarrier; };
    auto first = std::find_if(body_.ops.begin(), body_.ops.end(), isBarrier);
    if (first == body_.ops.end())
      return;
    auto second = std::find_if(first + 1, body_.ops.end(), isBarrier);
    if (second == body_.ops.end() || (*second)->intAttr("fence") < (*first)->intAttr("fence"))
      return;
    bool needed = std::any_of(first + 1, second, [&](const Op *op) {
      bool own = op->kind == OpKind::SharedLoad ? readsOwnCopies(*op) : op->has(traits::Pure) && op->kind != OpKind::Dot;
      return !own && op->kind != OpKind::SharedStore;
    });
    if (!needed)
      body_.ops.erase(first);
  }

  /// In front of what rotateDots took out of the loop, so that the first copies run beside its load.
  size_t placeOfPrologue() const {
    return positionOf(*loop_.parent, &loop_) - static_cast<size_t>(loop_.intAttr("ops_ahead"));
  }

  /// (slot + distance) mod slots, for distance < slots.
  Value *nextSlot(Value *slot, unsigned slots, int64_t distance) {
    Value *n = b_.constI32(static_cast<int32_t>(slots));
    Value *sum = b_.binary(OpKind::Add, slot, b_.constI32(static_cast<int32_t>(distance)));
    return b_.select(b_.cmp(CmpPred::Sge, sum, n), b_.binary(OpKind::Sub, sum, n), sum);
  }

  Value *barrierAt(Value *ring, Value *slot) { return b_.create1(OpKind::SharedSlot, {ring, slot}, ring->type); }
  void waitFor(Value *ring, Value *slot, Value *phase, int64_t one) {
    Value *operands[] = {barrierAt(ring, slot), phase};
    b_.create(OpKind::BarrierWait, operands, {}, {{"one", one}});
  }
  Value *flip(Value *phase, Value *slot, unsigned slots) {
    Value *wraps = b_.cmp(CmpPred::Eq, slot, b_.constI32(static_cast<int32_t>(slots) - 1));
    return b_.select(wraps, b_.binary(OpKind::Xor, phase, b_.constI32(1)), phase);
  }

  /// At the end: the tiles of this iteration, or of the last one if wgmmas of this one still read, may be overwritten.
  void releaseStage() {
    bool late = anyRing([](const Ring &r) { return r.isTma && r.staysInFlight; });
    Value *slot = slot_[stages_], *was = late ? last_ : slot;
    Value *when = late ? b_.cmp(CmpPred::Ne, body_.args[0], loop_.operands[0]) : b_.constInt(Type::scalar(Elem::I1), 1);
    Value *operands[] = {barrierAt(empty_, was), when};
    b_.create(OpKind::BarrierArrive, operands, {});
    carryOn(last_, slot);
    carryOn(phase_, flip(phase_, slot, stages_));
    carryOn(fillPhase_, flip(fillPhase_, fill_, stages_));
    carryOn(fill_, nextSlot(fill_, stages_, 1));
  }

  /// The copies of one iteration, if it runs; `slotOf` gives the slot of a ring of so many; `reuses`: stages have been in use before.
  template <typename SlotOf> void copies(Value *runs, const Map &map, SlotOf slotOf, bool reuses) {
    Op *when = b_.ifOp(runs, {});
    Block *outer = b_.block();
    b_.setBlock(when->region(0));
    Map values = map;
    Value *full = nullptr;
    int64_t bytes = 0;
    for (const Ring &r : rings_)
      if (r.isTma) {
        if (!full)
          full = slotOf(r);
        bytes += r.tile.numel() * byteWidth(r.tile.elem);
      }
    if (full) {
      if (reuses)
        waitFor(empty_, full, fillPhase_, 1);
      full = barrierAt(full_, full);
      Value *operands[] = {full};
      b_.create(OpKind::BarrierExpect, operands, {}, {{"bytes", bytes}});
    }
    for (const Ring &r : rings_) {
      if (!r.isCopied)
        continue;
      std::vector<Value *> operands{b_.create1(OpKind::SharedSlot, {r.memory, slotOf(r)}, r.tile)};
      if (r.isTma)
        operands.push_back(full);
      for (size_t i = 0; i < r.source->operands.size() && (r.isTma || i < 2); ++i)
        operands.push_back(slice_.copy(b_, r.source->operands[i], values));
      b_.setLoc(r.source->loc);
      b_.setInlinedAt(r.source->inlinedAt);
      b_.create(r.isTma ? OpKind::TmaCopy : OpKind::AsyncCopy, operands, {}, r.source->attrs);
    }
    b_.yield({});
    b_.setBlock(when->region(1));
    b_.yield({});
    b_.setBlock(outer);
    if (usesGroups())
      b_.create(OpKind::AsyncCommit, {}, {});
  }
  /// Of cp.async.
  bool usesGroups() const { return anyRing([](const Ring &r) { return r.isCopied && !r.isTma; }); }

  /// In front of the loop: the first iterations' copies. Gives the carried values of the slice as of iteration `ahead_`.
  std::vector<Value *> prologue() {
    Map map = atStart();
    for (int64_t i = 0; i < ahead_; ++i) {
      Value *runs = runsAhead(b_, loop_, loop_.operands[0], i);
      if (tileRuns_) {
        Stage s = stageAhead(tileSlot_, tilePhase_, i);
        fillPhase_ = s.freePhase;
        copies(b_.binary(OpKind::And, runs, tileRuns_), map, [&](const Ring &) { return s.slot; }, true);
      } else {
        Value *slot = b_.constI32(static_cast<int32_t>(i));
        copies(runs, map, [&](const Ring &) { return slot; }, false);
      }
      map = next(map);
    }
    return keyValues(map);
  }
  /// What prologue() gives, without copies.
  std::vector<Value *> valuesAhead() {
    Map map = atStart();
    for (int64_t i = 0; i < ahead_; ++i)
      map = next(map);
    return keyValues(map);
  }
  Map atStart() const {
    Map map{{body_.args[0], loop_.operands[0]}};
    for (Value *v : slice_.carried())
      map[v] = loop_.operands[2 + v->index];
    return map;
  }
  std::vector<Value *> keyValues(Map &map) {
    std::vector<Value *> out{map[body_.args[0]]};
    for (Value *v : slice_.carried())
      out.push_back(map[v]);
    return out;
  }

  /// Induction variable and carried values one iteration later.
  Map next(Map now) {
    Map out;
    for (Value *v : slice_.carried())
      out[v] = slice_.copy(b_, slice_.nextOf(v), now);
    out[body_.args[0]] = b_.binary(OpKind::Add, now[body_.args[0]], loop_.operands[2]);
    return out;
  }

  /// At the top of the body: this iteration's tiles are there. Then, in the middle, a later one's copies start.
  void copiesAhead(Block &top, Block &middle, const std::vector<Value *> &inits) {
    b_.setLoc(loop_.loc);
    b_.setBlock(&top);
    if (full_)
      waitFor(full_, slot_[stages_], phase_, 0);
    if (usesGroups()) {
      bool fence = anyRing([](const Ring &r) { return r.isCopied && !r.isTma && r.feedsWgmma; });
      b_.create(OpKind::AsyncWait, {}, {}, {{"pending", ahead_ - 1}});
      b_.create(OpKind::SharedBarrier, {}, {}, {{"fence", int64_t{fence}}});
    }
    b_.setBlock(&middle);
    std::vector<Value *> keys{body_.args[0]};
    keys.insert(keys.end(), slice_.carried().begin(), slice_.carried().end());
    Map map;
    std::vector<Value *> carried;
    for (size_t i = 0; i < keys.size(); ++i) {
      carried.push_back(carry(inits[i], keys[i]->name.empty() ? "ahead" : keys[i]->name + ".ahead"));
      map[keys[i]] = carried.back();
    }
    std::map<unsigned, Value *> to;
    for (const Ring &r : rings_)
      if (r.isCopied && !r.isTma && !to.count(r.slots))
        to[r.slots] = nextSlot(slot_[r.slots], r.slots, ahead_);
    copies(runsAhead(b_, loop_, body_.args[0], ahead_), map, [&](const Ring &r) { return r.isTma ? fill_ : to[r.slots]; }, true);
    Map after = next(map);
    for (size_t i = 0; i < keys.size(); ++i)
      carryOn(carried[i], after[keys[i]]);
  }

  /// The tile of this iteration takes the place of the load.
  void useCopies(const Ring &r, size_t top) {
    Block here;
    b_.setBlock(&here);
    b_.setLoc(r.source->loc);
    b_.setInlinedAt(r.source->inlinedAt);
    Value *tile = b_.create1(OpKind::SharedSlot, {r.memory, slot_[r.slots]}, r.tile);
    splice(here, body_, top);
    useTile(module_, body_, r.source->result(), tile);
    if (!usersIn(body_, r.source->result()).empty()) {
      b_.setBlock(&here);
      Value *loaded = b_.create1(OpKind::SharedLoad, {tile}, r.source->result()->type);
      splice(here, body_, positionOf(body_, r.source));
      replaceUses(body_, r.source->result(), loaded);
    }
    std::erase(body_.ops, r.source);
  }

  /// A computed operand: stored to the next slot; a barrier before the dot that reads it.
  void storeInTurn(const Ring &r) {
    Block here;
    b_.setBlock(&here);
    b_.setLoc(r.source->loc);
    b_.setInlinedAt(r.source->inlinedAt);
    Value *tile = b_.create1(OpKind::SharedSlot, {r.memory, slot_[r.slots]}, r.tile);
    Value *operands[] = {tile, r.source->operands[0]};
    b_.create(OpKind::SharedStore, operands, {});
    splice(here, body_, positionOf(body_, r.source));
    replaceUses(body_, r.source->result(), tile);
    std::erase(body_.ops, r.source);
    for (size_t i = positionOf(body_, tile->def); i < body_.ops.size(); ++i)
      if (body_.ops[i]->kind == OpKind::Dot && std::find(body_.ops[i]->operands.begin(), body_.ops[i]->operands.end(), tile) != body_.ops[i]->operands.end()) {
        if (body_.ops[i - 1]->kind != OpKind::SharedBarrier) {
          b_.setBlock(&here);
          b_.create(OpKind::SharedBarrier, {}, {}, {{"fence", int64_t{1}}});
          splice(here, body_, i);
        }
        break;
      }
  }

  void insertWaits() {
    for (Op *dot : dots_)
      dot->set("async", int64_t{1});
    for (const Op *dot : waits_.chained)
      const_cast<Op *>(dot)->set("chained", int64_t{1});
    for (const DotWaitPoint &w : waits_.waits)
      wait(body_, positionOf(body_, w.before), w.pending, w.values);
    if (waits_.atEnd.empty())
      return;
    // Behind the loop: everything.
    std::vector<Value *> results;
    for (size_t i = 0; i < loop_.results.size(); ++i)
      if (waits_.isAtEnd(body_.terminator()->operands[i] ? body_.terminator()->operands[i]->def : nullptr))
        results.push_back(loop_.results[i]);
    Block &outer = *loop_.parent;
    wait(outer, positionOf(outer, &loop_) + 1, 0, results);
  }

  void wait(Block &block, size_t position, int64_t pending, const std::vector<Value *> &values) {
    Block here;
    b_.setBlock(&here);
    std::vector<Type> types;
    for (const Value *v : values)
      types.push_back(v->type);
    b_.setLoc(block.ops[position < block.ops.size() ? position : block.ops.size() - 1]->loc);
    Op *op = b_.create(OpKind::DotWait, values, types, {{"pending", pending}});
    for (size_t i = 0; i < values.size(); ++i)
      replaceUses(block, values[i], op->results[i], position);
    splice(here, block, position);
  }
  Builder b_;
  Module &module_;
  Op &loop_;
  Block &body_;
  LoopSlice slice_;
  const NvTarget &target_;
  const NvOptions &options_;
  LoopRemarks remarks_;
  std::vector<Ring> rings_;
  std::vector<Op *> dots_;
  AsyncDots waits_;
  int64_t ahead_ = 0;
  unsigned stages_ = 0;                             // slots of every ring that TMA fills
  Value *full_ = nullptr, *empty_ = nullptr;        // mbarriers of the stages: bytes are there; all warps are done
  Value *phase_ = nullptr, *last_ = nullptr;        // carried: parity of the current stage; the stage before it
  std::optional<TileLoop> tiles_;
  Block tilePrologue_;                              // over tileRuns_, parameterSlot_, parameterPhase_ and values of a tile
  Value *tileRuns_ = nullptr, *parameterSlot_ = nullptr, *parameterPhase_ = nullptr;
  Value *tileSlot_ = nullptr, *tilePhase_ = nullptr; // where the ring is when a tile begins
  Value *fill_ = nullptr, *fillPhase_ = nullptr;    // the stage to be filled next, and the parity of it being free
  std::map<unsigned, Value *> slot_; // current slot of rings of so many
};

void visit(Module &m, Block &b, const NvTarget &target, const NvOptions &options, DiagEngine *remarks) {
  std::vector<Op *> loops;
  for (Op *op : std::vector<Op *>(b.ops)) { // a loop over tiles gets operations in front of it
    for (Region *r : op->regions)
      visit(m, *r->block, target, options, remarks);
    if (op->kind == OpKind::While && options.numStages >= 2)
      LoopRemarks(*op, remarks).notPipelined(*obstacleOfLoop(*op));
    if (op->kind == OpKind::For && op->intAttr("num_stages", options.numStages) >= 2)
      loops.push_back(op);
  }
  for (Op *loop : loops)
    LoopPipeliner(m, *loop, target, options, remarks).run();
}

} // namespace

void pipelineLoops(Module &m, const NvTarget &target, const NvOptions &options, DiagEngine *remarks) {
  visit(m, *m.kernel()->block(), target, options, remarks);
}

} // namespace tegula::nvidia
