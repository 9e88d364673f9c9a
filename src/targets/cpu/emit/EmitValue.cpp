// The value of a tensor at a position of the nest: read from its buffer, or computed from its operands.
#include "targets/cpu/emit/Emitter.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;

unsigned FunctionEmitter::depthOf(const Bits &at) const {
  unsigned d = 0;
  for (BitSource s : at) {
    if (s < 0)
      continue;
    size_t bit = static_cast<size_t>(s);
    if (nest_->laneOf[bit] >= 0)
      continue;
    d = std::max(d, static_cast<unsigned>(nest_->loopOf[bit]) + 1);
  }
  return d;
}

bool FunctionEmitter::hasLanes(const Bits &at) const {
  return llvm::any_of(at, [&](BitSource s) { return nest_->isLane(s); });
}

V FunctionEmitter::atDepth(unsigned depth, llvm::function_ref<V()> f) {
  if (depth >= nest_->depth)
    return f();
  llvm::IRBuilder<>::InsertPointGuard guard(b_);
  unsigned saved = nest_->depth;
  b_.SetInsertPoint(nest_->loops[depth].hoist);
  nest_->depth = depth;
  V r = f();
  nest_->depth = saved;
  return r;
}

V FunctionEmitter::eval(const ir::Value *v, const Bits &at) {
  if (v->type.isScalar())
    return scalar_.lookup(v);
  NestState &n = *nest_;
  // Asked of the whole mask: a comparison in it that does not vary in the inner loop would be evaluated before that
  // loop, where nothing is assumed yet.
  bool mask = v->type.elem == ir::Elem::I1 && !v->type.isPtr;
  if (mask && n.assuming && (n.depth == n.loops.size() || n.oneTrip) && assumedTrue(v, at))
    return b_.getTrue();
  if (mask && n.assuming && !n.denied.empty() && n.depth == n.loops.size() && isDenied(v, at))
    return b_.getFalse();
  unsigned depth = std::min(depthOf(at), n.open);
  auto &memo = n.memo[depth];
  auto it = memo.find({v, at});
  if (it != memo.end())
    return it->second;
  V r = atDepth(depth, [&] {
    if (v->def)
      setLoc(v->def);
    return compute(v, at);
  });
  memo[{v, at}] = r;
  return r;
}

V FunctionEmitter::compute(const ir::Value *v, const Bits &at) {
  int buffer = plan_.bufferFor(v);
  if (buffer >= 0)
    return loadBuffer(buffer, v->type, at);
  return computeFresh(v, at);
}

V FunctionEmitter::computeFresh(const ir::Value *v, const Bits &at) {
  auto l = lin_.find(v);
  if (l != lin_.end() && !l->second.self && (!l->second.assumed || v->type.isPtr)) {
    Lin copy = l->second; // evaluation may add entries
    return evalLinear(v, copy, at);
  }
  const Op &op = *v->def;
  // a part of addresses, as data
  if (const NestState &n = *nest_;
      n.run && n.run->first.contains(v) && n.depth == n.loops.size() && hasLanes(at) && isAssumed(v, at)) {
    Lin part;
    part.base = llvm::ConstantInt::get(regType(v->type.scalarType()), 0);
    part.coef.resize(at.size());
    part.opaque.push_back({v, identityBits(static_cast<unsigned>(at.size()))});
    return evalLinear(v, part, at);
  }
  switch (op.kind) {
  case OpKind::Const:
    return constant(op);
  case OpKind::Poison:
    return llvm::Constant::getNullValue(regType(v->type.scalarType()));
  case OpKind::Load:
    return evalLoad(op, at);
  case OpKind::Gather:
    return evalGather(op, at);
  case OpKind::Range: {
    Lin full; // narrow or unusual widths
    full.base = llvm::ConstantInt::getSigned(regType(v->type.scalarType()), op.start());
    for (size_t i = 0; i < at.size(); ++i)
      full.coef.push_back({int64_t(1) << i});
    return evalLinear(v, full, at);
  }
  default:
    break;
  }
  if (op.has(ir::traits::Shape))
    return evalShape(op, v, at);
  llvm::SmallVector<V, 3> args;
  if (op.kind == OpKind::Select && op.operands[0]->type.isTensor())
    if (V which = eval(op.operands[0], at); which == b_.getTrue() || which == b_.getFalse())
      return eval(op.operands[which == b_.getTrue() ? 1 : 2], at);
  for (const ir::Value *o : op.operands)
    args.push_back(eval(o, at));
  setLoc(&op);
  const Bits last = operandBits(op, static_cast<unsigned>(op.operands.size()) - 1, v->index, at);
  if (V r = op.kind == OpKind::FDiv ? divideByOneFloat(op, args, last) : divideByOneNumber(op, args, last))
    return r;
  return elementwise(op, args);
}

