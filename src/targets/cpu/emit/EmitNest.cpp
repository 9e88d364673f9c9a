// The loops of a nest and the work of its roots.
//
// LayOutNest.cpp says which bits of the iteration space are loops. If masks of
// the form `affine < bound` appear, the innermost loop is split: first the trips that are inside as a whole, where those
// comparisons are known to be true and accesses need no mask, then the rest with masks.
#include "targets/cpu/emit/Emitter.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;

static bool reversed(const Nest &n) { return n.isOnly(RootKind::Scan) && n.roots[0].op->reverse(); }

void FunctionEmitter::runNest(NestState &state) {
  nest_ = &state;
  const size_t mixed = mixed_.mark();
  if (state.loopOf.empty())
    layOut(state);
  openLoops(0);
  mixed_.backTo(mixed);
  nest_ = nullptr;
}

llvm::SmallVector<V> FunctionEmitter::loop(NestLoop &l, V from, V to, bool mayBeEmpty, llvm::ArrayRef<V> init,
                                           llvm::function_ref<llvm::SmallVector<V>(llvm::ArrayRef<V>)> body) {
  auto *enter = llvm::BasicBlock::Create(context_, "loop", function_);
  auto *exit = llvm::BasicBlock::Create(context_, "done", function_);
  llvm::BasicBlock *before = b_.GetInsertBlock();
  l.hoist = mayBeEmpty ? static_cast<llvm::Instruction *>(b_.CreateCondBr(b_.CreateICmpSLT(from, to), enter, exit))
                       : b_.CreateBr(enter);
  b_.SetInsertPoint(enter);
  llvm::PHINode *iv = b_.CreatePHI(b_.getInt64Ty(), 2, "i");
  // Code hoisted later may split the block, so incoming blocks are asked from the branch.
  llvm::SmallVector<llvm::PHINode *> phis;
  for (V v : init)
    phis.push_back(b_.CreatePHI(v->getType(), 2));
  NestState &n = *nest_;
  l.iv = iv;
  ++n.open;
  unsigned depth = n.depth;
  n.depth = n.open;
  llvm::SmallVector<V> next = body(llvm::SmallVector<V>(phis.begin(), phis.end()));
  n.memo[n.open].clear();
  n.addressMemo[n.open].clear();
  --n.open;
  n.depth = depth;
  V step = b_.CreateAdd(iv, n.movesOn ? n.movesOn : b_.getInt64(1), "", true, true), more = b_.CreateICmpSLT(step, to);
  n.movesOn = nullptr;
  if (n.ends)
    more = b_.CreateAnd(more, b_.CreateNot(n.ends));
  n.ends = nullptr;
  llvm::BasicBlock *latch = b_.GetInsertBlock();
  b_.CreateCondBr(more, enter, exit);
  before = l.hoist->getParent();
  iv->addIncoming(from, before);
  iv->addIncoming(step, latch);
  b_.SetInsertPoint(exit);
  llvm::SmallVector<V> out;
  for (size_t i = 0; i < phis.size(); ++i) {
    phis[i]->addIncoming(init[i], before);
    phis[i]->addIncoming(next[i], latch);
    V result = next[i];
    if (mayBeEmpty) {
      llvm::PHINode *join = b_.CreatePHI(init[i]->getType(), 2);
      join->addIncoming(init[i], before);
      join->addIncoming(next[i], latch);
      result = join;
    }
    out.push_back(result);
  }
  l.iv = nullptr;
  return out;
}

static unsigned outerLoops(const NestState &n) { return n.loops.empty() ? 0 : static_cast<unsigned>(n.loops.size()) - 1; }

// The innermost loop is inside the reduction only if it runs over the axis.
static bool innerIsAxis(const NestState &n) {
  if (n.nest->axis < 0 || n.loops.empty())
    return false;
  unsigned axis = static_cast<unsigned>(n.nest->axis);
  unsigned from = dimOffset(n.nest->space, axis), bits = dimBits(n.nest->space, axis);
  return bits && n.loops.back().firstBit >= from && n.loops.back().firstBit < from + bits;
}

