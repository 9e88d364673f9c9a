// See PipelinedLoop.h.
#include "gpu/loops/PipelinedLoop.h"
#include "gpu/BlockEdit.h"
#include "gpu/Dots.h"
#include "gpu/Layouts.h"
#include "gpu/loops/CopyLoads.h"
#include "gpu/shared/SharedNeeds.h"
#include "gpu/shared/Tiles.h"
#include "layout/Constructors.h"
#include "layout/Conversion.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

// ---- decisions

bool PipelinedLoop::plan() {
  if (std::optional<std::string> reason = obstacleOfLoop(loop_))
    return remarks_.notPipelined(*reason), false;
  if (!hasDot(loop_))
    return remarks_.notPipelined("it has no dot, and loads are started early only for those"), false;
  findCopies();
  findAsyncRings(body_);
  findAsyncDots();
  if (rings_.empty() && waits_.waits.empty()) {
    if (loadsOfDots(body_).empty())
      remarks_.notPipelined("nothing is loaded in it that its dots are computed from");
    return false;
  }
  return fitMemory();
}

/// Whatever brings the first dot's tiles need not wait for those that only the second one reads (attention: the values). Of two stages alone, where the first dot's could not be filled
/// ahead otherwise; the second wait costs more than it gains where there are three (docs/performance-history.md).
void PipelinedLoop::findLate() {
  leaveLate();
  if (options_.numCtas > 1 || dots_.size() < 2 || stages_ > 2)
    return;
  for (Ring &r : rings_) {
    const Value *v = r.source->result();
    std::vector<Op *> users = usersIn(body_, v);
    while (users.size() == 1 && (users[0]->kind == OpKind::Permute || users[0]->kind == OpKind::Reshape || users[0]->kind == OpKind::ToShared)) {
      v = users[0]->result();
      users = usersIn(body_, v);
    }
    r.isLate = r.inStages && users.size() == 1 && users[0] == dots_[1] && ringOfTile(v) == &r;
  }
  if (!anyRing([](const Ring &r) { return r.inStages && !r.isLate; }))
    leaveLate();
}

void PipelinedLoop::leaveLate() {
  for (Ring &r : rings_)
    r.isLate = false;
}

void PipelinedLoop::waitForLate() {
  if (!barriers_.lateFull)
    return;
  Block here;
  b_.setBlock(&here);
  b_.setLoc(loop_.loc);
  b_.setInlinedAt(loop_.inlinedAt);
  waitFor(barriers_.lateFull, slot_[stages_], phase_, false);
  splice(here, body_, positionOf(body_, dots_[1]));
}

/// The layout a tile of this load has if asynchronous dots are to read it directly; 0 if no user wants that.
uint16_t PipelinedLoop::wantedLayout(const Value *v) {
  for (const Op *user : usersIn(body_, v)) {
    if (user->kind == OpKind::ToShared)
      return user->result()->type.layout;
    if (user->kind == OpKind::Permute || user->kind == OpKind::Reshape)
      if (uint16_t l = wantedLayout(user->result()))
        return module_.internLayout(operandLayout(*user, LinearLayout(module_.layouts[l - 1u])));
  }
  return 0;
}

/// The tile of a load that threads read in another layout than they have loaded it in: as that has the fewest bank conflicts. Bytes may be turned by matrix moves on the way to a dot; what meets unpacked weights in a product is read eight elements
/// at a time, which in the swizzle that matrix moves want takes two turns.
LinearLayout PipelinedLoop::tileForReads(const Op &load, LinearLayout plain) {
  const Type &t = load.result()->type;
  const unsigned bytes = byteWidth(t.elem);
  if (t.shape.rank() != 2 || load.vec() * bytes != 16)
    return plain;
  const unsigned axis = contiguousAxis(module_.layoutOf(t), bytes);
  for (const Op *user : usersIn(body_, load.result())) {
    if (user->kind != OpKind::Convert)
      continue;
    const LinearLayout read = module_.layoutOf(user->result()->type);
    if (std::optional<LinearLayout> rows = rowsForTurns(t, read, axis, load.vec(), target_.conversions()))
      return *rows;
    auto wavefronts = [&](const LinearLayout &tile) {
      const layout::SharedSide side = layout::planSharedAccess(read, tile, 8 * bytes, /*store=*/false, target_.conversions());
      return side.accesses.size() * side.wavefronts;
    };
    LinearLayout rows = layout::sharedRows(read, axis, load.vec(), 8 * bytes);
    return wavefronts(rows) < wavefronts(plain) ? rows : plain;
  }
  return plain;
}

Type PipelinedLoop::tileOf(const Op &load) {
  const Type &t = load.result()->type;
  if (load.kind == OpKind::DescLoad)
    return Type::shared(t.shape, t.elem, module_.internLayout(target_.blockTile(load)));
  // Operands of 8 and 32 bits lie K-major for asynchronous dots. Where the load has them the other way round, they pass through registers.
  uint16_t l = wantedLayout(load.result());
  int64_t vec = load.vec();
  const LinearLayout registers = module_.layoutOf(t);
  const bool isTurned = l && !keepsVectors(LinearLayout(module_.layouts[l - 1u]), registers, vec);
  if (isTurned && t.shape.rank() == 2 && vec * byteWidth(t.elem) == 16) // those that copy it read it
    l = module_.internLayout(layout::sharedRows(registers, contiguousAxis(registers, byteWidth(t.elem)), vec, 8 * byteWidth(t.elem)));
  else if (!l || isTurned)
    l = module_.internLayout(tileForReads(load, plainTile(t, registers, vec)));
  return Type::shared(t.shape, t.elem, l);
}

