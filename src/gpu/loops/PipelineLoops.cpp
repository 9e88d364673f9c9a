// See PipelineLoops.h. Carries out the decisions of PipelinedLoop with copies that the threads of the loop start.
#include "gpu/loops/PipelineLoops.h"
#include "gpu/BlockEdit.h"
#include "gpu/Work.h"
#include "gpu/loops/PipelinedLoop.h"
#include "gpu/loops/TileLoop.h"
#include "gpu/shared/SharedNeeds.h"
#include "gpu/shared/Tiles.h"
#include <algorithm>
#include <set>

namespace tegula::gpu {

using namespace ir;

namespace {

class LoopPipeliner : PipelinedLoop {
public:
  using PipelinedLoop::PipelinedLoop;
  using PipelinedLoop::askedCrowd;

  void run() {
    startsCopies_ = true;
    if (!plan())
      return;
    goFarther();
    rewrite();
  }

private:
  using Map = LoopSlice::Map;

  /// Starts block copies as far ahead as the stages allow. With two warpgroups or more, one stage is left so that a
  /// warpgroup may lag behind: the thread that starts the copies waits for all warps to be done with a stage.
  void goFarther() {
    if (!hasStages() || usesGroups() || hasStaged())
      return;
    auto most = static_cast<int64_t>(stages_) - 1;
    ahead_ = std::max(ahead_, most - (options_.numWarps >= 8));
  }

  StageBarrierCounts barrierCounts() const {
    return {.stages = stages_, .consumers = options_.numWarps, .hasLate = hasLate(), .hasSpare = hasSpare()};
  }

  void rewrite() {
    Block before, top;
    before.parent = loop_.parent->parent;
    top.parent = body_.parent;
    b_.setLoc(loop_.loc);
    b_.setInlinedAt(loop_.inlinedAt);
    b_.setBlock(&before);
    for (Ring &r : rings_)
      r.memory = b_.create1(OpKind::SharedAlloc, {}, r.tile, {{attr::slots, r.slots}});
    bool hasCopies = anyRing([](const Ring &r) { return r.isCopied; });
    if (hasStages())
      barriers_ = makeStageBarriers(b_, barrierCounts());
    bool isTiled = startTiles(before);
    std::vector<Value *> ahead = !hasCopies ? std::vector<Value *>{} : isTiled ? valuesAhead() : prologue();
    Value *zero = b_.constI32(0);
    carryStages(isTiled ? tileSlot_ : zero, isTiled ? tilePhase_ : zero);
    if (barriers_.full) {
      Stage first = stageAhead(isTiled ? tileSlot_ : zero, isTiled ? tilePhase_ : zero, ahead_);
      fill_ = carry(first.slot, "fill");
      fillPhase_ = carry(first.freePhase, "fill.phase");
    }
    Block middle;
    middle.parent = body_.parent;
    if (hasCopies)
      copiesAhead(top, middle, ahead);
    splice(before, *loop_.parent, placeOfPrologue());
    insertWaits();
    splice(middle, body_, placeOfCopies());
    releaseBehindWait();
    size_t at = top.ops.size();
    splice(top, body_, 0);
    useRings(at);
    waitForLate();
    Block end;
    end.parent = body_.parent;
    b_.setBlock(&end);
    nextStage();
    if (barriers_.full) {
      carryOn(fillPhase_, flip(fillPhase_, fill_, stages_));
      carryOn(fill_, nextSlot(fill_, stages_, 1));
    }
    splice(end, body_, body_.ops.size() - 1);
    dropFirstBarrier();
    if (isTiled)
      endTile();
  }

  /// The position in the body where copies start: after the first asynchronous dot, as the issue slots are free while
  /// it runs. Copies that fill the last iteration's stage start after the wait for its dots: after the first dot from
  /// there on, or right after the wait if there is none. Copies that fill this iteration's slots start after all reads
  /// of those.
  size_t placeOfCopies() const {
    if (isBehindReads_)
      return lastRead_ ? positionOf(body_, lastRead_) + 1 : body_.ops.size() - 1;
    size_t at = 0;
    if (isBehindWait_ || (isReleasedLate() && ahead_ + 1 == static_cast<int64_t>(stages_)))
      at = positionOf(body_, oldWait_) + 1;
    for (const Op *dot : dots_)
      if (size_t place = positionOf(body_, dot); place >= at)
        return place + 1;
    return at;
  }

