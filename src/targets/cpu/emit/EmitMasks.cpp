// The extent of a nest's masks along a row: trips of the innermost loop for which they hold as a whole, and the trip
// from which on everything is masked off.
#include "targets/cpu/emit/Emitter.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;

// Masks of the loads that `v`, needed at `at`, reaches through virtual values, and conditions by which elements become
// a constant, each with the position at which it is needed. A value that is needed at several positions is followed at
// the first one only.
void FunctionEmitter::masksOf(const ir::Value *v, const Bits &at, std::set<const ir::Value *> &seen,
                              llvm::SmallVectorImpl<MaskAt> &out, bool throughBuffers) {
  if (!v->def || !v->type.isTensor() || !seen.insert(v).second || seen.size() > 300)
    return;
  const Op &op = *v->def;
  // buffers made in this very nest are computed here
  if (!throughBuffers && plan_.bufferFor(v) >= 0 && !isFilledHere(v))
    return;
  if (op.kind == OpKind::Load)
    out.push_back({op.operands.size() > 1 ? op.operands[1] : nullptr, at, throughBuffers ? nullptr : &op});
  // `where(mask, x, -inf)`: what the mask leaves is computed without it.
  if (op.kind == OpKind::Select && op.operands[0]->type.isTensor() && op.operands[2]->def &&
      op.operands[2]->def->kind == OpKind::Const)
    out.push_back({op.operands[0], operandBits(op, 0, v->index, at)});
  bool positioned = op.has(ir::traits::Elementwise) || op.has(ir::traits::Shape) || op.kind == OpKind::Load ||
                    op.kind == OpKind::Gather;
  if (!positioned) // operandBits says nothing of the others (reduce, histogram, dot)
    return;
  // a gather's source is needed anywhere
  for (unsigned i = op.kind == OpKind::Gather ? 1 : 0; i < op.operands.size(); ++i)
    masksOf(op.operands[i], operandBits(op, i, v->index, at), seen, out, throughBuffers);
}