/// x / 2^k rounded up, `to` = 2^k.
V FunctionEmitter::divideUp(V x, int64_t to) { return b_.CreateLShr(b_.CreateAdd(x, b_.getInt64(static_cast<uint64_t>(to - 1))), log2Exact(to)); }

V FunctionEmitter::roundUp(V x, int64_t to) { return b_.CreateMul(divideUp(x, to), b_.getInt64(static_cast<uint64_t>(to))); }

V FunctionEmitter::tripsOf(const NestLoop &l) {
  const NestState &n = *nest_;
  const PanelWork *p = n.panel;
  const unsigned columns = n.nest->columnBits(), blocks = columns + n.nest->panelDepthBits;
  if (p && p->columns && l.firstBit == n.nest->panelColumnBits && l.firstBit < columns)
    return divideUp(p->columns, int64_t(1) << l.firstBit);
  if (p && p->depthThere && l.bits && l.firstBit == blocks)
    return divideUp(p->depthThere, int64_t(1) << n.nest->panelDepthBits);
  if (p && p->packed && l.bits && l.firstBit >= columns && l.firstBit < blocks)
    return b_.CreateLShr(p->packed, l.firstBit - columns);
  if (!p && n.leftDepth && l.bits && l.firstBit < columns)
    return divideUp(n.leftDepth, int64_t(1) << l.firstBit);
  if (!p && n.leftRows && l.bits && l.firstBit >= columns)
    return divideUp(n.leftRows, int64_t(1) << (l.firstBit - columns));
  if (plan_.group && !n.ofOneProgram && l.firstBit < columns) // the columns of one program after the other
    return b_.CreateMul(programs(), b_.getInt64((uint64_t(1) << l.bits) / static_cast<uint64_t>(plan_.group->size)));
  return b_.getInt64(uint64_t(1) << l.bits);
}

void FunctionEmitter::openLoops(unsigned level) {
  NestState &n = *nest_;
  if (n.panel && level == n.panel->loops)
    return panel();
  openLoop(level);
}

void FunctionEmitter::openLoop(unsigned level) {
  NestState &n = *nest_;
  if (level < n.given.size()) {
    NestLoop &l = n.loops[level];
    auto *in = llvm::BasicBlock::Create(context_, "row", function_);
    l.hoist = b_.CreateBr(in);
    b_.SetInsertPoint(in);
    l.iv = n.given[level];
    n.depth = ++n.open;
    openLoops(level + 1);
    n.depth = --n.open;
  } else if (level < outerLoops(n)) {
    NestLoop &l = n.loops[level];
    loop(l, b_.getInt64(0), tripsOf(l), false, {}, [&](llvm::ArrayRef<V>) {
      openLoops(level + 1);
      return llvm::SmallVector<V>();
    });
  } else {
    innerLoop();
  }
}

