// The loops of a nest and the work of its roots.
//
// LayOutNest.cpp says which bits of the iteration space are loops. If masks of
// the form `affine < bound` appear, the innermost loop is split: first the trips that are inside as a whole, where
// those comparisons are known to be true and accesses need no mask, then the rest with masks.
#include "targets/cpu/emit/Emitter.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;


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
  // Code hoisted later may split the block, so incoming blocks are taken from the branch.
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

static unsigned outerLoops(const NestState &n) {
  return n.loops.empty() ? 0 : static_cast<unsigned>(n.loops.size()) - 1;
}

// The innermost loop is inside the reduction only if it runs over the axis.
static bool innerIsAxis(const NestState &n) {
  if (n.nest->axis < 0 || n.loops.empty())
    return false;
  unsigned axis = static_cast<unsigned>(n.nest->axis);
  unsigned from = dimOffset(n.nest->space, axis), bits = dimBits(n.nest->space, axis);
  return bits && n.loops.back().firstBit >= from && n.loops.back().firstBit < from + bits;
}

/// x / 2^k rounded up, `to` = 2^k.
V FunctionEmitter::divideUp(V x, int64_t to) {
  return b_.CreateLShr(b_.CreateAdd(x, b_.getInt64(static_cast<uint64_t>(to - 1))), log2Exact(to));
}

V FunctionEmitter::roundUp(V x, int64_t to) {
  return b_.CreateMul(divideUp(x, to), b_.getInt64(static_cast<uint64_t>(to)));
}

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
  if (plan_.groupsColumns() && !n.ofOneProgram && l.firstBit < columns) // the columns of one program after the other
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
      loop(n.loops.back(), b_.getInt64(0), b_.getInt64(uint64_t(1) << n.vectors.bits), false, {},
           [&](llvm::ArrayRef<V>) { return all(); });
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
    if (isReversed(*n.nest))
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
  n.bySegments = mayEnd && !n.panel && !n.leftRows && !n.leftDepth && !n.tileDepth && n.copyFrom < 0 &&
                 llvm::isa<llvm::Constant>(trips);
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
    // The edges of a tile that is turned: each element of a vector is an access of its own, and most vectors of a
    // narrow tile are masked off as a whole.
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
    return assertRoot(*r.op, eval(r.op->operands[0], at),
                      r.op->operands.size() > 1 ? eval(r.op->operands[1], at) : nullptr);
  case RootKind::Reduce:
  case RootKind::Scan:
    return;
  }
}

} // namespace tegula::cpu