/// The loads that `v` is computed from in the body by arithmetic, if they are of few elements each and their addresses known ahead; nothing otherwise.
std::optional<std::vector<const Op *>> PipelinedLoop::stagedLoadsOf(const Value *v) {
  constexpr int64_t mostOfThread = 8;
  const int64_t most = mostOfThread * target_.lanes() * options_.numWarps;
  std::vector<const Op *> loads;
  std::unordered_set<const Op *> seen;
  auto walk = [&](auto &&self, const Value *x) -> bool {
    const Op *op = x->def;
    if (!slice_.isInside(x) || !op || !seen.insert(op).second)
      return true;
    if (op->kind == OpKind::Load) {
      loads.push_back(op);
      return op->result()->type.isTensor() && std::all_of(op->operands.begin(), op->operands.end(), [&](const Value *o) { return slice_.add(o); });
    }
    return op->kind != OpKind::Convert && std::all_of(op->operands.begin(), op->operands.end(), [&](const Value *o) { return self(self, o); });
  };
  if (!walk(walk, v) || loads.empty() || !slice_.add(v, most))
    return std::nullopt;
  return loads;
}

/// Are the addresses and the mask?
bool PipelinedLoop::isKnownAhead(const Op &load) {
  // An index, or one for each row of a tile.
  const int64_t mostIndices = startsCopies_ || gathers_ ? 512 : 0;
  return std::ranges::all_of(load.operands, [&](const Value *v) { return slice_.add(v, mostIndices); });
}

/// Is `v` what one load gives, at most widened, and can that be copied ahead? The conversion between threads reads the copy then (HoistConverts.h).
bool PipelinedLoop::isCopyable(const Value *v) {
  while (v->def && slice_.isInside(v) && v->def->operands.size() == 1 && (v->def->has(traits::Elementwise) || renames(v->def->kind)))
    v = v->def->operands[0];
  return v->def && slice_.isInside(v) && v->def->kind == OpKind::Load && !obstacleOfCopy(*v->def) && isKnownAhead(*v->def);
}

/// Conversions between threads of what few loaded elements are computed to: zeros of groups that are unpacked. Their exchange is moved ahead, where the
/// ring's barrier serves it too.
void PipelinedLoop::findStaged() {
  std::unordered_set<const Op *> loads;
  for (Op *op : body_.ops) {
    if (op->kind != OpKind::Convert || op->result()->type.isPtr || op->result()->type.elem == Elem::I1)
      continue;
    const LinearLayout &from = module_.layoutOf(op->operands[0]->type), &to = module_.layoutOf(op->result()->type);
    // Whole operands come by copies of what is loaded.
    constexpr uint64_t mostBytes = 8192;
    if (layout::exchangeScope(from, to) <= layout::ExchangeScope::Warp || slotBytes(op->result()->type) > mostBytes)
      continue;
    std::vector<Op *> users = usersIn(body_, op->result());
    if (std::any_of(users.begin(), users.end(), [](const Op *user) { return user->kind == OpKind::ToShared || user->kind == OpKind::Dot; }) || isCopyable(op->operands[0]))
      continue;
    std::optional<std::vector<const Op *>> of = stagedLoadsOf(op->operands[0]);
    if (!of)
      continue;
    loads.insert(of->begin(), of->end());
    const Type &t = op->result()->type;
    Ring r;
    r.source = op;
    r.tile = Type::shared(t.shape, t.elem, module_.internLayout(layout::sharedByThreads(to)));
    r.isCopied = r.isStaged = true;
    rings_.push_back(r);
  }
  for (const Op *op : body_.ops)
    if (loads.count(op))
      stagedLoads_.push_back(op);
}

void PipelinedLoop::findCopies() {
  remarks_.otherLoads(loadsOfDots(body_));
  if (startsCopies_)
    findStaged();
  std::unordered_set<const Op *> staged;
  for (const Ring &r : rings_)
    staged.insert(r.source);
  const std::vector<Op *> loads = loadsOfDots(body_, staged);
  for (Op *load : loads) {
    if (std::optional<std::string> reason = obstacleOfCopy(*load)) {
      remarks_.notCopied(*load, *reason);
      continue;
    }
    if (!isKnownAhead(*load)) {
      remarks_.notComputedAhead(*load);
      continue;
    }
    Ring r;
    r.source = load;
    r.tile = tileOf(*load);
    r.isCopied = true;
    r.inStages = load->kind == OpKind::DescLoad || gathers_;
    rings_.push_back(r);
  }
  // Alone they are no reason for rings.
  if (std::all_of(rings_.begin(), rings_.end(), [](const Ring &r) { return r.isStaged; })) {
    rings_.clear();
    stagedLoads_.clear();
  }
}