void FunctionEmitter::innerLoop() {
  NestState &n = *nest_;
  llvm::SmallVector<V> accs = initialAccumulators();
  auto body = [&](llvm::ArrayRef<V> in, V first) {
    llvm::SmallVector<V> out(in.begin(), in.end());
    auto all = [&] {
      roots(out, first);
      return llvm::SmallVector<V>();
    };
    if (n.apart)
      loop(n.loops.back(), b_.getInt64(0), b_.getInt64(uint64_t(1) << n.vectors.bits), false, {}, [&](llvm::ArrayRef<V>) { return all(); });
    else
      all();
    return out;
  };
  bool overAxis = innerIsAxis(n);
  if (n.loops.size() == n.given.size()) {
    V full = fullTrips(nullptr, 0);
    if (full && n.nest->axis < 0)
      return insideOrMasked(full, [&] { body(accs, b_.getTrue()); });
    llvm::SmallVector<V> out;
    auto once = [&] { out = body(accs, b_.getTrue()); };
    if (n.underMask)
      apart(once);
    else
      once();
    finishReductions(out);
    return;
  }
  NestLoop &l = n.loops.back();
  const bool quick = canReduceQuickly();
  V trips = tripsOf(l), zero = b_.getInt64(0);
  auto inLoop = [&](llvm::ArrayRef<V> in) {
    V first = overAxis ? b_.CreateICmpEQ(l.iv, zero) : b_.getTrue();
    if (reversed(*n.nest))
      l.iv = b_.CreateSub(b_.getInt64((uint64_t(1) << l.bits) - 1), l.iv);
    if (!overAxis && quick) {
      reduceQuickly([&] { return body(in, first); });
      return llvm::SmallVector<V>();
    }
    llvm::SmallVector<V> out = body(in, first);
    if (!overAxis) { // one result per trip
      finishReductions(out);
      out.clear();
    }
    return out;
  };
  llvm::SmallVector<V> carried(overAxis ? accs : llvm::SmallVector<V>());
  const bool multiplies = n.panel && n.panel->depth;
  if (multiplies)
    carried = n.panel->begin();
  auto run = [&](llvm::ArrayRef<V> in) {
    llvm::SmallVector<V> out = overAxis ? inLoop(in) : inLoop(accs);
    if (n.masked && n.restFrom)
      n.ends = endOfRow(n.trips);
    return multiplies ? n.panel->trip(l.iv, in) : out;
  };
  const bool mayEnd = !n.vectors.bits && (overAxis || n.nest->axis < 0);
  n.bySegments = mayEnd && !n.panel && !n.leftRows && !n.leftDepth && !n.tileDepth && n.copyFrom < 0 && llvm::isa<llvm::Constant>(trips);
  V full = fullTrips(&l, l.bits);
  n.bySegments = false;
  if (full && !llvm::isa<llvm::Constant>(trips))
    full = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, full, trips);
  if (full && mayEnd)
    findRest();
  else if (mayEnd)
    full = endOfBuffers(l, trips);
  if (overAxis && quick)
    return reduceQuickly([&] {
      carried = initialAccumulators();
      if (n.quick) {
        this->trips(l, full, trips, carried, run);
        return carried;
      }
      n.trips = trips;
      n.masked = full;
      carried = loop(l, zero, trips, false, carried, run);
      n.masked = false;
      return carried;
    });
  this->trips(l, full, trips, carried, run);
  if (overAxis)
    finishReductions(carried);
  if (multiplies)
    n.panel->end(carried);
}

Bits FunctionEmitter::spaceBits() const {
  Bits at = identityBits(static_cast<unsigned>(nest_->loopOf.size()));
  if (nest_->ofOneProgram) {
    const auto end = at.begin() + nest_->nest->columnBits();
    std::fill(end - log2Exact(static_cast<uint64_t>(plan_.group->size)), end, zeroBit);
  }
  return at;
}

Bits FunctionEmitter::rootBits(unsigned copy) const {
  Bits at = spaceBits();
  for (size_t i = 0; i < nest_->unrolled.size(); ++i)
    at[nest_->unrolled[i]] = (copy >> i & 1) ? oneBit : zeroBit;
  return at;
}

void FunctionEmitter::roots(unsigned copy, llvm::SmallVectorImpl<V> &accs, V first) {
  Bits at = rootBits(copy);
  nest_->copy = copy;
  fetchAhead(copy);
  unsigned slot = 0;
  for (const Root &r : nest_->nest->roots) {
    if (r.kind == RootKind::Reduce || r.kind == RootKind::Scan) {
      accumulate(r, copy, slot, at, accs, first);
      slot += static_cast<unsigned>(r.op->results.size());
    } else {
      root(r, at);
    }
  }
}