V FunctionEmitter::evalShape(const Op &op, const ir::Value *v, const Bits &at) {
  if (op.kind != OpKind::Join && op.kind != OpKind::Cat)
    return eval(op.operands[0], operandBits(op, 0, v->index, at));
  BitSource which = selectorBit(op, at);
  Bits inner = operandBits(op, 0, 0, at);
  if (which < 0)
    return eval(op.operands[which == oneBit ? 1 : 0], inner);
  V x = eval(op.operands[0], inner), y = eval(op.operands[1], inner);
  NestState &n = *nest_;
  size_t bit = static_cast<size_t>(which);
  if (n.laneOf[bit] >= 0) {
    llvm::SmallVector<llvm::Constant *, 32> second;
    for (unsigned i = 0; i < n.lanes(); ++i)
      second.push_back(b_.getInt1(i >> n.laneOf[bit] & 1));
    return b_.CreateSelect(llvm::ConstantVector::get(second), broadcast(y, n.lanes()), broadcast(x, n.lanes()));
  }
  const NestLoop &l = n.loops[static_cast<size_t>(n.loopOf[bit])];
  V choose = b_.CreateTrunc(b_.CreateLShr(l.iv, static_cast<unsigned>(bit) - l.firstBit), b_.getInt1Ty());
  if (x->getType() != y->getType()) {
    x = broadcast(x, n.lanes());
    y = broadcast(y, n.lanes());
  }
  return b_.CreateSelect(choose, y, x);
}

V FunctionEmitter::evalLoad(const Op &op, const Bits &at) {
  const ir::Value *p = op.operands[0];
  V mask = op.operands.size() > 1 ? eval(op.operands[1], at) : nullptr;
  V other = op.operands.size() > 2 ? eval(op.operands[2], at) : nullptr;
  if (mask == b_.getFalse())
    return other ? other : llvm::Constant::getNullValue(regType(op.results[0]->type.scalarType()));
  Lin l = lin(p);
  // what the other lanes hold is stored nowhere; what is before the loop goes by no rows, and is for all of it
  if (nest_->onlyLanes && nest_->depth == nest_->open && hasLanes(at))
    mask = mask ? b_.CreateAnd(nest_->onlyLanes, broadcast(mask, nest_->lanes())) : nest_->onlyLanes;
  if (l.self) {
    V x = eval(p, at);
    LaneAddress a;
    a.lane.resize(nest_->laneBits);
    a.base = x;
    if (x->getType()->isVectorTy()) {
      a.base = llvm::ConstantPointerNull::get(b_.getPtrTy());
      a.extra = b_.CreatePtrToInt(x, llvm::FixedVectorType::get(b_.getInt64Ty(), nest_->lanes()));
    }
    setLoc(&op);
    return loadLanes(a, op.results[0]->type.scalarType(), mask, other, op.isVolatile(), &op);
  }
  LaneAddress a = linAt(p, l, at, true, true);
  setLoc(&op);
  if (nest_->panel)
    fetchRowAhead(a, l, at, op, mask);
  return loadLanes(a, op.results[0]->type.scalarType(), mask, other, op.isVolatile(), &op);
}