  // ---- the loop over tiles around the loop

  /// A stage of the ring, and the parity of the phase in which it becomes free. No thread waits for stages that were
  /// never used: the phase before the first counts as complete.
  struct Stage {
    Value *slot, *freePhase;
  };
  Stage stageAhead(Value *slot, Value *phase, int64_t distance) {
    Value *one = b_.constI32(1),
          *wraps = b_.cmp(CmpPred::Sge, b_.binary(OpKind::Add, slot, b_.constI32(static_cast<int32_t>(distance))),
                          b_.constI32(static_cast<int32_t>(stages_)));
    return {nextSlot(slot, stages_, distance), b_.select(wraps, phase, b_.binary(OpKind::Xor, phase, one))};
  }

  /// If rings and barriers can live as long as the loop over tiles: moves them from `before` to a place before that
  /// loop, with the first tile's copies. `before` is empty then.
  bool startTiles(Block &before) {
    uint64_t bytes = barrierCounts().bytes();
    std::vector<const Op *> loads;
    for (const Ring &r : rings_) {
      bytes += slotBytes(r.tile) * r.slots;
      loads.push_back(r.source);
    }
    if (!barriers_.full || slice_.hasLoads() || anyRing([](const Ring &r) { return !r.inStages; }) ||
        tilesAround(loop_, placeOfPrologue()) ||
        !TileLoop::allows(module_, loop_, target_,
                          target_.sharedLimit() - std::min<uint64_t>(bytes, target_.sharedLimit()), loads))
      return false;
    tiles_.emplace(loop_);
    Map parameters{{tileSlot_ = module_.createValue(Type::scalar(Elem::I32)), nullptr},
                   {tilePhase_ = module_.createValue(Type::scalar(Elem::I32)), nullptr},
                   {tileRuns_ = module_.createValue(Type::scalar(Elem::I1)), nullptr}};
    tilePrologue_.parent = loop_.parent->parent;
    b_.setBlock(&tilePrologue_);
    prologue();
    // Rings and barriers are created before the loop over tiles, so they need no value of a tile.
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
    // From here on tileSlot_ and tilePhase_ are the values of the current tile.
    parameterSlot_ = tileSlot_;
    parameterPhase_ = tilePhase_;
    tileSlot_ = gpu::carry(module_, outer, zero, "slot");
    tilePhase_ = gpu::carry(module_, outer, zero, "phase");
    before.parent = loop_.parent->parent;
    b_.setBlock(&before);
    return true;
  }

  /// After the loop and its wait: releases the last stage, starts the next tile's copies from the ring's current stage.
  void endTile() {
    Block after;
    after.parent = loop_.parent->parent;
    b_.setBlock(&after);
    b_.setLoc(loop_.loc);
    releaseLastStage();
    Map next = tiles_->nextTile(b_);
    next[parameterSlot_] = resultOf(slot_[stages_]);
    next[parameterPhase_] = resultOf(phase_);
    next[tileRuns_] = tiles_->hasNext(b_);
    tiles_->place(b_, tilePrologue_, std::move(next));
    splice(after, *loop_.parent, placeBehind());
    gpu::carryOn(tiles_->op(), tileSlot_, resultOf(slot_[stages_]));
    gpu::carryOn(tiles_->op(), tilePhase_, resultOf(phase_));
  }