void FunctionEmitter::root(const Root &r, const Bits &at) {
  NestState &n = *nest_;
  if (r.op)
    setLoc(r.op);
  switch (r.kind) {
  case RootKind::Materialize: {
    if (n.copyFrom >= 0)
      return storeBuffer(r.buffer, loadBuffer(n.copyFrom, r.value->type, at), r.value->type, at);
    V x;
    if (r.makes) {
      x = computeFresh(r.value, at);
      n.memo[std::min(depthOf(at), n.open)][{r.value, at}] = x;
    } else {
      x = eval(r.value, at);
    }
    if (r.buffer < 0)
      return;
    return storeBuffer(r.buffer, x, r.value->type, at, true);
  }
  case RootKind::Store: {
    const Op &op = *r.op;
    V mask = op.operands.size() > 2 ? eval(op.operands[2], at) : nullptr;
    if (mask == b_.getFalse())
      return;
    if (n.onlyLanes)
      mask = mask ? b_.CreateAnd(n.onlyLanes, broadcast(mask, n.lanes())) : n.onlyLanes;
    auto store = [&]() -> V {
      V x = eval(op.operands[1], at);
      LaneAddress a = addressOf(op.operands[0], at);
      setLoc(&op);
      storeLanes(a, x, op.operands[1]->type.scalarType(), mask, op.isVolatile(), &op, n.streaming && r.streams);
      return nullptr;
    };
    if (!n.apart || !mask || llvm::isa<llvm::Constant>(mask)) {
      store();
      return;
    }
    // The edges of a tile that is turned: each element of a vector is an access of its own, and most vectors of a narrow tile are masked off as a whole.
    const auto memo = n.memo;
    const auto addresses = n.addressMemo;
    const size_t mixed = mixed_.mark();
    ifThen(anyOf(mask), nullptr, store);
    mixed_.backTo(mixed);
    n.memo = memo;
    n.addressMemo = addresses;
    return;
  }
  case RootKind::Atomic: {
    const Op &op = *r.op;
    if (op.kind == OpKind::AsmEffect)
      return assemblyElement(op, at);
    llvm::SmallVector<V, 3> args;
    for (unsigned i = 1; i < op.operands.size(); ++i)
      args.push_back(eval(op.operands[i], at));
    V mask = op.mask() ? args.pop_back_val() : nullptr;
    V old = maskedAtomic(op, eval(op.operands[0], at), args, mask);
    if (int b = plan_.bufferFor(op.results[0]); b >= 0)
      storeBuffer(b, old, op.results[0]->type, at);
    return;
  }
  case RootKind::Update:
    return update(*r.op, at);
  case RootKind::Histogram:
    return histogramElement(*r.op, at);
  case RootKind::Assert:
    return assertRoot(*r.op, eval(r.op->operands[0], at), r.op->operands.size() > 1 ? eval(r.op->operands[1], at) : nullptr);
  case RootKind::Reduce:
  case RootKind::Scan:
    return;
  }
}

// Masks of the loads that `v`, needed at `at`, reaches through virtual values, and conditions by which elements become a constant, each with the position at which it is needed. A value that is
// needed at several positions is followed at the first one only.
void FunctionEmitter::masksOf(const ir::Value *v, const Bits &at, std::set<const ir::Value *> &seen, llvm::SmallVectorImpl<MaskAt> &out, bool throughBuffers) {
  if (!v->def || !v->type.isTensor() || !seen.insert(v).second || seen.size() > 300)
    return;
  const Op &op = *v->def;
  if (!throughBuffers && plan_.bufferFor(v) >= 0 && !isFilledHere(v)) // buffers made in this very nest are computed here
    return;
  if (op.kind == OpKind::Load)
    out.push_back({op.operands.size() > 1 ? op.operands[1] : nullptr, at, throughBuffers ? nullptr : &op});
  // `where(mask, x, -inf)`: what the mask leaves is computed without it.
  if (op.kind == OpKind::Select && op.operands[0]->type.isTensor() && op.operands[2]->def && op.operands[2]->def->kind == OpKind::Const)
    out.push_back({op.operands[0], operandBits(op, 0, v->index, at)});
  bool positioned = op.has(ir::traits::Elementwise) || op.has(ir::traits::Shape) || op.kind == OpKind::Load || op.kind == OpKind::Gather;
  if (!positioned) // operandBits says nothing of the others (reduce, histogram, dot)
    return;
  for (unsigned i = op.kind == OpKind::Gather ? 1 : 0; i < op.operands.size(); ++i) // a gather's source is needed anywhere
    masksOf(op.operands[i], operandBits(op, i, v->index, at), seen, out, throughBuffers);
}