// x[lane ^ by] for the lanes of x, `by` i32 below their number.
V FunctionEmitter::exchangeLanes(V x, V by) {
  using namespace llvm::Intrinsic;
  const CpuTarget &t = state_.target;
  const unsigned lanes = nest_->lanes(), bits = x->getType()->getScalarSizeInBits();
  const bool wide = t.avx512 && lanes * bits == 512;
  ID permute = not_intrinsic;
  if (wide && bits >= 16)
    permute = bits == 16   ? x86_avx512_permvar_hi_512
              : bits == 32 ? x86_avx512_permvar_si_512
                           : x86_avx512_permvar_di_512;
  else if (t.avx2 && lanes == 8 && bits == 32)
    permute = x86_avx2_permd;
  if (permute != not_intrinsic) {
    llvm::Type *integers = llvm::FixedVectorType::get(b_.getIntNTy(bits), lanes);
    llvm::SmallVector<llvm::Constant *, 32> places;
    for (unsigned i = 0; i < lanes; ++i)
      places.push_back(llvm::ConstantInt::get(b_.getIntNTy(bits), i));
    V index = b_.CreateXor(llvm::ConstantVector::get(places),
                           b_.CreateVectorSplat(lanes, b_.CreateZExtOrTrunc(by, b_.getIntNTy(bits))));
    return b_.CreateBitCast(b_.CreateIntrinsic(permute, {}, {b_.CreateBitCast(x, integers), index}), x->getType());
  }
  for (unsigned bit = 1; bit < lanes; bit *= 2) {
    llvm::SmallVector<int, 32> places;
    for (unsigned i = 0; i < lanes; ++i)
      places.push_back(static_cast<int>(i ^ bit));
    x = b_.CreateSelect(b_.CreateICmpNE(b_.CreateAnd(by, bit), b_.getInt32(0)), b_.CreateShuffleVector(x, places), x);
  }
  return x;
}

// A gather from position ^ distance, with one distance for all lanes (the exchanges of a sorting network): a contiguous
// vector whose lanes are then permuted. `l` and `from` are evalGather()'s.
V FunctionEmitter::evalExchange(const Op &op, const Bits &at, Lin l, Bits from) {
  NestState &n = *nest_;
  const ir::Value *source = op.operands[0], *index = op.operands[1];
  const ir::Shape &in = source->type.shape;
  const unsigned axis = static_cast<unsigned>(op.axis()), first = dimOffset(in, axis), bits = dimBits(in, axis),
                 firstOut = dimOffset(index->type.shape, axis);
  const int buffer = plan_.bufferFor(source);
  const Buffer &b = plan_.buffers[static_cast<size_t>(buffer)];
  if (!n.laneBits || !index->def || index->def->kind != OpKind::Xor || index->type.elem != ir::Elem::I32 ||
      b.element.isPtr || b.element.elem == ir::Elem::I1)
    return nullptr;
  for (unsigned side : {0u, 1u}) {
    const ir::Value *position = index->def->operands[side], *distance = index->def->operands[1 - side];
    const Lin p = lin(position);
    if (!lin(distance).uniform() || p.self || !p.opaque.empty() || !llvm::isa<llvm::ConstantInt>(p.base) ||
        !llvm::cast<llvm::ConstantInt>(p.base)->isZero())
      continue;
    bool isPosition = true;
    for (unsigned i = 0; i < p.coef.size(); ++i)
      isPosition &=
          i >= firstOut && i < firstOut + bits ? p.coef[i] == Coef{int64_t(1) << (i - firstOut)} : p.coef[i].zero();
    if (!isPosition)
      continue;
    // Its lanes are neighbours in memory.
    const Lin &whole = bufferLin(buffer);
    for (unsigned i = 0; i < n.laneBits; ++i) {
      if (i >= bits || !n.isLane(at[firstOut + i]) || n.laneBit(at[firstOut + i]) != i ||
          !(whole.coef[first + i] == Coef{whole.coef[first].k << i}))
        return nullptr;
      l.coef[first + i] = whole.coef[first + i];
      from[first + i] = at[firstOut + i];
    }
    V by = eval(distance, at), start = linAt(index->def, p, at, false).base;
    if (by->getType()->isVectorTy())
      return nullptr;
    LaneAddress a = linAt(&op, l, from, true);
    // of the vector
    V whereTo = b_.CreateAnd(b_.CreateXor(start, by), (uint64_t(1) << bits) - (uint64_t(1) << n.laneBits));
    a.base = b_.CreateGEP(
        b_.getInt8Ty(), a.base,
        b_.CreateMul(b_.CreateZExt(whereTo, b_.getInt64Ty()), b_.getInt64(static_cast<uint64_t>(whole.coef[first].k))));
    V x = exchangeLanes(loadLanes(a, b.element, nullptr, nullptr, false, nullptr), b_.CreateAnd(by, n.lanes() - 1));
    return convertElem(x, b.element, source->type.scalarType());
  }
  return nullptr;
}