// How many leading trips of the innermost loop have all masks true: i64, or null if nothing can be said. Each
// comparison is looked at where it is made, in its own bits; only those whose position is the whole space's (by
// broadcast) are used. `throughBuffers`: masks by which what buffers hold was loaded count, too.
V FunctionEmitter::fullTrips(NestLoop *inner, unsigned innerBits, bool throughBuffers) {
  NestState &n = *nest_;
  n.assumed.clear();
  n.falseFrom.clear();
  n.ofTrip.clear();
  n.segments.clear();
  n.byVector = inner && !n.unrolled.empty() && n.unrolled.back() + 1 == inner->firstBit;
  for (unsigned d = 0, from; n.byVector && d < n.nest->space.rank(); ++d)
    if (from = dimOffset(n.nest->space, d); from > n.unrolled.front() && from <= inner->firstBit)
      n.byVector = false;
  bool allEnd = true; // what is false in the loop under masks stays so
  n.underMask = false;
  if ((n.nest->sequential && !n.nest->isOnly(RootKind::Histogram)) || isReversed(*n.nest))
    return nullptr;
  llvm::SmallVector<MaskAt, 8> work, stores;
  const Bits space = spaceBits();
  std::set<const ir::Value *> seen;
  for (const Root &r : n.nest->roots) {
    llvm::SmallVector<const ir::Value *, 4> values = r.asked();
    const bool histogram = r.kind == RootKind::Histogram;
    if (unsigned mask = histogram ? 1 : 2;
        (r.kind == RootKind::Store || r.kind == RootKind::Update || histogram) && r.op->operands.size() > mask)
      values.push_back(r.op->operands[mask]), stores.push_back({r.op->operands[mask], space, r.op, true});
    for (const ir::Value *v : values)
      if (v->type.shape == n.nest->space)
        masksOf(v, space, seen, work, throughBuffers);
  }
  work.append(stores.begin(), stores.end()); // are looked at first
  V full = nullptr, steady = nullptr; // steady: of `same`
  int64_t all = int64_t(1) << innerBits;
  llvm::SmallVector<Flip, 4> flips;
  std::map<const ir::Value *, Bits> same; // comparisons that do not change along the row
  llvm::SmallVector<MaskAt, 8> masks;
  llvm::copy_if(work, std::back_inserter(masks),
                [](const MaskAt &m) { return m.access && m.mask && m.mask->type.isTensor(); });
  std::set<const ir::Value *> visited;
  while (!work.empty()) {
    MaskAt f = work.pop_back_val();
    if (V trips = f.access && f.access->kind == OpKind::Load && n.panel && inner
                      ? rowsWithoutWrap(*f.access, f.at, *inner)
                      : nullptr)
      full = full ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, full, trips) : trips;
    if (f.access &&
        (f.access->kind == OpKind::Load || f.access->kind == OpKind::Store || f.access->kind == OpKind::AtomicRmw) &&
        inner && !n.panel)
      notePartsOfTrip(*f.access, f.at);
    if (!f.mask || !f.mask->def || !f.mask->type.isTensor() || !visited.insert(f.mask).second ||
        plan_.bufferFor(f.mask) >= 0)
      continue;
    const Op &op = *f.mask->def;
    if (op.kind == OpKind::And || isView(op)) {
      for (unsigned i = 0; i < op.operands.size(); ++i)
        work.push_back({op.operands[i], operandBits(op, i, f.mask->index, f.at), nullptr, f.stored});
      continue;
    }
    if (op.kind != OpKind::CmpI || op.operands[0]->type.isPtr)
      continue;
    MaskEnd end;
    V trips = fullTripsOf(op, f.at, inner, innerBits, end);
    if (!trips)
      continue;
    n.assumed[f.mask] = f.at;
    if (end.from)
      n.falseFrom[f.mask] = end.from;
    allEnd &= end.from && !end.beside;
    if (end.behind) {
      flips.push_back({f.mask, f.at, end.rises, f.stored, end.before, end.behind});
      if (end.rises)
        continue;
    } else {
      same[f.mask] = f.at;
      steady = steady ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, steady, trips) : trips;
    }
    full = full ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, full, trips) : trips;
  }
  if (V most = b_.getInt64(static_cast<uint64_t>(all)); full || !flips.empty())
    full = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, findSegments(flips, same, full ? full : most, steady, most),
                                    most);
  n.inVectors = n.byVector;
  n.byVector &= allEnd;
  n.underMask = llvm::any_of(masks, [&](const MaskAt &m) { return !assumedTrue(m.mask, m.at); });
  return full;
}

// `x % n` with linear x in the address of a load, where a trip reads one row and the inner loop goes on to others: all
// trips if the row does not wrap around, else none; i64.
// Null if there is no such remainder.
V FunctionEmitter::rowsWithoutWrap(const Op &load, const Bits &at, NestLoop &inner) {
  NestState &n = *nest_;
  const Lin l = lin(load.operands[0]);
  auto isInner = [&](BitSource s) { return n.isOfLoop(s, static_cast<size_t>(&inner - n.loops.data())); };
  auto inTrip = [&](BitSource s) { return n.isInTrip(s); };
  V result = nullptr;
  for (const Opaque &o : l.opaque) {
    Bits bits = positionOf(o, at);
    std::optional<int64_t> growth = llvm::any_of(bits, isInner) ? std::nullopt : growthOfRemainder(o, bits, inTrip);
    if (!growth)
      continue;
    V whole = unwrapped(o, bits, *growth, inTrip).holds;
    V trips = b_.CreateSelect(whole, b_.getInt64(uint64_t(1) << inner.bits), b_.getInt64(0));
    result = result ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, result, trips) : trips;
    n.assumed[o.value] = bits;
  }
  return result;
}