Ring *PipelinedLoop::ringOf(const Op *source) {
  auto it = std::find_if(rings_.begin(), rings_.end(), [&](const Ring &r) { return r.source == source; });
  return it == rings_.end() ? nullptr : &*it;
}

/// The ring a dot's tile comes from; null if the tile does not change in the loop or has no ring. Whether the tile of a load is read directly is
/// asked of this user alone, exactly as useTile() will: other users of the load may want it another way round.
Ring *PipelinedLoop::ringOfTile(const Value *tile) {
  const Op *op = tile->def;
  if (!op || op->parent != &body_)
    return nullptr;
  if (Ring *r = ringOf(op))
    return r;
  std::vector<const Op *> views;
  for (op = op->operands[0]->def; op && op->parent == &body_ && (op->kind == OpKind::Permute || op->kind == OpKind::Reshape);) {
    views.push_back(op);
    op = op->operands[0]->def;
  }
  Ring *r = op && op->parent == &body_ ? ringOf(op) : nullptr;
  if (!r || !r->isCopied || r->isStaged)
    return nullptr;
  uint16_t layout = r->tile.layout;
  for (auto view = views.rbegin(); view != views.rend(); ++view)
    layout = module_.internLayout(resultLayout(**view, LinearLayout(module_.layouts[layout - 1u])));
  return layout == tile->type.layout ? r : nullptr;
}

/// What gives a dot the registers of its A is done right in front of it: last iteration's dot, which reads the same registers, has until then.
void PipelinedLoop::makeFragmentsLate(const Op &dot) {
  Op *made = dot.operands[0]->def;
  const std::vector<Value *> &yields = body_.terminator()->operands;
  if (dot.operands[0]->type.isShared || !made || made->parent != &body_ || !made->has(traits::Pure) || !made->has(traits::Elementwise) ||
      std::count_if(body_.ops.begin(), body_.ops.end(), [&](const Op *op) { return uses(*op, made->result()); }) != 1 || std::count(yields.begin(), yields.end(), made->result()))
    return;
  std::erase(body_.ops, made);
  body_.ops.insert(body_.ops.begin() + static_cast<long>(positionOf(body_, &dot)), made);
}

/// What asynchronous dots read was written by other means: a fence stands between. That holds for asynchronous dots that are waited for at once, too, as those with
/// accumulators of 16 bits, and for those under an `if`.
void PipelinedLoop::findAsyncRings(const Block &block) {
  for (const Op *op : block.ops) {
    for (const Region *r : op->regions)
      findAsyncRings(*r->block);
    if (op->kind != OpKind::Dot || !isAsyncMma(*op))
      continue;
    for (unsigned i = 0; i < 2; ++i)
      if (Ring *r = op->operands[i]->type.isShared ? ringOfTile(op->operands[i]) : nullptr)
        r->feedsAsyncDot = true;
  }
}

/// Branches that use the result of a dot which is used behind them, too, give it back: what stands behind uses one value, waited for or not.
void PipelinedLoop::giveBack(Value *result) {
  for (size_t i = 0; i < body_.ops.size(); ++i) {
    Op *op = body_.ops[i];
    auto isUsed = [&](const Op *o) { return uses(*o, result); };
    if (op->kind != OpKind::If || !isUsed(op) || std::none_of(body_.ops.begin() + static_cast<long>(i) + 1, body_.ops.end(), isUsed))
      continue;
    for (Region *side : op->regions)
      side->block->terminator()->operands.push_back(result);
    Value *after = module_.addResult(op, result->type);
    replaceUses(body_, result, after, i + 1);
    result = after;
  }
}

void PipelinedLoop::findAsyncDots() {
  std::vector<Op *> dots;
  for (Op *op : body_.ops) {
    if (op->kind != OpKind::Dot || !isAsyncMma(*op) || bitWidth(op->result()->type.elem) != 32)
      continue;
    const std::vector<Value *> &yields = body_.terminator()->operands;
    if (std::count(yields.begin(), yields.end(), op->result()) > 1)
      continue;
    dots.push_back(op);
    // What is computed and then stored for asynchronous dots takes turns as well.
    for (unsigned i = 0; i < 2; ++i)
      if (Op *tile = op->operands[i]->def; tile && tile->kind == OpKind::ToShared && tile->parent == &body_ && !ringOfTile(op->operands[i])) {
        Ring r;
        r.source = tile;
        r.tile = tile->result()->type;
        rings_.push_back(r);
      }
  }
  for (const Op *dot : dots) {
    makeFragmentsLate(*dot);
    giveBack(dot->result());
  }
  waits_ = placeDotWaits(body_, dots);
  for (Op *dot : dots)
    for (unsigned i = 0; i < 2; ++i)
      if (Ring *r = dot->operands[i]->type.isShared ? ringOfTile(dot->operands[i]) : nullptr)
        r->staysInFlight |= waits_.isAtEnd(dot);
  dots_ = std::move(dots);
}

/// Bytes that lowering gives a conversion if they are there.
static constexpr uint64_t mostOfScratch = 64 * 1024;