  /// Is a predicate on each copy better than a branch around them? Without a branch the body of the loop is one block
  /// to the assembler, which then puts the addresses of copies between the products of a dot. Three reasons against it,
  /// each measured (docs/performance-history.md):
  /// - Addresses are computed in the last iterations, too, in which nothing is copied. Loops inside of others often
  ///   have few iterations.
  /// - The accumulators that several dots hold through the whole loop may leave no registers for the addresses. (A
  ///   result whose last use is in its own iteration does not count with eight warps or more. Fewer warps leave room
  ///   for another block, which more registers may cost.)
  /// - Beside several asynchronous dots the assembler puts elementwise work between products as well. That hides the
  ///   work where it takes longer than the products, and delays the products where it is shorter. (A block of one
  ///   warpgroup shares the multiprocessor with others, whose products fill the gaps.) Not if two dots alternate: the
  ///   second is computed from the first of the same iteration, which rotateDots left there, so the work is between the
  ///   two dots and never between products of one.
  bool arePredicated() const {
    constexpr unsigned mostRegisters = 128, twoWarpgroups = 8;
    for (const Op *around = loop_.parent->parent->op; around; around = around->parent->parent->op)
      if (around->kind == OpKind::For || around->kind == OpKind::While)
        return false;
    std::vector<const Op *> dots;
    for (const Op *op : body_.ops)
      if (op->kind == OpKind::Dot)
        dots.push_back(op);
    if (dots.size() < 2)
      return true;
    if (addUp()) // only the dots run then, and the addresses would delay them
      return false;
    const bool takeTurns = options_.numWarps >= twoWarpgroups && dots.size() == 2 && feeds(*dots[0], *dots[1]);
    unsigned registers = 0;
    for (const Op *dot : dots)
      if (!takeTurns || dot != dots[0])
        registers += (1u << module_.layoutOf(dot->result()->type).inBits(layout::Dim::Register)) *
                     byteWidth(dot->result()->type.elem) / 4;
    const Clocks clocks = clocksOf(body_, target_, options_.numWarps);
    return registers < mostRegisters &&
           (takeTurns || dots_.size() < 2 || options_.numWarps < twoWarpgroups || clocks.work >= clocks.products);
  }

  /// Do the asynchronous dots of an iteration add to one sum, one after the other, and is that sum waited for in the
  /// same iteration (float32 in several terms)?
  bool addUp() const {
    if (dots_.size() < 2 || !waits_.atEnd.empty())
      return false;
    std::set<const Value *> sums;
    const Op *last = nullptr;
    for (const Op *op : body_.ops) {
      const bool isDot = std::ranges::find(dots_, op) != dots_.end();
      if (isDot && last && !sums.count(op->operands[2]))
        return false;
      if (isDot)
        last = op;
      if (isDot || (op->has(traits::Elementwise) &&
                    std::ranges::any_of(op->operands, [&](const Value *v) { return sums.count(v) != 0; })))
        sums.insert(op->result());
    }
    return last;
  }

  /// Is A or B of `second` computed from the result of `first` in the same iteration?
  bool feeds(const Op &first, const Op &second) const {
    std::set<const Value *> from{first.result()};
    auto isFrom = [&](const Value *v) { return from.count(v) != 0; };
    for (size_t i = positionOf(body_, &first) + 1; body_.ops[i] != &second; ++i)
      if (std::any_of(body_.ops[i]->operands.begin(), body_.ops[i]->operands.end(), isFrom))
        from.insert(body_.ops[i]->results.begin(), body_.ops[i]->results.end());
    return isFrom(second.operands[0]) || isFrom(second.operands[1]);
  }