// The comparison was examined at one position, with the lane and loop bits of that position and all values of the
// unrolled ones.
static bool isKnown(const NestState &n, const std::map<const ir::Value *, Bits> &all, const ir::Value *v,
                    const Bits &at) {
  auto known = all.find(v);
  if (known == all.end() || known->second.size() != at.size())
    return false;
  for (size_t i = 0; i < at.size(); ++i) {
    BitSource bit = known->second[i];
    bool unrolled = n.isInTrip(bit) && !n.isLane(bit);
    if (at[i] != bit && !(unrolled && at[i] < 0))
      return false;
  }
  return true;
}
bool FunctionEmitter::isAssumed(const ir::Value *v, const Bits &at) const {
  return isKnown(*nest_, nest_->assumed, v, at);
}

// Is the mask false in the loop being emitted?
bool FunctionEmitter::isDenied(const ir::Value *mask, const Bits &at) const {
  if (isKnown(*nest_, nest_->denied, mask, at))
    return true;
  const Op *op = mask->def;
  auto denied = [&](unsigned i) { return isDenied(op->operands[i], operandBits(*op, i, mask->index, at)); };
  if (op && op->kind == OpKind::And)
    return denied(0) || denied(1);
  return op && isView(*op) && denied(0);
}

// x - y and x + y in 64 bits: exact for numbers that were of type i32 (`of`), else the nearest number that 64 bits
// have, so that a distance never changes its sign.
V FunctionEmitter::differenceOf(V x, V y, llvm::Type *of) {
  return of->isIntegerTy(32) ? b_.CreateSub(x, y) : b_.CreateBinaryIntrinsic(llvm::Intrinsic::ssub_sat, x, y);
}
V FunctionEmitter::sumOf(V x, V y, llvm::Type *of) {
  return of->isIntegerTy(32) ? b_.CreateAdd(x, y) : b_.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, x, y);
}

/// A comparison in a mask, `less` < `greater`, along a row: see FunctionEmitter::fullTripsOf.
class TripsInside {
public:
  TripsInside(FunctionEmitter &e, const Op &cmp, const Bits &at, NestLoop *inner, unsigned innerBits, MaskEnd &end)
      : e_(e), b_(e.b_), n(*e.nest_), cmp_(cmp), at_(at), inner_(inner), innerBits_(innerBits), end_(end),
        less_(e.lin(cmp.operands[0])), greater_(e.lin(cmp.operands[1])), growth_(n.loopOf.size(), 0) {}
  V count();

private:
  bool measure();
  bool findSteps(int64_t sign);
  V takeDepth();
  V whereGreaterGrows();
  V whereLessGrows(V inDepth);
  void findEnd(V room, V trips);
  V falseFrom(V room, V trips, V never);

  bool isInner(size_t bit) const {
    return inner_ && n.isOfLoop(static_cast<BitSource>(bit), static_cast<size_t>(inner_ - n.loops.data()));
  }
  V number(int64_t x) { return b_.getInt64(static_cast<uint64_t>(x)); }
  V all() { return number(int64_t(1) << innerBits_); }
  V zero() { return b_.getInt64(0); }
  V plus(V x, V y) { return e_.sumOf(x, y, less_.base->getType()); }
  V minus(V x, V y) { return e_.differenceOf(x, y, less_.base->getType()); }
  int64_t largest() const { return less_.base->getType()->isIntegerTy(32) ? INT32_MAX : INT64_MAX; }
  V wide(const void *key, const Lin &l) { return b_.CreateSExt(e_.linAt(key, l, at_, false).base, b_.getInt64Ty()); }
  /// x / perTrip + 1.
  V tripBehind(V x) { return plus(b_.CreateAShr(x, log2Exact(perTrip_)), number(1)); }

  FunctionEmitter &e_;
  llvm::IRBuilder<> &b_;
  const NestState &n;
  const Op &cmp_;
  const Bits &at_;
  NestLoop *const inner_;
  const unsigned innerBits_;
  MaskEnd &end_;
  Lin less_, greater_;
  Below below_;
  llvm::SmallVector<int64_t, 24> growth_;                // of less - greater, by bits of a row
  bool onlyLess_ = true, onlyGreater_ = true, apart_ = true; // grows; neither moves toward the other
  V first_ = nullptr, bound_ = nullptr;                  // the sides at the start of the row, i64
  int64_t perTrip_ = 0, inTrip_ = 0;                     // growth from trip to trip, and to the last element of one
};