/// Tiles of the body that are in no ring, scratch that its operations will want, buffers of its block stores, and mbarriers.
/// Conversions in branches take turns in `mostInBranch` bytes.
uint64_t PipelinedLoop::bytesOfBody(uint64_t mostInBranch) {
  const uint64_t barriers = hasStages() ? 1024 : bytesToSpare();
  auto isRing = [&](const Op &op) { return ringOfTile(op.result()) != nullptr; };
  const BesideRings rest =
      besideRings(module_, body_, target_, isRing, [&](const Block &b, uint64_t) { return &b == &body_ ? mostOfScratch : mostInBranch; });
  return rest.tiles + rest.scratch + rest.buffers + barriers;
}

/// Iterations of the loop, if constants say how many; else more than anybody counts.
int64_t PipelinedLoop::mostIterations() const {
  const std::optional<int64_t> start = constantInt(loop_.operands[0]), end = constantInt(loop_.operands[1]), step = constantInt(loop_.operands[2]);
  constexpr int64_t many = 1 << 20;
  if (!start || !end || !step || *step <= 0 || *end <= *start)
    return many;
  return std::min(many, (*end - *start - 1) / *step + 1);
}

/// Numbers of slots; bytes of all rings. No ring of tiles that threads copy has more slots than the loop has iterations. Tiles that block copies bring form stages: one slot of each ring, one number of slots.
uint64_t PipelinedLoop::giveSlots(const RingChoice &c) {
  ahead_ = c.ahead;
  turns_ = c.turns;
  stages_ = static_cast<unsigned>(ahead_) + 1 + c.slack;
  uint64_t bytes = 0;
  for (Ring &r : rings_) {
    bool runsOn = r.staysInFlight && !c.isDrained;
    unsigned computed = turns_ == Turns::Single ? 1 : turns_ == Turns::Early ? 2 : 2 + runsOn;
    r.slots = r.inStages ? stages_ : r.isCopied ? static_cast<unsigned>(std::min(mostIterations(), ahead_ + !c.isBehindReads + runsOn)) : computed;
    bytes += slotBytes(r.tile) * r.slots;
  }
  return bytes;
}

/// Makes it the choice. Bytes of shared memory that the loop takes then, with what lives beside it.
uint64_t PipelinedLoop::take(const RingChoice &c) {
  isBehindFirst_ = c.isBehindFirst;
  isBehindReads_ = c.isBehindReads;
  std::optional<uint64_t> &around = around_[isBehindFirst_];
  if (!around)
    around = tilesAround(loop_, placeOfPrologue());
  return bytesBeside_ + *around + giveSlots(c);
}

/// The best first, the smallest last.
std::vector<RingChoice> PipelinedLoop::choices(int64_t wanted) const {
  std::vector<RingChoice> out;
  int64_t fewest = anyRing([](const Ring &r) { return r.isCopied; }) ? 1 : wanted;
  // A stage more lets warpgroups drift apart, so that one computes while the other's asynchronous dots run.
  unsigned most = hasStages() ? isReleasedLate() + (options_.numWarps >= 8) : 0;
  auto add = [&](int64_t ahead, Turns turns) {
    for (unsigned slack = most + 1; slack-- > 0;) {
      out.push_back({ahead, turns, slack});
      if (slack && turns == Turns::Late && hasFirstDot())
        out.push_back({ahead, turns, slack, false, true});
    }
  };
  for (int64_t ahead = wanted; ahead >= fewest; --ahead) {
    add(ahead, Turns::Late);
    add(ahead, Turns::Early);
    if (hasFirstDot())
      out.push_back({ahead, Turns::Late, 0, false, true});
  }
  for (int64_t ahead = wanted; ahead >= fewest; --ahead)
    add(ahead, Turns::Single);
  if (canDrain())
    out.push_back({fewest, Turns::Late, 0, true, hasFirstDot()});
  return out;
}

/// Is all that is computed for dots made of another dot's result of the same iteration? The wait for that one is one for the last iteration's as well.
bool PipelinedLoop::canDrainComputed() const {
  if (!usesGroups() || hasStages())
    return false; // threads that copy meet at the top of each iteration
  std::unordered_set<const Value *> ofDots;
  for (const Op *op : body_.ops)
    if (std::ranges::find(dots_, op) != dots_.end() || std::ranges::any_of(op->operands, [&](const Value *v) { return ofDots.count(v); }))
      ofDots.insert(op->results.begin(), op->results.end());
  return !anyRing([&](const Ring &r) { return !r.isCopied && !ofDots.count(r.source->operands[0]); });
}

/// Do products alone read what is in the tile, as it is? Unpacking takes time in which copies that have started are worth more than a block (int4 by bytes, 16 rows: 0.94).
static bool feedsDotsAsItIs(const Block &body, const Value *v) {
  return std::ranges::all_of(usersIn(body, v), [&](const Op *u) { return u->kind == OpKind::Dot || ((u->kind == OpKind::Convert || renames(u->kind)) && feedsDotsAsItIs(body, u->result())); });
}

bool PipelinedLoop::canStartBehindReads() const {
  if (!startsCopies_ || !usesGroups() || hasStages() || hasStaged() || !waits_.waits.empty() || hasFirstDot() || options_.numCtas > 1)
    return false;
  const std::vector<Value *> &yields = body_.terminator()->operands;
  return std::ranges::all_of(rings_, [&](const Ring &r) { return r.isCopied && !r.feedsAsyncDot && feedsDotsAsItIs(body_, r.source->result()) && !std::count(yields.begin(), yields.end(), r.source->result()); });
}