  /// Creates the copies of one iteration, under the condition `runs`. `slotOf` gives the slot of a ring. `reuses`: the
  /// stages have been used before. `predicated`: without a branch, if there are only arithmetic and copies.
  template <typename SlotOf> void copies(Value *runs, Map &map, SlotOf slotOf, bool reuses, bool predicated = false) {
    slice_.copyBranches(b_, map);
    Op *when = b_.ifOp(runs, {});
    Block *outer = b_.block();
    b_.setBlock(when->region(0));
    Map values = map;
    auto of = [&](Value *v) { return slice_.copy(b_, v, values); };
    for (const Ring &r : rings_)
      if (r.inStages) {
        fillStage(slotOf(r), reuses ? fillPhase_ : nullptr, of);
        break;
      }
    auto destination = [&](const Ring &r) { return b_.create1(OpKind::SharedSlot, {r.memory, slotOf(r)}, r.tile); };
    auto locate = [&](const Op &source) {
      b_.setLoc(source.loc);
      b_.setInlinedAt(source.inlinedAt);
    };
    for (const Ring &r : rings_) {
      if (!r.isCopied || r.inStages || r.isStaged)
        continue;
      std::vector<Value *> operands{destination(r)};
      for (size_t i = 0; i < r.source->operands.size() && i < 2; ++i)
        operands.push_back(of(r.source->operands[i]));
      locate(*r.source);
      b_.create(OpKind::AsyncCopy, operands, {}, r.source->attrsFor(OpKind::AsyncCopy));
    }
    // Staged stores come last: a store to shared memory, and everything after it in the warp, waits for the load of its
    // value. The copies are in flight by then.
    for (const Ring &r : rings_)
      if (r.isStaged) {
        Value *operands[] = {destination(r), of(r.source->operands[0])};
        locate(*r.source);
        b_.create(OpKind::SharedStore, operands, {});
      }
    Block &inside = *when->region(0);
    if (predicated && std::all_of(inside.ops.begin(), inside.ops.end(), [](const Op *op) {
          return op->kind == OpKind::AsyncCopy || (op->has(traits::Pure) && op->regions.empty());
        })) {
      for (Op *op : inside.ops)
        if (op->kind == OpKind::AsyncCopy)
          op->operands.push_back(runs);
      for (Op *dot : dots_)
        // addresses go between the products of a dot only if those are unrolled
        std::erase_if(dot->attrs, [](const Attr &a) { return a.key == AttrKey(attr::rounds); });
      outer->ops.pop_back();
      splice(inside, *outer, outer->ops.size());
      b_.setBlock(outer);
    } else {
      b_.yield({});
      b_.setBlock(when->region(1));
      b_.yield({});
      b_.setBlock(outer);
    }
    if (usesGroups())
      b_.create(OpKind::AsyncCommit, {}, {});
  }

  bool isLong() const { return clocksOf(body_, target_, options_.numWarps).coverMemory(); }

  /// Before the loop: creates the first iterations' copies, and the loads of iteration `ahead_`. Returns the carried
  /// values of the slice in iteration `ahead_`.
  std::vector<Value *> prologue() {
    Map map = slice_.start();
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
      map = slice_.next(b_, std::move(map));
    }
    if (hasStaged() && !isLong())
      staged_ = stagedLoads(map, loop_.operands[0], ahead_);
    return keyValues(map);
  }
  /// The values that prologue() returns, without its copies.
  std::vector<Value *> valuesAhead() {
    Map map = slice_.start();
    for (int64_t i = 0; i < ahead_; ++i)
      map = slice_.next(b_, std::move(map));
    return keyValues(map);
  }
  std::vector<Value *> keyValues(Map &map) {
    std::vector<Value *> out{map[body_.args[0]]};
    for (Value *v : slice_.carried())
      out.push_back(map[v]);
    return out;
  }