// False if a side is not linear, or its coefficients are known at launch only.
bool TripsInside::measure() {
  if (!less_.opaque.empty() || !greater_.opaque.empty() || less_.split || greater_.split)
    return false;
  for (size_t i = 0; i < at_.size(); ++i) {
    const Coef a = less_.coef[i], b = greater_.coef[i];
    if (at_[i] < 0 || !(n.isInTrip(at_[i]) || isInner(static_cast<size_t>(at_[i]))))
      continue;
    if ((!a.zero() && a.s) || (!b.zero() && b.s))
      return false;
    growth_[static_cast<size_t>(at_[i])] += a.k - b.k;
    onlyLess_ &= a.k >= 0 && b.zero();
    onlyGreater_ &= a.zero() && b.k >= 0;
    apart_ &= a.k >= 0 && b.k <= 0;
    less_.coef[i] = greater_.coef[i] = {}; // what is left are the sides at the start of the row
  }
  return true;
}

// `sign`: 1, or -1 for growth of greater - less. False: trips do not go on by one step.
bool TripsInside::findSteps(int64_t sign) {
  bool isSteady = true;
  for (size_t bit = 0; bit < growth_.size(); ++bit) {
    const int64_t by = sign * growth_[bit];
    if (!isInner(bit)) {
      inTrip_ += by;
      continue;
    }
    if (bit == inner_->firstBit)
      perTrip_ = by;
    isSteady &= by == perTrip_ << (bit - inner_->firstBit);
  }
  return isSteady;
}

// What the bits of `tileDepth` make it grow by in all, which is not among `growth` from then on; null: nothing is known
// of them.
V TripsInside::takeDepth() {
  const unsigned bits = n.tileDepth ? n.nest->columnBits() : 0;
  if (!bits || growth_[0] <= 0)
    return nullptr;
  for (unsigned i = 0; i < bits; ++i)
    if (growth_[i] != growth_[0] << i)
      return nullptr;
  V inDepth = b_.CreateMul(b_.CreateSub(n.tileDepth, number(1)), number(growth_[0]));
  std::fill(growth_.begin(), growth_.begin() + bits, 0);
  return inDepth;
}

// `0 <= index`: inside if the first is, unless the last wraps around.
V TripsInside::whereGreaterGrows() {
  int64_t most = largest();
  for (int64_t g : growth_)
    most += g;
  V fits = b_.CreateICmpSLE(bound_, number(most));
  V inside = b_.CreateAnd(below_.orEqual ? b_.CreateICmpSLE(first_, bound_) : b_.CreateICmpSLT(first_, bound_), fits);
  if (inner_ && n.bySegments && findSteps(-1) && perTrip_ && isPowerOfTwo(perTrip_)) {
    // It holds where the greater one has grown by `need`: trip t is inside if t * perTrip >= need, and outside as a
    // whole if t * perTrip + inTrip < need.
    V need = plus(minus(first_, bound_), number(below_.orEqual ? 0 : 1));
    auto tripsUntil = [&](V x) {
      return b_.CreateSelect(b_.CreateICmpSGT(x, zero()),
                             b_.CreateAdd(b_.CreateAShr(b_.CreateSub(x, number(1)), log2Exact(perTrip_)), number(1)),
                             zero());
    };
    end_.rises = true;
    end_.behind = b_.CreateSelect(fits, tripsUntil(need), all());
    end_.before = b_.CreateSelect(fits, tripsUntil(minus(need, number(inTrip_))), zero());
  }
  return b_.CreateSelect(inside, all(), zero());
}