/// Blocks on an SM whose registers hold the results of the loop's dots, and what else such a loop has.
uint64_t PipelinedLoop::blocksByRegisters() const {
  const int64_t threads = int64_t{target_.lanes()} * options_.numWarps, needed = registersOfDots(body_, threads);
  uint64_t blocks = 1;
  while (target_.registerLimit(static_cast<unsigned>(threads * static_cast<int64_t>(blocks + 1))) >= needed)
    ++blocks;
  return blocks;
}

/// With fewer than two warpgroups on an SM the tensor cores wait while a warpgroup computes, and four hide more than stages do, above all the beginning and the end of a
/// program: slots beyond those that were asked for are not worth a neighbour. A producer's copies go on meanwhile; there two do. A loop in one over tiles is left alone: its kernel
/// has as many programs as there are SMs, as a rule; but whoever gives attention four warps has two programs for each (a counter of tiles, D=128, 64x64, H200: 341 TFLOP/s with one block for 148 KB, Triton's two 467). So
/// is one that ends tiles itself, in a branch that stores.
RingChoice PipelinedLoop::withNeighbours(const RingChoice &c) {
  const unsigned enoughWarps = startsCopies_ ? 16 : 8;
  constexpr uint64_t reserved = 1024; // of each block on an SM
  bool isOfTiles = false;
  for (const Op *op = loop_.parent->parent->op; op; op = op->parent->parent->op)
    isOfTiles |= goesThroughTiles(*op);
  // CTAs that only share the iterations of a loop compute as much each as one alone. Clusters of two find room on all SMs; of those of 4 and 8 with one block on an SM 30 and 15 run at once (docs/hopper.md), so that
  // a grid of 32 and 16 takes twice as long (512^2 x 16384 by 128 x 64 in 4 parts 49 -> 34 us, by 128 x 128 in 8 50 -> 36). But what TMA copies wants stages more: fewer are 35 -> 45 us there.
  const bool sharesTiles = options_.numCtas > 1 && (!loop_.splitParts() || options_.numCtas == 2 || hasStages());
  if (options_.numWarps >= enoughWarps || sharesTiles || writesGlobal(loop_) || (isOfTiles && (dots_.size() < 2 || options_.numWarps >= 8)))
    return c;
  const uint64_t most = std::min<uint64_t>(enoughWarps / options_.numWarps, blocksByRegisters());
  auto blocks = [&](const RingChoice &x) { return std::min(most, (target_.sharedLimit() + reserved) / (take(x) - bytesToSpare() + reserved)); };
  RingChoice best = c;
  auto consider = [&](const RingChoice &x) {
    if (blocks(x) > blocks(best))
      best = x;
  };
  for (bool isBehindFirst : {false, true})
    if (!isBehindFirst || hasFirstDot()) {
      for (unsigned slack = c.slack + isBehindFirst; slack-- > 0;)
        consider({c.ahead, c.turns, slack, false, isBehindFirst});
      if (canDrain())
        consider({c.ahead, c.turns, 0, true, isBehindFirst});
    }
  // Copies that start later are in time if a block more waits meanwhile, which takes a grid that has one (int8, 16 rows, 32 programs on an H200: 61 -> 74 us, 2048 programs 366 -> 342).
  if (const RingChoice behind{c.ahead, c.turns, 0, false, false, true}; canStartBehindReads() && c.ahead > 1 && blocks(behind) > blocks(best)) {
    constexpr uint32_t sixteenths = 16;
    askedCrowd_ = options_.askedCrowd ? options_.askedCrowd : sixteenths * static_cast<uint32_t>(blocks(best));
    if (options_.crowd > askedCrowd_)
      best = behind;
  }
  // With one slot alone all threads would wait for the last iteration's dots before they store.
  if (c.turns == Turns::Late && anyRing([](const Ring &r) { return !r.isCopied; }))
    consider({c.ahead, Turns::Early, c.slack});
  if (canDrainComputed())
    for (bool isBehindFirst : {false, true})
      if (!isBehindFirst || hasFirstDot())
        consider({c.ahead, Turns::Single, 0, true, isBehindFirst});
  return best;
}

const Op *PipelinedLoop::placeOfEarlyWait() const {
  for (const Op *op : body_.ops)
    for (const Ring &r : rings_)
      if (!r.isCopied) {
        // A slot that is written anew, or the first dot behind whose barrier nobody reads the last iteration's.
        const std::vector<Value *> &used = op->operands;
        bool reads = op->kind == OpKind::Dot && std::find(used.begin(), used.end(), r.source->result()) != used.end();
        if (turns_ == Turns::Single ? op == r.source : turns_ == Turns::Early && reads)
          return op;
      }
  return nullptr;
}

/// What passes through registers (a bias) gives way to the tiles of asynchronous dots: it stays a load in the iteration that uses it. False if there are not both.
bool PipelinedLoop::leaveOthers() {
  auto isOther = [](const Ring &r) { return r.isCopied && !r.inStages && !r.isStaged && !r.feedsAsyncDot; };
  return anyRing([](const Ring &r) { return r.isCopied && r.feedsAsyncDot; }) && std::erase_if(rings_, isOther) > 0;
}