// How many leading trips of the innermost loop have all masks true: i64, or null if nothing can be said. Each comparison is
// looked at where it is made, in its own bits; only those whose position is the whole space's (by broadcast) are used. `throughBuffers`: masks by which what buffers hold was loaded count, too.
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
  if ((n.nest->sequential && !n.nest->isOnly(RootKind::Histogram)) || reversed(*n.nest))
    return nullptr;
  llvm::SmallVector<MaskAt, 8> work, stores;
  const Bits space = spaceBits();
  std::set<const ir::Value *> seen;
  for (const Root &r : n.nest->roots) {
    llvm::SmallVector<const ir::Value *, 4> values = r.asked();
    const bool histogram = r.kind == RootKind::Histogram;
    if (unsigned mask = histogram ? 1 : 2; (r.kind == RootKind::Store || r.kind == RootKind::Update || histogram) && r.op->operands.size() > mask)
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
  llvm::copy_if(work, std::back_inserter(masks), [](const MaskAt &m) { return m.access && m.mask && m.mask->type.isTensor(); });
  std::set<const ir::Value *> visited;
  while (!work.empty()) {
    MaskAt f = work.pop_back_val();
    if (V trips = f.access && f.access->kind == OpKind::Load && n.panel && inner ? rowsWithoutWrap(*f.access, f.at, *inner) : nullptr)
      full = full ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, full, trips) : trips;
    if (f.access && (f.access->kind == OpKind::Load || f.access->kind == OpKind::Store || f.access->kind == OpKind::AtomicRmw) && inner && !n.panel)
      notePartsOfTrip(*f.access, f.at);
    if (!f.mask || !f.mask->def || !f.mask->type.isTensor() || !visited.insert(f.mask).second || plan_.bufferFor(f.mask) >= 0)
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
    full = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, findSegments(flips, same, full ? full : most, steady, most), most);
  n.inVectors = n.byVector;
  n.byVector &= allEnd;
  n.underMask = llvm::any_of(masks, [&](const MaskAt &m) { return !assumedTrue(m.mask, m.at); });
  return full;
}

// `x % n` with linear x in the address of a load, where a trip reads one row and the inner loop goes on to others: all trips if the row does not wrap around, else none; i64.
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

// The comparison was examined at one position, with the lane and loop bits of that position and all values of the unrolled ones.
static bool isKnown(const NestState &n, const std::map<const ir::Value *, Bits> &all, const ir::Value *v, const Bits &at) {
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
bool FunctionEmitter::isAssumed(const ir::Value *v, const Bits &at) const { return isKnown(*nest_, nest_->assumed, v, at); }

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

// x - y and x + y in 64 bits: exact for numbers that were of type i32 (`of`), else the nearest number that 64 bits have, so that a distance never changes its sign.
V FunctionEmitter::differenceOf(V x, V y, llvm::Type *of) { return of->isIntegerTy(32) ? b_.CreateSub(x, y) : b_.CreateBinaryIntrinsic(llvm::Intrinsic::ssub_sat, x, y); }
V FunctionEmitter::sumOf(V x, V y, llvm::Type *of) { return of->isIntegerTy(32) ? b_.CreateAdd(x, y) : b_.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, x, y); }