  /// `top`: waits for this iteration's tiles. `middle`: starts a later iteration's copies.
  void copiesAhead(Block &top, Block &middle, const std::vector<Value *> &inits) {
    std::vector<Value *> keys{body_.args[0]};
    keys.insert(keys.end(), slice_.carried().begin(), slice_.carried().end());
    Map map;
    std::vector<Value *> carried;
    for (size_t i = 0; i < keys.size(); ++i) {
      carried.push_back(carry(inits[i], keys[i]->name.empty() ? "ahead" : keys[i]->name + ".ahead"));
      map[keys[i]] = carried.back();
    }
    b_.setLoc(loop_.loc);
    b_.setBlock(&top);
    // Branches that addresses need stand before the products, so that no branch separates the products from the copies.
    slice_.copyBranches(b_, map);
    std::vector<Value *> loaded;
    if (hasStaged() && staged_.empty()) // an iteration is long
      stagedLoads(map, body_.args[0], ahead_);
    for (size_t i = 0; i < staged_.size(); ++i)
      map[stagedLoads_[i]->result()] = loaded.emplace_back(carry(staged_[i], stagedLoads_[i]->result()->name));
    b_.setLoc(loop_.loc);
    if (barriers_.full)
      waitFor(barriers_.full, slot_[stages_], phase_, false);
    if (usesGroups())
      b_.create(OpKind::AsyncWait, {}, {}, {{attr::pending, ahead_ - 1}});
    if (usesGroups() || hasStaged()) {
      bool fence = anyRing([](const Ring &r) { return r.isCopied && r.feedsAsyncDot && needsProxyFence(*r.source); });
      b_.create(OpKind::SharedBarrier, {}, {}, {{attr::fence, fence}});
    }
    b_.setBlock(&middle);
    if (isBehindReads_ || isBehindWait_)
      b_.create(OpKind::SharedBarrier, {}, {}, {{attr::fence, false}});
    std::map<unsigned, Value *> to;
    for (const Ring &r : rings_)
      if (r.isCopied && !r.inStages && !to.count(r.slots))
        to[r.slots] = r.slots == ahead_ ? slot_[r.slots] : nextSlot(slot_[r.slots], r.slots, ahead_);
    copies(
        runsAhead(b_, loop_, body_.args[0], ahead_), map,
        [&](const Ring &r) { return r.inStages ? fill_ : to[r.slots]; }, true, arePredicated());
    Map after = slice_.next(b_, std::move(map));
    for (size_t i = 0; i < keys.size(); ++i)
      carryOn(carried[i], after[keys[i]]);
    // After the stores: one register is enough, and the first wait for these loads is at the next iteration's stores.
    std::vector<Value *> later = loaded.empty() ? loaded : stagedLoads(after, body_.args[0], ahead_ + 1);
    for (size_t i = 0; i < later.size(); ++i)
      carryOn(loaded[i], later[i]);
  }

  /// Creates the loads of staged tiles for the iteration of `map`, `distance` iterations after `iv`. A staged load has
  /// one iteration to arrive in registers: the iteration that stores it if that is long, which keeps fewer registers,
  /// or the one before.
  std::vector<Value *> stagedLoads(Map &map, Value *iv, int64_t distance) {
    std::vector<Value *> out;
    Value *runs = runsAhead(b_, loop_, iv, distance);
    for (const Op *load : stagedLoads_) {
      std::vector<Value *> operands;
      for (Value *o : load->operands)
        operands.push_back(slice_.copy(b_, o, map));
      map[load->result()] = out.emplace_back(LoopSlice::cloneLoad(b_, *load, std::move(operands), runs)->result());
    }
    return out;
  }

  std::vector<Value *> staged_; // before the loop: the results of stagedLoads_ in iteration ahead_
  std::optional<TileLoop> tiles_;
  // a template over tileRuns_, parameterSlot_, parameterPhase_ and values of a tile
  Block tilePrologue_;
  Value *tileRuns_ = nullptr, *parameterSlot_ = nullptr, *parameterPhase_ = nullptr;
  Value *tileSlot_ = nullptr, *tilePhase_ = nullptr; // the ring's current stage when a tile begins
  Value *fill_ = nullptr, *fillPhase_ = nullptr;    // the stage to be filled next, and the parity of its being free
};

void visit(Module &m, Block &b, const TargetInfo &target, Options &options, DiagEngine *remarks) {
  std::vector<Op *> loops;
  for (Op *op : std::vector<Op *>(b.ops)) { // a copy: operations are inserted before a loop over tiles
    for (Region *r : op->regions)
      visit(m, *r->block, target, options, remarks);
    if (op->kind == OpKind::While && options.numStages >= 2)
      LoopRemarks(*op, options, remarks).notPipelined(*obstacleOfLoop(*op));
    if (op->kind == OpKind::For && !op->pipelined() && stagesOf(*op, options) >= 2)
      loops.push_back(op);
  }
  for (Op *loop : loops) {
    LoopPipeliner pipeliner(m, *loop, target, options, remarks);
    pipeliner.run();
    options.askedCrowd = std::max(options.askedCrowd, pipeliner.askedCrowd());
  }
}

} // namespace

void pipelineLoops(Module &m, const TargetInfo &target, Options &options, DiagEngine *remarks) {
  visit(m, *m.kernel()->block(), target, options, remarks);
}

} // namespace tegula::gpu