bool PipelinedLoop::fitMemory() {
  const uint64_t limit = target_.sharedLimit();
  const int64_t wanted = std::clamp<int64_t>(stagesOf(loop_, options_) - 1, 1, mostIterations());
  const std::vector<RingChoice> all = choices(wanted);
  // What is beside them is the same for all, but that a branch, which many iterations pass by, does with less before the rings do.
  std::vector<uint64_t> beside;
  for (uint64_t most : {mostOfScratch, mostOfScratch / 2, mostOfScratch / 4})
    beside.push_back(bytesOfBody(most));
  auto first = std::find_if(all.begin(), all.end(), [&](const RingChoice &c) {
    return std::any_of(beside.begin(), beside.end(), [&](uint64_t bytes) { return bytesBeside_ = bytes, take(c) <= limit; });
  });
  if (first == all.end()) {
    if (leaveOthers())
      return fitMemory();
    remarks_.shortOfMemory(0, wanted, take(all.back()), limit);
    return false;
  }
  if (first->ahead < wanted)
    remarks_.shortOfMemory(first->ahead, wanted, take({wanted, first->turns}), limit);
  const RingChoice chosen = withNeighbours(*first);
  take(chosen);
  const Op *early = chosen.isDrained ? body_.terminator() : placeOfEarlyWait();
  if (early)
    waits_ = placeDotWaits(body_, dots_, early);
  if (chosen.isDrained)
    for (Ring &r : rings_)
      r.staysInFlight = false;
  isDrained_ = chosen.isDrained;
  firstStore_ = turns_ == Turns::Single && !isDrained_ ? early : nullptr;
  findLate();
  return true;
}

void PipelinedLoop::setStages(unsigned n) {
  stages_ = n;
  for (Ring &r : rings_)
    if (r.inStages)
      r.slots = n;
  findLate();
}

// ---- the new loop

StageBarriers makeStageBarriers(Builder &b, unsigned stages, unsigned consumers, bool hasLate, unsigned ctas, unsigned fillers) {
  Type type = Type::shared({1}, Elem::I64, 0);
  auto make = [&](unsigned arrivals) { return b.create1(OpKind::BarrierAlloc, {}, type, {{attr::slots, stages}, {attr::arrivals, arrivals}}); };
  StageBarriers out{make(fillers), make(consumers * ctas)};
  if (ctas > 1) // behind it both are there for all CTAs
    out.empty->def->set(attr::ctas, ctas);
  if (hasLate) {
    out.lateFull = make(fillers);
    out.lateEmpty = make(consumers);
  }
  return out;
}

bool PipelinedLoop::isShared(const Ring &r, unsigned ctas) const {
  return ctas > 1 && r.inStages && r.source->whole() && target_.canMulticast(r.tile, ctas);
}

Value *PipelinedLoop::carry(Value *init, std::string name) { return gpu::carry(module_, loop_, init, std::move(name)); }
void PipelinedLoop::carryOn(const Value *arg, Value *next) { gpu::carryOn(loop_, arg, next); }

void PipelinedLoop::fillStage(Value *slot, Value *freePhase, const std::function<Value *(Value *)> &of) {
  for (bool late : {false, true}) {
    auto isMine = [&](const Ring &r) { return r.inStages && r.isLate == late; };
    int64_t bytes = 0; // of block copies
    for (const Ring &r : rings_)
      bytes += isMine(r) && r.source->kind == OpKind::DescLoad ? r.tile.numel() * byteWidth(r.tile.elem) : 0; // without the padding of slots
    if (!anyRing(isMine))
      continue;
    if (freePhase)
      waitFor(barriers_.emptyOf(late), slot, freePhase, !gathers_);
    Value *full = barrierAt(barriers_.fullOf(late), slot);
    if (bytes)
      b_.create(OpKind::BarrierExpect, {&full, 1}, {}, {{attr::bytes, bytes}});
    for (const Ring &r : rings_) {
      if (!isMine(r))
        continue;
      const bool isBlock = r.source->kind == OpKind::DescLoad;
      std::vector<Value *> operands{b_.create1(OpKind::SharedSlot, {r.memory, slot}, r.tile)};
      if (isBlock)
        operands.push_back(full);
      for (size_t i = 0; i < r.source->operands.size() && (isBlock || i < 2); ++i) // what masked elements are is zero
        operands.push_back(of(r.source->operands[i]));
      b_.setLoc(r.source->loc);
      b_.setInlinedAt(r.source->inlinedAt);
      const OpKind kind = isBlock ? OpKind::TmaCopy : OpKind::AsyncCopy;
      Op *copy = b_.create(kind, operands, {}, r.source->attrsFor(kind));
      if (isShared(r, ctas_))
        copy->set(attr::multicast, ctas_);
    }
    if (gathers_) {
      Value *arrival[] = {full, b_.constInt(Type::scalar(Elem::I1), 1)};
      b_.create(OpKind::BarrierArrive, arrival, {}, {{attr::copied, true}});
    }
  }
}