// a < b etc. with linear sides. On the bits of one trip and of the inner loop the difference a - b must grow like the position in
// the row (then a prefix of trips is inside), or not at all (then all or none). `end.from`: as falseFrom() says, if that is known.
V FunctionEmitter::fullTripsOf(const Op &cmp, const Bits &at, NestLoop *inner, unsigned innerBits, MaskEnd &end) {
  NestState &n = *nest_;
  Lin a = lin(cmp.operands[0]), b = lin(cmp.operands[1]);
  const std::optional<Below> below = asBelow(cmp.pred());
  if (!below)
    return nullptr;
  // Unsigned, both bounds in one (tensor descriptors): the same if the row does not begin below zero, and never full otherwise.
  const bool isUnsigned = below->isUnsigned, orEqual = below->orEqual;
  if (below->swapped)
    std::swap(a, b);
  if (!a.opaque.empty() || !b.opaque.empty() || a.split || b.split)
    return nullptr;
  // Sides at the start of the row, in 64 bits; the growth per step of the row by bits.
  llvm::SmallVector<int64_t, 24> growth(n.loopOf.size(), 0);
  bool onlyA = true, onlyB = true, apart = true; // grows; neither moves toward the other
  Lin outerA = a, outerB = b;
  for (size_t i = 0; i < at.size(); ++i) {
    if (at[i] < 0)
      continue;
    size_t bit = static_cast<size_t>(at[i]);
    bool outer = n.loopOf[bit] >= 0 && !(inner && &n.loops[static_cast<size_t>(n.loopOf[bit])] == inner);
    if (outer)
      continue;
    if ((!a.coef[i].zero() && a.coef[i].s) || (!b.coef[i].zero() && b.coef[i].s))
      return nullptr;
    growth[bit] += a.coef[i].k - b.coef[i].k;
    onlyA &= a.coef[i].k >= 0 && b.coef[i].zero();
    onlyB &= a.coef[i].zero() && b.coef[i].k >= 0;
    apart &= a.coef[i].k >= 0 && b.coef[i].k <= 0;
    outerA.coef[i] = outerB.coef[i] = {};
  }
  auto wide = [&](const void *key, const Lin &l) {
    return b_.CreateSExt(linAt(key, l, at, false).base, b_.getInt64Ty());
  };
  V all = b_.getInt64(uint64_t(1) << innerBits), zero = b_.getInt64(0);
  V inDepth = nullptr; // what the bits of `tileDepth` make it grow by in all, if that is not among `growth`
  if (const unsigned bits = n.tileDepth ? n.nest->columnBits() : 0; bits && growth[0] > 0) {
    bool linear = true;
    for (unsigned i = 0; i < bits; ++i)
      linear &= growth[i] == growth[0] << i;
    if (linear) {
      inDepth = b_.CreateMul(b_.CreateSub(n.tileDepth, b_.getInt64(1)), b_.getInt64(static_cast<uint64_t>(growth[0])));
      std::fill(growth.begin(), growth.begin() + bits, 0);
    }
  }
  if (onlyB && !isUnsigned && llvm::any_of(growth, [](int64_t g) { return g < 0; })) { // `0 <= index`: inside if the first is, unless the last wraps around
    int64_t most = b.base->getType()->isIntegerTy(32) ? INT32_MAX : INT64_MAX;
    for (int64_t g : growth)
      most += g;
    V first = wide(&cmp.loc, outerA), begins = wide(&cmp, outerB), fits = b_.CreateICmpSLE(begins, b_.getInt64(static_cast<uint64_t>(most)));
    V inside = b_.CreateAnd(orEqual ? b_.CreateICmpSLE(first, begins) : b_.CreateICmpSLT(first, begins), fits);
    int64_t perTrip = 0, inTrip = 0; // b grows
    bool steady = inner && n.bySegments;
    for (size_t bit = 0; bit < growth.size(); ++bit) {
      const bool inLoop = inner && n.loopOf[bit] >= 0 && &n.loops[static_cast<size_t>(n.loopOf[bit])] == inner;
      if (!inLoop) {
        inTrip -= growth[bit];
        continue;
      }
      if (bit == inner->firstBit)
        perTrip = -growth[bit];
      steady &= growth[bit] == -(perTrip << (bit - inner->firstBit));
    }
    if (steady && perTrip && isPowerOfTwo(perTrip)) {
      // It holds where b has grown by `need`: trip t is inside if t * perTrip >= need, and outside as a whole if t * perTrip + inTrip < need.
      V need = sumOf(differenceOf(first, begins, b.base->getType()), b_.getInt64(orEqual ? 0 : 1), b.base->getType());
      auto tripsUntil = [&](V x) { return b_.CreateSelect(b_.CreateICmpSGT(x, zero), b_.CreateAdd(b_.CreateAShr(b_.CreateSub(x, b_.getInt64(1)), log2Exact(perTrip)), b_.getInt64(1)), zero); };
      end.rises = true;
      end.behind = b_.CreateSelect(fits, tripsUntil(need), all);
      end.before = b_.CreateSelect(fits, tripsUntil(differenceOf(need, b_.getInt64(static_cast<uint64_t>(inTrip)), b.base->getType())), zero);
    }
    return b_.CreateSelect(inside, all, zero);
  }
  // Trip t covers positions whose largest growth is the sum over lane and unrolled bits.
  int64_t perTrip = 0, inTrip = 0;
  for (size_t bit = 0; bit < growth.size(); ++bit) {
    if (growth[bit] < 0)
      return nullptr;
    bool inLoop = inner && n.loopOf[bit] >= 0 && &n.loops[static_cast<size_t>(n.loopOf[bit])] == inner;
    if (!inLoop) {
      inTrip += growth[bit];
      continue;
    }
    int64_t unit = growth[bit] >> (bit - inner->firstBit);
    if (bit == inner->firstBit)
      perTrip = unit;
    if (unit != perTrip || (unit << (bit - inner->firstBit)) != growth[bit])
      return nullptr;
  }
  if (perTrip && !isPowerOfTwo(perTrip))
    return nullptr;
  // room = how much a may grow; all of trip t is inside if t * perTrip + inTrip <= room.
  llvm::Type *of = a.base->getType();
  V first = wide(&cmp.loc, outerA), bound = wide(&cmp, outerB);
  V room = differenceOf(bound, first, of);
  room = differenceOf(room, b_.getInt64(static_cast<uint64_t>(inTrip + (orEqual ? 0 : 1))), of);
  if (inDepth)
    room = differenceOf(room, inDepth, of);
  V inside = b_.CreateICmpSGE(room, zero);
  if (isUnsigned)
    inside = b_.CreateAnd(inside, b_.CreateICmpSGE(first, zero));
  V trips = perTrip ? sumOf(b_.CreateAShr(room, log2Exact(perTrip)), b_.getInt64(1), of) : all;
  trips = b_.CreateSelect(inside, trips, zero);
  // Once it is false it stays so, unless the row wraps around (or, unsigned, begins below zero). In the trip behind the one with the last element that is inside all are behind.
  const int64_t growthOfRow = perTrip * ((int64_t(1) << innerBits) - 1) + inTrip;
  if (inner && (onlyA || (apart && !isUnsigned)) && !inDepth && (!perTrip || inTrip <= perTrip) && growthOfRow < INT32_MAX) {
    const int64_t most = (of->isIntegerTy(32) ? INT32_MAX : INT64_MAX) - growthOfRow;
    V stays = b_.CreateICmpSLE(first, b_.getInt64(static_cast<uint64_t>(most)));
    if (!onlyA)
      stays = b_.CreateAnd(stays, b_.CreateICmpSGE(bound, b_.getInt64(static_cast<uint64_t>(-most))));
    if (isUnsigned)
      stays = b_.CreateAnd(stays, b_.CreateICmpSGE(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, first, bound), zero));
    if (perTrip && n.bySegments) {
      V most = sumOf(room, b_.getInt64(static_cast<uint64_t>(inTrip)), of); // of the first element of a trip
      end.before = trips;
      end.behind = b_.CreateSelect(stays, b_.CreateSelect(b_.CreateICmpSGE(most, zero), sumOf(b_.CreateAShr(most, log2Exact(perTrip)), b_.getInt64(1), of), zero), all);
    }
    const auto copies = static_cast<unsigned>(n.unrolled.size());
    V from = trips, never = n.byVector ? b_.getInt64(uint64_t(1) << (innerBits + copies)) : all;
    if (!perTrip) { // it is the same in all trips: false from the first one on if it is for the first element, the least one
      room = sumOf(room, b_.getInt64(static_cast<uint64_t>(inTrip)), of);
      from = b_.CreateSelect(b_.CreateICmpSGE(room, zero), never, zero);
      end.beside = inTrip > 0;
    } else if (n.byVector) {
      int64_t perVector = perTrip >> copies, ofCopies = 0; // grows
      for (unsigned bit : n.unrolled)
        ofCopies += growth[bit];
      if (ofCopies != perTrip - perVector)
        return trips;
      room = sumOf(room, b_.getInt64(static_cast<uint64_t>(ofCopies)), of);
      from = sumOf(b_.CreateAShr(room, log2Exact(perVector)), b_.getInt64(1), of);
      from = b_.CreateSelect(b_.CreateICmpSGE(room, zero), from, zero);
    }
    end.from = b_.CreateSelect(stays, from, never);
  }
  return trips;
}

} // namespace tegula::cpu
