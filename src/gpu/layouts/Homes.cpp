// See Homes.h.
#include "gpu/layouts/Homes.h"
#include "gpu/BlockEdit.h"
#include "gpu/Layouts.h"
#include "gpu/layouts/EqualAddresses.h"
#include "gpu/layouts/NeighbourSteps.h"
#include "gpu/layouts/TurnedTiles.h"
#include "ir/Walk.h"
#include "layout/Conversion.h"
#include <algorithm>
#include <set>

namespace tegula::gpu {

using namespace ir;

LinearLayout layoutOfPairs(const Value *operand, const LinearLayout &l) {
  LinearLayout pairs = layout::splittable(l);
  const Op *joined = operand->def;
  for (unsigned steps = 0;
       joined && (renames(joined->kind) || joined->has(traits::Elementwise)) && !joined->operands.empty() && steps < 8;
       ++steps)
    joined = joined->operands[0]->def;
  if (pairs == l || !joined || joined->kind != OpKind::Join || l.ins()[0].dim != layout::Dim::Register ||
      l.inBits(layout::Dim::Register) < 2 || !l.bases(layout::Dim::Register)[0])
    return pairs;
  // splittable() gives up the last register bit; a join's pairs are in the first one.
  std::vector<uint64_t> bases(l.bases().begin(), l.bases().end());
  std::rotate(bases.begin(), bases.begin() + 1, bases.begin() + l.inBits(layout::Dim::Register));
  return layout::splittable(LinearLayout(l.ins(), l.outs(), bases));
}

Homes::Homes(const Function &f, Module &out, const TargetInfo &target, unsigned warps)
    : f_(f), out_(out), target_(target), warps_(warps), facts_(f) {
  users_.add(*f.block());
  joined_.emplace(users_, *f.block());
  settle();
  // Releases one operation at a time, because others may wait for its decision. The bound limits compile time.
  for (unsigned round = 0; waiting_ && round < 16; ++round) {
    released_.insert(waiting_);
    settle();
  }
  waits_ = false;
  settle();
  openCarried(*f.block());
  settle();
  last_ = true;
  giveDefaults(*f.block());
}

Home Homes::worksIn(const Op &op) const {
  if (const Op *scan = op.kind == OpKind::Scan ? &op : scanBeside(users_, op))
    return {out_.internLayout(
                layout::dealtAlong(scan->operands[0]->type.shape, static_cast<unsigned>(scan->axis()), threads())),
            Rank::Other};
  return source(*std::max_element(op.operands.begin(), op.operands.end(),
                                  [&](const Value *a, const Value *b) { return of(a).rank < of(b).rank; }));
}

Home Homes::of(const Value *v) const {
  if (v->def && (v->def->kind == OpKind::Splat || v->def->kind == OpKind::Broadcast))
    return {};
  if (v->def && renames(v->def->kind)) {
    const std::optional<Repeated> repeated = repeatedBy(*v->def);
    Home h = of(repeated ? repeated->of : v->def->operands[0]);
    if (repeated && h.rank != Rank::Memory)
      return {};
    if (h.layout)
      h.layout = out_.internLayout(repeated ? layout::repeat(layoutOf(h), repeated->axis, repeated->times)
                                            : resultLayout(*v->def, layoutOf(h)));
    return h;
  }
  auto it = home_.find(v);
  return it == home_.end() ? Home{} : it->second;
}

LinearLayout Homes::layoutFor(const Value *v) const {
  Home h = of(v);
  return h.layout ? layoutOf(h) : layout::dealtByRows(v->type.shape, threads());
}

bool Homes::isCheap(const Value *v) const {
  if (v->type.isScalar())
    return true;
  if (!v->def)
    return false;
  auto [it, isNew] = cheap_.try_emplace(v, false);
  if (!isNew)
    return it->second;
  OpKind k = v->def->kind;
  bool cheap = k == OpKind::Const || k == OpKind::Poison || k == OpKind::Range;
  if (renames(k) || isIndexArithmetic(k))
    cheap = std::all_of(v->def->operands.begin(), v->def->operands.end(), [&](const Value *o) { return isCheap(o); });
  return cheap_[v] = cheap;
}

/// Are positions computed from a scan, as those of elements that are kept? Neighbours then go to positions near each
/// other, which are not known at compile time.
static bool isFromScan(const Value *v, unsigned depth = 8) {
  const Op *op = v->def;
  if (!op || depth == 0)
    return false;
  return op->kind == OpKind::Scan ||
         ((op->has(traits::Elementwise) || renames(op->kind)) &&
          std::ranges::any_of(op->operands, [&](const Value *o) { return isFromScan(o, depth - 1); }));
}

bool Homes::isMovedInParts(const Value *v) const {
  constexpr unsigned pointerBits = 64;
  const Op *op = v->def;
  if (!op || (op->kind != OpKind::Add && op->kind != OpKind::Sub && op->kind != OpKind::AddPtr &&
              op->kind != OpKind::And && op->kind != OpKind::CmpI))
    return false;
  const Value *moved = nullptr;
  for (const Value *o : op->operands)
    if (!isCheap(o)) {
      if (moved)
        return false;
      moved = o;
    }
  if (moved && op->kind == OpKind::AddPtr && moved == op->operands[1] && bitWidth(moved->type.elem) < pointerBits &&
      isFromScan(moved))
    return true;
  moved = moved ? beforeRenames(moved) : nullptr;
  return moved && (moved->def ? moved->def->parent : moved->block) != op->parent;
}

bool Homes::isScattered(const Op &op) const {
  return (op.kind == OpKind::Load || op.kind == OpKind::Store) && op.operands[0]->type.isTensor() &&
         !isCheap(op.operands[0]) && hasUnknownNeighbours(op, facts_);
}

Home Homes::besideAddresses(const Op &op) const {
  const Value *pointer = op.operands[0];
  const unsigned elements = layout::log2Exact(pointer->type.shape.numel()),
                 threadBits = layout::log2Exact(threads().count());
  const auto fits = [&](Home h) {
    return h.layout && h.rank != Rank::Accumulator &&
           layoutOf(h).inBits(layout::Dim::Register) <= (elements > threadBits ? elements - threadBits : 0);
  };
  // A scan gives a thread many neighbours, so lanes store far apart; a loaded value has neighbours in neighbouring
  // lanes.
  if (op.kind == OpKind::Store && isFromScan(pointer))
    for (size_t i = 1; i < op.operands.size(); ++i)
      if (const Home h = of(op.operands[i]); h.rank == Rank::Memory && fits(h))
        return h;
  Home h = of(pointer);
  if (!h.layout && op.kind == OpKind::Load)
    h = homeOfUsers(op.result());
  return fits(h) ? h : Home{};
}

bool Homes::isSpread(const Op &op) const {
  constexpr int64_t widest = 16; // bytes of an access
  return op.kind == OpKind::Load && op.result()->type.isTensor() && !op.isVolatile() &&
         op.result()->type.numel() * std::max(1u, byteWidth(op.result()->type.elem)) <= widest * threads().count() &&
         (!hasUnknownNeighbours(op, facts_) || isCheap(op.operands[0])) && !pathToTile(users_, op.result(), 6).empty();
}

bool Homes::isOnlyWidened(const Op &load) const {
  constexpr unsigned most = 6;
  const Value *v = load.result();
  bool isConverted = false;
  for (unsigned step = 0; step < most; ++step) {
    const std::span<Op *const> users = users_.of(v);
    if (users.size() != 1)
      return false;
    const Op *u = users[0];
    if (u->kind == OpKind::Dot)
      return isConverted && isInFor(load) && load.parent == u->parent;
    if (u->results.size() != 1 || u->operands.size() != 1 || !(u->has(traits::Elementwise) || renames(u->kind)))
      return false;
    isConverted |= !renames(u->kind);
    v = u->result();
  }
  return false;
}

Access Homes::access(const Op &op) const {
  const Value *pointer = op.operands[0];
  bool hasValue = op.kind == OpKind::Store || op.kind == OpKind::AtomicRmw;
  const Value *mask = op.mask();
  const Shape &shape = pointer->type.shape;
  const std::vector<unsigned> order = axesByNeighbours(pointer, facts_);
  Access a;
  if (op.kind == OpKind::Load || hasValue) {
    int64_t bytes = byteWidth(pointer->type.elem), perThread = std::max<int64_t>(1, shape.numel() / threads().count());
    // A row of scales: one word for each of fewer threads, so that a copy ahead can load it.
    if (op.kind == OpKind::Load && shape.rank() == 1 && bytes < wordBytes && isInFor(op) &&
        feedsDot(users_, op.result(), 8))
      perThread = std::max(perThread, std::min(shape.numel(), wordBytes / bytes));
    // Pairs that are split stay in one thread, even if others then hold copies, so that no halves are exchanged.
    if (op.kind == OpKind::Load && isSplit(users_, op.result(), 4))
      perThread = std::max<int64_t>(perThread, 2);
    // One access takes consecutive elements under one mask, and its address must be a multiple of its size.
    a.axis = order[0];
    // Elements that are widened for a tile, or unpacked: as many as one store to the tile takes, so that neighbours in
    // a warp fill all banks, or lines of memory.
    auto readsTiles = [&](const Op &dot) { return choiceOf(dot).kind == DotKind::AsyncMma; };
    int64_t widest =
        std::max<int64_t>(bytes, op.kind == OpKind::Load ? std::max(tileBytes(users_, op.result(), 8, readsTiles),
                                                                    joined_->bytesOf(op.result()))
                                                         : 0);
    // But 16 bytes in a copy where neighbours fill all banks with that, too, as pairs of rows do in a tile of 128 bytes
    // a row (H200, int8 weights of 64x128x64 by four warps 425 -> 336 us; of 128 elements a row, which conflict, 430 ->
    // 454).
    constexpr int64_t swizzled = 128;
    if (op.kind == OpKind::Load && shape.rank() == 2 && shape[order[0]] * widest <= swizzled && isOnlyWidened(op))
      widest = bytes;
    a.wanted = std::min(op.kind == OpKind::AtomicRmw ? target_.atomicElements(op) : std::max<int64_t>(1, 16 / widest),
                        perThread);
    a.vec = std::min(facts_.vectorWidth(pointer, mask, order[0]), a.wanted);
    // Addresses `vec` elements apart inside a group of consecutive ones: as aligned as the group's start and the step.
    while (a.vec > 1 && facts_.of(pointer, order[0]).divisibility % (a.vec * bytes) != 0)
      a.vec /= 2;
  }
  auto isPlain = [&](const Op &o) {
    return o.kind == OpKind::Load && !isSpread(o) && !isScattered(o) && !hasEqualNeighbours(o, facts_);
  };
  auto isData = [&](const Value *v) { return !isCheap(v); };
  a.layout = layout::dealt(
      shape, order, std::max(a.vec, runBeside(users_, facts_, op, a.axis, a.vec, threads().count(), isPlain, isData)),
      threads());
  if (a.vec == 1 && takesOffsetsOfBothAxes(op, order)) {
    const int64_t perThread = std::max<int64_t>(1, shape.numel() / threads().count());
    a.layout = layout::dealtAcross(
        shape, order, std::min({int64_t{16} / byteWidth(pointer->type.elem), perThread, shape[order[1]]}), threads());
  }
  if (op.kind == OpKind::Load)
    a.layout = turnedInBlocks(op.result(), a.axis, a.vec, users_, target_, warps_).value_or(a.layout);
  const Home beside = isSpread(op) || besideAccumulator(op).first.layout ? of(op.result())
                      : isScattered(op)                                  ? besideAddresses(op)
                                                                         : Home{};
  if (beside.layout) {
    a.layout = layoutOf(beside);
    a.vec = vectorIn(a.layout, pointer, mask, a.axis, facts_);
    return a;
  }
  if (op.kind == OpKind::Store)
    if (Home h = of(op.operands[1]); h.layout) {
      if (int64_t vec = storedInPlace(layoutOf(h), a.layout, a.vec, byteWidth(pointer->type.elem));
          vec && h.rank == Rank::Memory) {
        a.vec = vec;
        a.layout = layoutOf(h);
      } else { // Stored elements stay in their warp: no barrier, and warps need not wait for each other.
        a.layout = layout::withWarpsOf(a.layout, layoutOf(h), layout::log2Exact(a.vec));
      }
    }
  return a;
}

/// Is it a load of single elements for a dot, consecutive nearly everywhere along order[0], where a thread has
/// registers for the offset of each (HoistAddresses.h)? With few lines along either axis, there are fewer offsets.
/// Without the registers, the lines of one axis are added to one offset in each iteration (128x256x64 by eight warps,
/// both operands so: 444 words of spills for 48).
bool Homes::takesOffsetsOfBothAxes(const Op &op, const std::vector<unsigned> &order) const {
  auto isRead = [&](const Op &o) {
    return o.kind == OpKind::Load && o.operands[0]->type.isTensor() && feedsDot(users_, o.result(), 8);
  };
  const Value *pointer = op.operands[0];
  if (!isRead(op) || order.size() != 2 || !isInFor(op) || facts_.of(pointer, order[0]).contiguity != 1 ||
      usualStepOf(pointer, order[0], facts_) != byteWidth(pointer->type.elem))
    return false;
  const int64_t count = threads().count(), limit = target_.registerLimit(threads().count());
  int64_t needed = registersOfDots(*op.parent, count);
  for (const Op *o : op.parent->ops)
    if (isRead(*o))
      needed += 2 * o->result()->type.numel() /
                facts_.vectorWidth(o->operands[0], o->mask(), axesByNeighbours(o->operands[0], facts_)[0]) / count;
  return needed <= limit / 4 * 5;
}

bool Homes::isMadeOfTiles(const Op &dot) const {
  constexpr unsigned mostValues = 64;
  const Value *a = dot.operands[0];
  const int64_t full = a->type.numel();
  if (!isInFor(dot) || !a->def || renames(a->def->kind) || a->def->kind == OpKind::Load ||
      a->def->kind == OpKind::DescLoad)
    return false;
  unsigned tiles = 0;
  std::set<const Value *> made;
  const auto isMade = [&](const auto &self, const Value *v) -> bool {
    const Op *op = v->def;
    if (isCheap(v) || 8 * v->type.numel() <= full || !made.insert(v).second)
      return true;
    if (!op || op->parent != dot.parent || made.size() > mostValues)
      return false;
    if (op->kind == OpKind::DescLoad)
      return ++tiles && v->type.shape == a->type.shape &&
             (byteWidth(v->type.elem) == 2 || byteWidth(v->type.elem) == 4);
    if (op->kind != OpKind::Load)
      return (op->has(traits::Elementwise) || renames(op->kind)) &&
             std::ranges::all_of(op->operands, [&](const Value *o) { return self(self, o); });
    const Value *pointer = op->operands[0];
    const int64_t width = byteWidth(v->type.elem), vector = 16 / width;
    ++tiles;
    const bool isFilled = op->operands.size() > 2 && !isZero(op->operands[2]); // which copies cannot do
    return !op->isVolatile() && !isFilled && (width == 2 || width == 4) && v->type.shape == a->type.shape &&
           !hasUnknownNeighbours(*op, facts_) &&
           facts_.vectorWidth(pointer, op->mask(), axesByNeighbours(pointer, facts_)[0]) >= vector;
  };
  // Parts of float32 are computed from each other, for several dots.
  const auto isDot = [&](const Op *u, const Value *v) {
    return u->kind == OpKind::Dot && u->parent == dot.parent && u->operands[0] == v && u->operands[1] != v &&
           u->result()->type == dot.result()->type;
  };
  std::set<const Value *> others;
  const auto isOurs = [&](const auto &self, const Value *v) -> bool {
    return std::ranges::all_of(users_.of(v), [&](const Op *u) {
      if (isDot(u, v) || (u->results.size() == 1 && made.count(u->result())))
        return true;
      return u->has(traits::Elementwise) && u->parent == dot.parent && u->results.size() == 1 &&
             made.size() + others.size() <= mostValues &&
             (!others.insert(u->result()).second || self(self, u->result()));
    });
  };
  return isMade(isMade, a) && tiles && std::ranges::all_of(made, [&](const Value *v) { return isOurs(isOurs, v); });
}

bool Homes::takesRegisters(const Op &dot, const DotChoice &c) const {
  if (isMadeOfTiles(dot) && !target_.operandLayout(c, dot, 0, warps_).freeMask(layout::Dim::Warp))
    return true;
  Home h = of(dot.operands[0]);
  return h.rank == Rank::Accumulator &&
         layout::exchangeScope(layoutOf(h), target_.operandLayout(c, dot, 0, warps_)) <= layout::ExchangeScope::Warp;
}

void Homes::set(const Value *v, const LinearLayout &l, Rank rank) {
  if (v->type.isScalar())
    return;
  Home &h = home_[v];
  if (rank > h.rank) {
    h = {out_.internLayout(l), rank};
    changed_ = true;
  }
}

void Homes::set(const Value *v, Home h) {
  if (h.layout)
    set(v, LinearLayout(layoutOf(h)), h.rank);
}

Home Homes::source(const Value *v) const {
  Home h = of(v);
  return h.layout || !last_ ? h : Home{out_.internLayout(layoutFor(v)), Rank::Other};
}

static const Op *loopAround(const Op &op) {
  const Op *loop = op.parent->parent->op;
  while (loop && loop->kind != OpKind::For && loop->kind != OpKind::While)
    loop = loop->parent->parent->op;
  return loop;
}

void Homes::settle() {
  // Ranks only rise, so this ends soon. The bound is for homes of one rank that alternate around a loop.
  for (unsigned round = 0; round < 64; ++round) {
    changed_ = false;
    waiting_ = nullptr;
    waiters_.clear();
    block(*f_.block());
    if (!changed_)
      return;
  }
}
void Homes::visit(const Op &op) {
  switch (op.kind) {
  case OpKind::Load:
    if (const auto [h, isOpen] = besideAccumulator(op); h.layout || (isOpen && !last_))
      return set(op.result(), h); // or a later round decides it
    if (hasEqualNeighbours(op, facts_))
      return set(op.result(), homeOfUsers(op.result()));
    if (isSpread(op)) {
      constexpr int64_t mostLoads = 2; // in a thread
      Home h = *homeOfSpread(op.result());
      if (h.rank == Rank::Memory &&
          (int64_t{1} << layoutOf(h).inBits(layout::Dim::Register)) <=
              mostLoads * vectorIn(layoutOf(h), op.operands[0], op.mask(), op.result()->type.shape.rank() - 1, facts_))
        return set(op.result(), h);
      if (!h.layout && !last_)
        return; // a later round knows it
    }
    // Its users may get a home later.
    if (isScattered(op) && !last_ && !besideAddresses(op).layout)
      return;
    [[fallthrough]];
  case OpKind::AtomicRmw:
  case OpKind::AtomicCas:
    if (op.operands[0]->type.isTensor())
      set(op.result(), access(op).layout, Rank::Memory);
    return;
  case OpKind::DescLoad:
    return set(op.result(), layoutOfBlock(op.result(), users_, target_, warps_), Rank::Memory);
  case OpKind::Dot:
    return set(op.result(), target_.accumulatorLayout(choiceOf(op), op, warps_), Rank::Accumulator);
  case OpKind::Scan:
    for (const Value *r : op.results)
      set(r, worksIn(op));
    return;
  case OpKind::Reduce:
    if (Home h = worksIn(op); h.layout && axesAreSeparate(layoutOf(h)))
      for (const Value *r : op.results)
        if (r->type.isTensor()) {
          LinearLayout l = layout::slice(layoutOf(h), static_cast<unsigned>(op.axis()));
          set(r, spread({out_.internLayout(l), h.rank}, r->type.shape));
        }
    return;
  case OpKind::Join:
  case OpKind::Cat:
  case OpKind::Split: {
    // The result is a row with which a larger tile is computed, and the tile's threads hold the elements they need:
    // they join the pairs themselves.
    Home h = of(op.operands[0]);
    if (op.kind == OpKind::Join && op.result()->type.numel() <= threads().count())
      if (std::optional<Home> pairs = homeOfSpread(op.result())) {
        if ((!pairs->layout || !h.layout) && !last_)
          return; // a later round knows them
        if (h.layout && pairs->rank == Rank::Memory &&
            layout::slice(layoutOf(*pairs), op.operands[0]->type.shape.rank()) == layoutOf(h))
          return set(op.result(), *pairs);
      }
    if (!h.layout)
      h = source(op.operands.back());
    if (h.layout)
      for (const Value *r : op.results)
        set(r,
            op.kind == OpKind::Join ? layout::joinOverThreads(layoutOf(h))
            : op.kind == OpKind::Cat
                ? layout::concatenate(layoutOf(h), static_cast<unsigned>(op.axis()))
                : layout::slice(layoutOfPairs(op.operands[0], layoutOf(h)), op.operands[0]->type.shape.rank() - 1),
            h.rank);
    return;
  }
  case OpKind::ClusterGather:
    if (op.operands[0]->type.isScalar())
      return set(op.result(), layout::gather(layout::scalar(threads()), op.result()->type.shape[0]), Rank::Other);
    // each CTA reads all versions of its own part, and a thread those of its elements
    if (Shape own = op.result()->type.shape; op.part() >= 0)
      return own.erase(0),
             set(op.result(), layout::gather(layout::dealtByRows(own, threads()), op.result()->type.shape[0]),
                 Rank::Other);
    if (Home h = source(op.operands[0]); h.layout)
      set(op.result(), layout::gather(layoutOf(h), op.result()->type.shape[0]), h.rank);
    return;
  case OpKind::Gather:
    if (Home h = of(op.operands[1]); h.layout)
      set(op.result(), h);
    return;
  case OpKind::Exchange:
    if (Home h = source(op.operands[0]); h.layout)
      set(op.result(), h);
    return;
  case OpKind::For:
  case OpKind::While:
  case OpKind::If:
    for (const Region *r : op.regions)
      block(*r->block);
    return carried(op);
  default:
    bool isPlain = op.has(traits::Elementwise) ? !isCheap(op.result()) : op.kind == OpKind::AsmEffect;
    if (!isPlain)
      return;
    Home best = ofOperands(op);
    if (op.results.size() == 1 && best.rank < Rank::Accumulator) {
      // A value made of ranges and scalars, or of rows, is made in its users' layout, as little or nothing has to move.
      if (Home h = homeOfUsers(op.result()); !best.layout || (h.rank > best.rank && isMovedBefore(op, h)))
        best = h;
    }
    for (const Value *r : op.results)
      set(r, best);
  }
}

/// The home of the strongest operand of an element-wise operation. Among equals, an operand from inside the loop wins,
/// as one from outside (weights of a convolution over time) is converted once, before the loop; then the one whose home
/// the users need. No home yet if the winner comes from outside, and an operand of the loop has no final home (carried
/// values, rows with which larger tiles are computed) or waits itself. Where all wait for each other, the operation
/// that is most expensive to move decides first: in the innermost loop, with most elements. (So rows of a state space
/// scan take the layout of its state, and the row of skips from outside the loop, by which they are multiplied, is
/// converted to that.)
Home Homes::ofOperands(const Op &op) {
  const Op *loop = loopAround(op);
  auto isOutside = [&](const Value *v) { return loop && !isInside(beforeRenames(v), *loop); };
  Home best;
  bool isOfOutside = false, isOpen = false, waits = false;
  for (const Value *v : op.operands) {
    const Home h = of(v);
    const bool outside = isOutside(v);
    isOpen |= h.rank < Rank::Memory && !outside && !isCheap(v);
    waits |= v->def && waiters_.contains(v->def);
    if (h.rank > best.rank || (h.rank == best.rank && isOfOutside && !outside))
      best = h, isOfOutside = outside;
  }
  if (best.rank != Rank::Memory)
    return best;
  if (waits_ && (waits || (isOpen && isOfOutside)) && !released_.contains(&op)) {
    waiters_.insert(&op);
    auto weight = [](const Op &o) {
      unsigned depth = 0;
      for (const Op *l = loopAround(o); l; l = loopAround(*l))
        ++depth;
      return std::pair{depth, o.operands[0]->type.numel()};
    };
    if (!waiting_ || weight(*waiting_) < weight(op))
      waiting_ = &op;
    return {};
  }
  auto isEqual = [&](const Value *v) { return of(v).rank == best.rank && isOutside(v) == isOfOutside; };
  if (op.results.size() == 1 &&
      std::ranges::any_of(op.operands, [&](const Value *v) { return isEqual(v) && of(v).layout != best.layout; }))
    if (const Home wanted = homeOfUsers(op.result());
        std::ranges::any_of(op.operands, [&](const Value *v) { return isEqual(v) && of(v).layout == wanted.layout; }))
      best.layout = wanted.layout;
  return best;
}

/// The home of the larger tile that is computed with the broadcast of `v`; if its rank is Memory, as a layout of `v`.
/// Nullopt if there is no such tile; no layout as long as the tile has no home.
std::optional<Home> Homes::homeOfSpread(const Value *v) const {
  const std::vector<const Op *> path = pathToTile(users_, v, 6);
  if (path.empty())
    return std::nullopt;
  Home h = of(path.back()->result());
  if (h.rank != Rank::Memory)
    return h;
  std::optional<LinearLayout> l = layoutBefore(path, layoutOf(h));
  return l ? Home{out_.internLayout(*l), h.rank} : Home{};
}

std::pair<Home, bool> Homes::besideAccumulator(const Op &op) const {
  // loads of a thread; an address and a value; registers of copies and of the loop
  constexpr int64_t mostLoads = 8, registersOfLoad = 3, others = 48;
  const std::vector<const Op *> path = scalesIn(users_, op, 6);
  if (path.empty())
    return {};
  const Value *scaled = path.back()->result();
  Home h = of(scaled);
  const std::optional<LinearLayout> l = h.rank == Rank::Accumulator ? layoutBefore(path, layoutOf(h)) : std::nullopt;
  if (!l)
    return {Home{}, !h.layout};
  // accumulators of the dot, and the sum to which it is added
  const int64_t loads = loadsOf(op, *l, facts_),
                sums = 2 * scaled->type.numel() * std::max(4u, byteWidth(scaled->type.elem)) / 4 / threads().count();
  return {loads > mostLoads || sums + loads * registersOfLoad + others > target_.registerLimit(threads().count())
              ? Home{}
              : Home{out_.internLayout(*l), Rank::Memory},
          false};
}

/// Do all users of the result have the home `h`, and do the operands to convert to `h` have no more bytes than the
/// result? As for a bias that is narrower than the scores to which it is added.
bool Homes::isMovedBefore(const Op &op, Home h) const {
  for (const Op *u : users_.of(op.result()))
    if (!u->has(traits::Elementwise) || u->results.size() != 1 || of(u->result()).layout != h.layout)
      return false;
  auto bytesOf = [](const Value *v) { return v->type.numel() * byteWidth(v->type.elem); };
  int64_t bytes = 0;
  for (const Value *o : op.operands)
    if (const Value *v = beforeRenames(o); !isCheap(v) && of(v).layout != h.layout)
      bytes += bytesOf(v);
  return bytes <= bytesOf(op.result());
}

/// The result of a reduction is replicated over the lanes and warps of the reduced axis. A large result gets a new
/// layout: otherwise later operations would work on the copies, too, and a thread would hold as many registers of the
/// small tile as of the one that was reduced; with reductions in a row and reshapes between them (topk), more with
/// each. So do tiles that loops carry. (The rows of an accumulator stay, as they are few.)
Home Homes::spread(Home h, const Shape &shape) {
  constexpr uint32_t fewest = 64; // registers
  if (!h.layout || h.rank == Rank::Accumulator)
    return h;
  LinearLayout now = layout::dealtByRows(shape, threads());
  auto registers = [](const LinearLayout &l) { return uint32_t{1} << l.inBits(layout::Dim::Register); };
  if (uint32_t n = registers(layoutOf(h)); n >= fewest && n > registers(now))
    h.layout = out_.internLayout(now);
  return h;
}

/// Gives the arguments and results of the operation (`mine`) one home with the values that become them: that of the
/// strongest of these values. Large ones are spread over all threads if the operation is a loop.
void Homes::carried(const Op &op) {
  auto meet = [&](std::initializer_list<const Value *> from, std::initializer_list<const Value *> mine) {
    Home best;
    for (auto values : {from, mine})
      for (const Value *v : values)
        if (Home h = of(v); h.rank > best.rank)
          best = h;
    // If both branches of an If make a mask of ranges, it takes the home of its users.
    best = op.kind != OpKind::If ? spread(best, (*mine.begin())->type.shape)
           : best.layout         ? best
                                 : homeOfUsers(*mine.begin());
    // All of `mine` must have the same home, even where two homes of one rank compete.
    for (const Value *v : mine)
      if (best.layout && home_[v].layout != best.layout) {
        home_[v] = best;
        changed_ = true;
      }
  };
  for (size_t i = 0; i < op.results.size(); ++i) {
    if (op.kind == OpKind::If) {
      meet({op.region(0)->terminator()->operands[i], op.region(1)->terminator()->operands[i]}, {op.results[i]});
    } else if (op.kind == OpKind::For) {
      meet({op.operands[3 + i], op.region(0)->terminator()->operands[i]}, {op.region(0)->args[1 + i], op.results[i]});
    } else {
      meet({op.operands[i], op.region(1)->terminator()->operands[i]}, {op.region(0)->args[i]});
      meet({op.region(0)->terminator()->operands[1 + i]}, {op.region(1)->args[i], op.results[i]});
    }
  }
}

/// The layout in which an operation that is not element-wise takes its operand `v`: for a reduction that of the
/// strongest operand, for a scan that of the scan, for a store that of the coalesced access.
Home Homes::wantedBy(const Op &user, const Value *v, unsigned depth) const {
  switch (user.kind) {
  case OpKind::Reduce:
  case OpKind::Scan:
    return worksIn(user);
  case OpKind::Store:
    return user.operands[1] == v && v->type.isTensor() ? Home{out_.internLayout(access(user).layout), Rank::Other}
                                                       : Home{};
  case OpKind::Reshape:
  case OpKind::Permute:
  case OpKind::ExpandDims: {
    Home h = depth ? homeOfUsers(user.result(), depth - 1) : Home{};
    if (h.layout)
      h.layout = out_.internLayout(operandLayout(user, layoutOf(h)));
    return h;
  }
  default:
    return {};
  }
}

/// The home of the strongest value that is computed from `v` element by element, or the layout in which other users
/// take such a value.
Home Homes::homeOfUsers(const Value *v, unsigned depth) const {
  constexpr unsigned most = 32; // values
  std::vector<const Value *> work{v};
  Home best;
  for (size_t i = 0; i < work.size(); ++i)
    for (const Op *u : users_.of(work[i])) {
      if (!u->has(traits::Elementwise) || u->results.size() != 1 || u->result()->type.shape != v->type.shape) {
        if (Home h = wantedBy(*u, work[i], depth); h.rank > best.rank)
          best = h;
        continue;
      }
      if (Home h = of(u->result()); h.rank > best.rank)
        best = h;
      else if (!h.layout && work.size() < most && std::find(work.begin(), work.end(), u->result()) == work.end())
        work.push_back(u->result());
    }
  return best;
}

/// The layout that the first access needs which takes its address or its mask from `v`. A line of a tile gets the
/// layout that all rows, or all columns, of the tile need.
std::optional<LinearLayout> Homes::wantedByMemory(const Value *v, unsigned depth) const {
  if (const Op *user = memoryUser(users_, v, depth))
    return access(*user).layout;
  if (depth == 0)
    return std::nullopt;
  for (const Op *u : users_.of(v)) {
    const Op *around = u->parent->parent->op;
    if (u->kind == OpKind::Yield && around && around->kind == OpKind::If) {
      auto at = std::find(u->operands.begin(), u->operands.end(), v) - u->operands.begin();
      if (std::optional<LinearLayout> l = wantedByMemory(around->results[static_cast<size_t>(at)], depth - 1))
        return l;
      continue;
    }
    bool isSame = u->has(traits::Elementwise) && u->result()->type.shape == v->type.shape;
    if (!isSame && (u->kind == OpKind::Splat || !renames(u->kind)))
      continue;
    if (std::optional<LinearLayout> l = wantedByMemory(u->result(), depth - 1))
      return isSame ? l : operandLayout(*u, *l);
  }
  return std::nullopt;
}

/// DotChoice::run: as many elements as come from a word of the narrowest load, so that these stay words until they are
/// widened. The order in which one instruction adds up the products does not matter if both operands agree. 0: the
/// elements are not consecutive in memory, or the operand was not loaded.
unsigned Homes::runOf(const Op &dot) const {
  auto cheap = [&](const Value *v) { return isCheap(v); };
  int64_t run = std::max(elementsOfWord(dot.operands[0], 16, cheap), elementsOfWord(dot.operands[1], 16, cheap));
  for (unsigned i : {0u, 1u}) {
    const Value *v = dot.operands[i];
    const unsigned axis = v->type.shape.rank() - 1 - i;
    Home h = of(v);
    if (h.rank != Rank::Memory)
      return 0;
    const LinearLayout &l = layoutOf(h);
    int64_t loaded = 1;
    for (unsigned j = 0;
         j < l.inBits(layout::Dim::Register) && l.basis(layout::Dim::Register, j, layout::tensorDim(axis)) == loaded;
         ++j)
      loaded *= 2;
    // Four threads share a row; if one held none of it, others would hold copies.
    run = std::min({run, loaded, v->type.shape[axis] / 4});
  }
  return run * byteWidth(dot.operands[0]->type.elem) > wordBytes ? static_cast<unsigned>(run) : 0;
}

/// Carried values without a home yet, pointers and counters, get the layout that the access which uses them needs.
void Homes::openCarried(const Block &b) {
  for (const Op *op : b.ops) {
    if (op->kind != OpKind::For && op->kind != OpKind::While && op->kind != OpKind::If)
      continue;
    for (const Region *r : op->regions) {
      for (const Value *arg : r->block->args)
        if (arg->type.isTensor() && !of(arg).layout)
          if (std::optional<LinearLayout> l = wantedByMemory(arg, 8))
            set(arg, *l, Rank::Memory);
      openCarried(*r->block);
    }
  }
}

void Homes::giveDefaults(const Block &b) {
  for (const Op *op : b.ops) {
    for (const Region *r : op->regions) {
      if (op->kind == OpKind::Reduce || op->kind == OpKind::Scan)
        continue;
      for (const Value *arg : r->block->args)
        if (arg->type.isTensor())
          set(arg, layout::dealtByRows(arg->type.shape, threads()), Rank::Other);
      giveDefaults(*r->block);
    }
    visit(*op);
    for (const Value *v : op->results)
      if (v->type.isTensor() && !renames(op->kind) && !isCheap(v)) {
        // Addresses and masks of rows by index get the layout of the access; otherwise whole tiles of pointers would
        // move.
        const Op *user = of(v).layout ? nullptr : memoryUser(users_, v, 8);
        set(v, user ? access(*user).layout : layout::dealtByRows(v->type.shape, threads()), Rank::Other);
      }
  }
}

} // namespace tegula::gpu