// room = how much the lesser one may grow; all of trip t is inside if t * perTrip + inTrip <= room.
V TripsInside::whereLessGrows(V inDepth) {
  if (llvm::any_of(growth_, [](int64_t g) { return g < 0; }) || !findSteps(1) || (perTrip_ && !isPowerOfTwo(perTrip_)))
    return nullptr;
  first_ = wide(&cmp_.loc, less_), bound_ = wide(&cmp_, greater_);
  V room = minus(minus(bound_, first_), number(inTrip_ + (below_.orEqual ? 0 : 1)));
  if (inDepth)
    room = minus(room, inDepth);
  V inside = b_.CreateICmpSGE(room, zero());
  if (below_.isUnsigned)
    inside = b_.CreateAnd(inside, b_.CreateICmpSGE(first_, zero()));
  V trips = b_.CreateSelect(inside, perTrip_ ? tripBehind(room) : all(), zero());
  if (inner_ && (onlyLess_ || (apart_ && !below_.isUnsigned)) && !inDepth && (!perTrip_ || inTrip_ <= perTrip_))
    findEnd(room, trips);
  return trips;
}

// Once it is false it stays so, unless the row wraps around (or, unsigned, begins below zero). In the trip after the
// one with the last element that is inside all are behind.
void TripsInside::findEnd(V room, V trips) {
  const int64_t growthOfRow = perTrip_ * ((int64_t(1) << innerBits_) - 1) + inTrip_, most = largest() - growthOfRow;
  if (growthOfRow >= INT32_MAX)
    return;
  V stays = b_.CreateICmpSLE(first_, number(most));
  if (!onlyLess_)
    stays = b_.CreateAnd(stays, b_.CreateICmpSGE(bound_, number(-most)));
  if (below_.isUnsigned)
    stays =
        b_.CreateAnd(stays, b_.CreateICmpSGE(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, first_, bound_), zero()));
  if (perTrip_ && n.bySegments) {
    V ofFirst = plus(room, number(inTrip_)); // of the first element of a trip
    end_.before = trips;
    end_.behind =
        b_.CreateSelect(stays, b_.CreateSelect(b_.CreateICmpSGE(ofFirst, zero()), tripBehind(ofFirst), zero()), all());
  }
  V never = n.byVector ? number(int64_t(1) << (innerBits_ + n.unrolled.size())) : all();
  if (V from = falseFrom(room, trips, never))
    end_.from = b_.CreateSelect(stays, from, never);
}

// Null: not known.
V TripsInside::falseFrom(V room, V trips, V never) {
  // it is the same in all trips: false from the first one on if it is for the first element, the least one
  if (!perTrip_) {
    end_.beside = inTrip_ > 0;
    return b_.CreateSelect(b_.CreateICmpSGE(plus(room, number(inTrip_)), zero()), never, zero());
  }
  if (!n.byVector)
    return trips;
  const int64_t perVector = perTrip_ >> n.unrolled.size();
  int64_t ofCopies = 0;
  for (unsigned bit : n.unrolled)
    ofCopies += growth_[bit];
  if (ofCopies != perTrip_ - perVector)
    return nullptr;
  room = plus(room, number(ofCopies));
  V from = plus(b_.CreateAShr(room, log2Exact(perVector)), number(1));
  return b_.CreateSelect(b_.CreateICmpSGE(room, zero()), from, zero());
}

V TripsInside::count() {
  const std::optional<Below> below = asBelow(cmp_.pred());
  if (!below)
    return nullptr;
  // Unsigned, both bounds in one (tensor descriptors): the same if the row does not begin below zero, and never full
  // otherwise.
  below_ = *below;
  if (below_.swapped)
    std::swap(less_, greater_);
  if (!measure())
    return nullptr;
  V inDepth = takeDepth();
  if (!onlyGreater_ || below_.isUnsigned || llvm::none_of(growth_, [](int64_t g) { return g < 0; }))
    return whereLessGrows(inDepth);
  first_ = wide(&cmp_.loc, less_), bound_ = wide(&cmp_, greater_);
  return whereGreaterGrows();
}

// a < b etc. with linear sides. On the bits of one trip and of the inner loop the difference a - b must grow like the
// position in the row (then a prefix of trips is inside), or not at all (then all or none). `end.from`: as falseFrom()
// says, if that is known.
V FunctionEmitter::fullTripsOf(const Op &cmp, const Bits &at, NestLoop *inner, unsigned innerBits, MaskEnd &end) {
  return TripsInside(*this, cmp, at, inner, innerBits, end).count();
}

} // namespace tegula::cpu