void PipelinedLoop::carryStages(Value *slot, Value *phase) {
  for (const Ring &r : rings_)
    if (!slot_.count(r.slots))
      slot_[r.slots] = carry(barriers_.full && r.slots != stages_ ? b_.constI32(0) : slot, "slot");
  if (barriers_.full) {
    phase_ = carry(phase, "phase");
    last_ = carry(slot, "last");
  }
}

/// This warp is done with a stage of the late rings or the others: its CTA hears it, or all that fill it.
void PipelinedLoop::release(bool late, Value *stage, Value *when) {
  Value *operands[] = {barrierAt(barriers_.emptyOf(late), stage), when};
  Op *op = b_.create(OpKind::BarrierArrive, operands, {});
  if (ctas_ > 1)
    op->set(attr::ctas, ctas_);
}

void PipelinedLoop::nextStage() {
  if (barriers_.full) {
    Value *slot = slot_[stages_];
    for (bool late : {false, true}) {
      if (!barriers_.emptyOf(late))
        continue;
      if (!isReleasedLate(late))
        release(late, slot, b_.constInt(Type::scalar(Elem::I1), 1));
      else if (!isReleasedBehindWait())
        release(late, last_, hasLast());
    }
    carryOn(last_, slot);
    carryOn(phase_, flip(phase_, slot, stages_));
  }
  for (auto [slots, arg] : slot_)
    carryOn(arg, nextSlot(arg, slots, 1));
}

void PipelinedLoop::releaseBehindWait() {
  if (!isReleasedBehindWait())
    return;
  Block here;
  b_.setBlock(&here);
  b_.setLoc(loop_.loc);
  b_.setInlinedAt(loop_.inlinedAt);
  for (bool late : {false, true})
    if (isReleasedLate(late))
      release(late, last_, hasLast());
  splice(here, body_, positionOf(body_, oldWait_) + 1);
}

void PipelinedLoop::releaseLastStage() {
  for (bool late : {false, true})
    if (isReleasedLate(late))
      release(late, resultOf(last_), runsAhead(b_, loop_, loop_.operands[0], 0));
}

void PipelinedLoop::useRings(size_t top) {
  for (const Ring &r : rings_)
    r.isCopied ? useCopies(r, top) : storeInTurn(r);
}

/// Every thread reads exactly what it has copied itself.
bool PipelinedLoop::readsOwnCopies(const Op &load) const {
  const Op *memory = load.operands[0]->def;
  while (memory && memory->kind != OpKind::SharedAlloc)
    memory = memory->operands[0]->def;
  for (const Ring &r : rings_)
    if (memory && r.memory->def == memory && r.isCopied && !r.inStages) {
      const Type &copied = r.source->operands[0]->type;
      const LinearLayout &l = module_.layoutOf(copied);
      return copied.layout == load.result()->type.layout && !l.freeMask(layout::Dim::Lane) && !l.freeMask(layout::Dim::Warp);
    }
  return false;
}

/// Where a computed operand brings a barrier of its own in front of the dots, that one serves the copies as well, if nothing
/// before it looks at what other threads copied.
void PipelinedLoop::dropFirstBarrier() {
  if (isDrained_ && turns_ == Turns::Single)
    return; // behind it the only slot of a computed operand is free
  auto isBarrier = [](const Op *op) { return op->kind == OpKind::SharedBarrier; };
  auto first = std::find_if(body_.ops.begin(), body_.ops.end(), isBarrier);
  if (first == body_.ops.end())
    return;
  auto second = std::find_if(first + 1, body_.ops.end(), isBarrier);
  if (second == body_.ops.end() || (*second)->fence() < (*first)->fence())
    return;
  bool needed = std::any_of(first + 1, second, [&](const Op *op) {
    bool own = op->kind == OpKind::SharedLoad ? readsOwnCopies(*op) : op->has(traits::Pure) && op->kind != OpKind::Dot;
    return !own && op->kind != OpKind::SharedStore;
  });
  if (needed)
    return;
  for (auto op = body_.ops.begin(); op != first; ++op)
    if ((*op)->kind == OpKind::AsyncWait)
      (*op)->set(attr::syncsWarp, true);
  body_.ops.erase(first);
}

size_t PipelinedLoop::placeOfPrologue() const {
  return positionOf(*loop_.parent, &loop_) - (isBehindFirst_ ? 0 : opsOfFirstDot(loop_));
}

size_t PipelinedLoop::placeBehind() const {
  size_t at = positionOf(*loop_.parent, &loop_) + 1;
  return at + (loop_.parent->ops[at]->kind == OpKind::DotWait);
}

Value *PipelinedLoop::nextSlot(Value *slot, unsigned slots, int64_t distance) {
  Value *n = b_.constI32(static_cast<int32_t>(slots));
  Value *sum = b_.binary(OpKind::Add, slot, b_.constI32(static_cast<int32_t>(distance)));
  return b_.select(b_.cmp(CmpPred::Sge, sum, n), b_.binary(OpKind::Sub, sum, n), sum);
}

void PipelinedLoop::waitFor(Value *ring, Value *slot, Value *phase, bool one) {
  Value *operands[] = {barrierAt(ring, slot), phase};
  b_.create(OpKind::BarrierWait, operands, {}, {{attr::one, one}});
}