V FunctionEmitter::evalGather(const Op &op, const Bits &at) {
  const ir::Value *source = op.operands[0], *index = op.operands[1];
  unsigned axis = static_cast<unsigned>(op.axis());
  int buffer = plan_.bufferFor(source);
  const Lin &whole = bufferLin(buffer);
  // The source's bits outside the axis come from the result's position, the axis from the index.
  const ir::Shape &in = source->type.shape, &out = index->type.shape;
  Lin l;
  l.base = whole.base;
  Bits from;
  for (unsigned d = in.rank(); d-- > 0;)
    for (unsigned i = 0; i < dimBits(in, d); ++i) {
      l.coef.push_back(d == axis ? Coef{} : whole.coef[dimOffset(in, d) + i]);
      from.push_back(d == axis ? zeroBit : at[dimOffset(out, d) + i]);
    }
  int64_t step = dimBits(in, axis) ? whole.coef[dimOffset(in, axis)].k : 0;
  if (V exchanged = evalExchange(op, at, l, from))
    return exchanged;
  // Stays inside the buffer whatever the index is.
  V x = eval(index, at);
  x = b_.CreateAnd(x, llvm::ConstantInt::get(x->getType(), static_cast<uint64_t>(in[axis]) - 1));
  LaneAddress a = linAt(&op, l, from, true);
  auto wide = [&](llvm::Type *t) { return b_.CreateZExtOrTrunc(x, t); };
  if (x->getType()->isVectorTy()) {
    state_.notVectorized(op, "its places come from values");
    llvm::Type *t = llvm::FixedVectorType::get(b_.getInt64Ty(), nest_->lanes());
    a.extra = b_.CreateMul(wide(t), llvm::ConstantInt::getSigned(t, step));
  } else {
    a.base = b_.CreateGEP(b_.getInt8Ty(), a.base,
                          b_.CreateMul(wide(b_.getInt64Ty()), b_.getInt64(static_cast<uint64_t>(step))));
  }
  const Buffer &b = plan_.buffers[static_cast<size_t>(buffer)];
  return convertElem(loadLanes(a, b.element, nullptr, nullptr, false, nullptr), b.element, source->type.scalarType());
}

V FunctionEmitter::convertElem(V x, const ir::Type &from, const ir::Type &to) {
  if (from.isPtr || to.isPtr || from.elem == to.elem)
    return x;
  if (ir::isInt(from.elem))
    return b_.CreateSExtOrTrunc(x, x->getType()->getWithNewBitWidth(ir::bitWidth(to.elem)));
  V f = vec_.widen(x, from.elem);
  return to.elem == ir::Elem::F32 ? f : vec_.narrow(f, to.elem);
}

V FunctionEmitter::loadBuffer(int buffer, const ir::Type &as, const Bits &at) {
  const Buffer &b = plan_.buffers[static_cast<size_t>(buffer)];
  LaneAddress a = linAt(&b, bufferLin(buffer), at, true);
  return convertElem(loadLanes(a, b.element, nullptr, nullptr, false, nullptr), b.element, as.scalarType());
}

void FunctionEmitter::storeBuffer(int buffer, V value, const ir::Type &from, const Bits &at, bool asOperand) {
  const Buffer &b = plan_.buffers[static_cast<size_t>(buffer)];
  LaneAddress a = linAt(&b, bufferLin(buffer), at, true);
  V x = convertElem(value, from.scalarType(), b.element);
  if (asOperand && b.tf32)
    x = truncTf32(vec_, x);
  if (asOperand && b.biased)
    x = b_.CreateXor(x, llvm::ConstantInt::get(x->getType(), 0x80));
  storeLanes(a, x, b.element, nullptr, false, nullptr);
}


} // namespace tegula::cpu