Value *PipelinedLoop::flip(Value *phase, Value *slot, unsigned slots) {
  Value *wraps = b_.cmp(CmpPred::Eq, slot, b_.constI32(static_cast<int32_t>(slots) - 1));
  return b_.select(wraps, b_.binary(OpKind::Xor, phase, b_.constI32(1)), phase);
}

/// The tile of this iteration takes the place of the load.
void PipelinedLoop::useCopies(const Ring &r, size_t top) {
  Block here;
  b_.setBlock(&here);
  b_.setLoc(r.source->loc);
  b_.setInlinedAt(r.source->inlinedAt);
  Value *tile = b_.create1(OpKind::SharedSlot, {r.memory, slot_[r.slots]}, r.tile);
  splice(here, body_, top);
  if (!r.isStaged)
    useTile(module_, body_, r.source->result(), tile);
  if (auto user = std::find_if(body_.ops.begin(), body_.ops.end(), [&](const Op *op) { return uses(*op, r.source->result()); }); user != body_.ops.end()) {
    // As late as can be: an operand that is widened has left its registers before the next one needs them.
    b_.setBlock(&here);
    Value *loaded = b_.create1(OpKind::SharedLoad, {tile}, r.source->result()->type);
    splice(here, body_, static_cast<size_t>(user - body_.ops.begin()));
    replaceUses(body_, r.source->result(), loaded);
  }
  std::erase(body_.ops, r.source);
}

/// A computed operand: stored to the next slot; a barrier before the dot that reads it.
void PipelinedLoop::storeInTurn(const Ring &r) {
  Block here;
  b_.setBlock(&here);
  b_.setLoc(r.source->loc);
  b_.setInlinedAt(r.source->inlinedAt);
  Value *tile = b_.create1(OpKind::SharedSlot, {r.memory, slot_[r.slots]}, r.tile);
  Value *operands[] = {tile, r.source->operands[0]};
  if (r.source == firstStore_)
    b_.create(OpKind::SharedBarrier, {}, {}, {{attr::fence, false}});
  b_.create(OpKind::SharedStore, operands, {});
  // As early as can be; a single slot is free only where the waits are.
  Op *made = r.source->operands[0]->def;
  for (; made && made->parent == &body_ && (made->kind == OpKind::Permute || made->kind == OpKind::Reshape); made = made->operands[0]->def)
    here.ops.insert(here.ops.begin(), made);
  if (turns_ != Turns::Single && made && made->parent == &body_) {
    std::erase_if(body_.ops, [&](const Op *op) { return std::find(here.ops.begin(), here.ops.end(), op) != here.ops.end(); });
    splice(here, body_, positionOf(body_, made) + 1);
  } else {
    std::erase_if(here.ops, [&](const Op *op) { return op->parent == &body_; });
    splice(here, body_, positionOf(body_, r.source));
  }
  replaceUses(body_, r.source->result(), tile);
  std::erase(body_.ops, r.source);
  for (size_t i = positionOf(body_, tile->def); i < body_.ops.size(); ++i)
    if (body_.ops[i]->kind == OpKind::Dot && std::find(body_.ops[i]->operands.begin(), body_.ops[i]->operands.end(), tile) != body_.ops[i]->operands.end()) {
      if (body_.ops[i - 1]->kind != OpKind::SharedBarrier) {
        b_.setBlock(&here);
        b_.create(OpKind::SharedBarrier, {}, {}, {{attr::fence, true}});
        splice(here, body_, i);
      }
      break;
    }
}

void PipelinedLoop::insertWaits() {
  for (Op *dot : dots_)
    dot->set(attr::isAsync, true);
  for (const DotWaitPoint &w : waits_.waits) {
    Block &block = *w.before->parent;
    Op *op = wait(block, positionOf(block, w.before), w.pending(), w.values);
    replaceUses(block, w.values, op->results, positionOf(block, op) + 1);
    if (w.before == waits_.oldDone)
      oldWait_ = op;
  }
  if (waits_.atEnd.empty())
    return;
  // Behind the loop: everything.
  std::vector<Value *> results;
  for (size_t i = 0; i < loop_.results.size(); ++i)
    if (const Value *v = body_.terminator()->operands[i]; v && std::find(waits_.yielded.begin(), waits_.yielded.end(), v) != waits_.yielded.end())
      results.push_back(loop_.results[i]);
  Block &outer = *loop_.parent;
  Op *op = wait(outer, positionOf(outer, &loop_) + 1, 0, results);
  op->set(attr::behindLoop, true);
  takeUsers(results, *op);
}

/// Those that use the values are left to the caller.
Op *PipelinedLoop::wait(Block &block, size_t position, int64_t pending, const std::vector<Value *> &values) {
  Block here;
  b_.setBlock(&here);
  std::vector<Type> types;
  for (const Value *v : values)
    types.push_back(v->type);
  b_.setLoc(block.ops[position < block.ops.size() ? position : block.ops.size() - 1]->loc);
  Op *op = b_.create(OpKind::DotWait, values, types, {{attr::pending, pending}});
  splice(here, block, position);
  return op;
}

} // namespace tegula::gpu
