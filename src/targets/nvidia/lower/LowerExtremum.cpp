// Extrema across the lanes of a warp, and the place of one: argmax and argmin.
//
// The pair (value, index) is not carried through every step of a reduction, each of which would compare values, indices
// and NaNs. First the extremum of the values alone, then the smallest index among the elements that equal it: one
// instruction an element and step in place of ten. On all 32 lanes each of the two is one redux.sync; floats go through
// it as integers of the same order.
#include "targets/common/VecUtil.h"
#include "targets/nvidia/lower/LowerReduce.h"

namespace tegula::nvidia {

using ir::Elem;
using ir::OpKind;

namespace {

constexpr uint32_t allLanes = NvTarget::lanes - 1;

bool isFloatExtremum(OpKind k) { return k == OpKind::MaxNum || k == OpKind::MinNum; }

/// What redux.sync computes on integers; floats: on their keys.
std::optional<AtomOp> reduxOf(OpKind k) {
  switch (k) {
  case OpKind::SMax: case OpKind::MaxNum: return AtomOp::SMax;
  case OpKind::SMin: case OpKind::MinNum: return AtomOp::SMin;
  case OpKind::UMax: return AtomOp::UMax;
  case OpKind::UMin: return AtomOp::UMin;
  case OpKind::Add: return AtomOp::Add;
  case OpKind::And: return AtomOp::And;
  case OpKind::Or: return AtomOp::Or;
  case OpKind::Xor: return AtomOp::Xor;
  default: return std::nullopt;
  }
}

bool isIdempotent(OpKind k) { return k != OpKind::Add && k != OpKind::Xor; }

OpKind valueKind(const ArgExtremum &x, Elem e) {
  if (ir::isFloat(e))
    return x.isMax ? OpKind::MaxNum : OpKind::MinNum;
  return x.isSigned ? (x.isMax ? OpKind::SMax : OpKind::SMin) : x.isMax ? OpKind::UMax : OpKind::UMin;
}

} // namespace

/// Of conditions, by one vote; null: there is none for it.
V Lowering::Reductions::voteLanes(OpKind kind, V x) {
  switch (kind) {
  case OpKind::Or: case OpKind::UMax: return b_.CreateICmpNE(in_->ballot(x), b_.getInt32(0));
  case OpKind::And: case OpKind::UMin: return b_.CreateICmpEQ(in_->ballot(b_.CreateNot(x)), b_.getInt32(0));
  case OpKind::Xor:
    return b_.CreateTrunc(b_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, in_->ballot(x)), b_.getInt1Ty());
  default: return nullptr;
  }
}

/// By redux.sync, or a vote; null if there is none for it. `repeat`: lanes that differ in other bits than `lanes` hold
/// the same.
V Lowering::Reductions::reduxLanes(OpKind kind, V x, uint32_t lanes, bool repeat) {
  std::optional<AtomOp> redux = reduxOf(kind);
  llvm::Type *type = x->getType();
  bool isFloat = type->isFloatTy();
  if (!redux || isFloat != isFloatExtremum(kind) || !(isFloat || type->isIntegerTy()) ||
      (lanes != allLanes && !(repeat && isIdempotent(kind))) || std::popcount(lanes) < 2)
    return nullptr;
  if (type->isIntegerTy(1))
    return voteLanes(kind, x);
  if (type->isIntegerTy(64)) { // the halves of a word by themselves
    if (kind != OpKind::And && kind != OpKind::Or && kind != OpKind::Xor)
      return nullptr;
    V low = in_->redux(*redux, b_.CreateTrunc(x, b_.getInt32Ty())),
      high = in_->redux(*redux, b_.CreateTrunc(b_.CreateLShr(x, 32), b_.getInt32Ty()));
    return b_.CreateOr(b_.CreateZExt(low, type), b_.CreateShl(b_.CreateZExt(high, type), 32));
  }
  if (!isFloat && type->getIntegerBitWidth() < 32) {
    bool isSigned = kind == OpKind::SMax || kind == OpKind::SMin;
    return b_.CreateTrunc(
        in_->redux(*redux, isSigned ? b_.CreateSExt(x, b_.getInt32Ty()) : b_.CreateZExt(x, b_.getInt32Ty())), type);
  }
  if (!isFloat)
    return in_->redux(*redux, x);
  // A signed integer of the same order; its own inverse. NaNs become what loses, which is a NaN on the way back.
  auto key = [&](V bits) { return b_.CreateXor(bits, b_.CreateAnd(b_.CreateAShr(bits, 31), b_.getInt32(INT32_MAX))); };
  V loses = b_.getInt32(static_cast<uint32_t>(kind == OpKind::MaxNum ? INT32_MIN : INT32_MAX));
  V k = b_.CreateSelect(b_.CreateFCmpUNO(x, x), loses, key(frame_.bitsOf(x)));
  return frame_.fromBits(key(in_->redux(*redux, k)), type);
}

V Lowering::Reductions::extremum(OpKind kind, V x, V y) {
  if (isFloatExtremum(kind))
    return targets::emitMinMax(*vec_, kind, x, y);
  using namespace llvm::Intrinsic;
  return b_.CreateBinaryIntrinsic(kind == OpKind::SMax   ? smax
                                  : kind == OpKind::SMin ? smin
                                  : kind == OpKind::UMax ? umax
                                                         : umin,
                                  x, y);
}

V Lowering::Reductions::extremumOfLanes(OpKind kind, V x, uint32_t lanes, bool repeat) {
  if (V all = reduxLanes(kind, x, lanes, repeat))
    return all;
  for (uint32_t bits = lanes; bits; bits &= bits - 1)
    x = extremum(kind, x, frame_.shuffle(ShuffleMode::Bfly, x, b_.getInt32(bits & -bits)));
  return x;
}

V Lowering::Reductions::extremumOfPairs(OpKind kind, llvm::ArrayRef<V> x) {
  if (x.size() == 1)
    return x[0];
  return extremum(kind, extremumOfPairs(kind, x.take_front(x.size() / 2)),
                  extremumOfPairs(kind, x.drop_front(x.size() / 2)));
}

/// The reduction, if it is one of those above and of elements that fit in a register.
Lowering::Reductions::MaybeArg Lowering::Reductions::argExtremumOf(const Op &op) const {
  std::optional<ArgExtremum> x = argExtremum(op);
  return x && ir::bitWidth(op.operands[0]->type.elem) <= 32 && op.operands[1]->type.elem == Elem::I32 ? x
                                                                                                      : std::nullopt;
}

llvm::SmallVector<V, 8> *Lowering::Reductions::findExtrema(const Op &op, const MaybeArg &arg, size_t parts) {
  Elem e = op.operands[0]->type.elem;
  std::optional<OpKind> kind = arg ? valueKind(*arg, e) : onlyOperation(op);
  bool isExtremum = kind && (isFloatExtremum(*kind) || (*kind >= OpKind::SMin && *kind <= OpKind::UMax));
  if (!isExtremum || op.operands[0]->type.isPtr || (e != Elem::F32 && e != Elem::I32))
    return nullptr;
  // What a block has lowered dominates what it lowers later.
  auto &found = frame_.extrema_[{op.parent, op.operands[0], op.axis(), *kind}];
  found.resize(parts);
  return &found;
}

/// A range that is seen as a row or a column.
bool indicesAscend(const ir::Op &reduce) {
  const auto axis = static_cast<unsigned>(reduce.axis());
  const int64_t n = reduce.operands[1]->type.shape[axis];
  const ir::Value *v = reduce.operands[1];
  for (; v->def && v->def->kind != OpKind::Range; v = v->def->operands[0]) {
    const ir::Type &t = v->type;
    const bool isAlong = t.shape.rank() == reduce.operands[1]->type.shape.rank() && t.shape[axis] == n;
    const bool isRow = t.numel() == n; // whatever it was reshaped from has one order
    if (v->def->kind == OpKind::Broadcast
            ? !isAlong
            : !isRow || !(v->def->kind == OpKind::Reshape || v->def->kind == OpKind::ExpandDims ||
                          v->def->kind == OpKind::Convert))
      return false;
  }
  return v->def && v->type.shape[0] == n;
}

/// The winner among the pairs of a thread, then of the lanes: every lane has it. If nobody wants the value, any that
/// equals it. `found` is the extremum of the values of thread and lanes; null: it is computed.
Regs Lowering::Reductions::winner(const Op &op, const ArgExtremum &x, llvm::ArrayRef<Regs> pairs, uint32_t lanes,
                                  bool repeat, V &found, bool ascend) {
  if (pairs.size() == 1 && !lanes)
    return pairs[0];
  const ir::Type &t = op.operands[0]->type;
  bool isFloat = ir::isFloat(t.elem), isNarrow = ir::bitWidth(t.elem) < 32;
  OpKind kind = valueKind(x, t.elem);
  llvm::SmallVector<V, 32> values;
  for (const Regs &p : pairs)
    values.push_back(!isNarrow    ? p[0]
                     : isFloat    ? vec_->widen(p[0], t.elem)
                     : x.isSigned ? b_.CreateSExt(p[0], b_.getInt32Ty())
                                  : b_.CreateZExt(p[0], b_.getInt32Ty()));
  if (!found)
    found = extremumOfLanes(kind, extremumOfPairs(kind, values), lanes, repeat);
  V onlyNans = isFloat ? b_.CreateFCmpUNO(found, found) : nullptr;
  // Integers are their own bits. Floats that are equal may be zeros of two signs, or NaNs.
  bool wantsBits = isFloat && !frame_.users_.of(op.results[0]).empty();
  V none = b_.getInt32(INT32_MAX), index = nullptr, bits = nullptr;
  llvm::SmallVector<V, 32> candidates;
  // From the last to the first the smaller index wins by coming later.
  const bool isOrdered = x.anyIndex || ascend;
  for (size_t k = 0; k < pairs.size(); ++k) {
    const size_t i = wantsBits && isOrdered ? pairs.size() - 1 - k : k;
    V equal = isFloat ? in_->equalOr(values[i], found, onlyNans) : b_.CreateICmpEQ(values[i], found);
    if (!wantsBits) {
      candidates.push_back(b_.CreateSelect(equal, pairs[i][1], none));
    } else {
      V isBetter = index && !isOrdered ? b_.CreateAnd(equal, b_.CreateICmpSLE(pairs[i][1], index)) : equal;
      index = b_.CreateSelect(isBetter, pairs[i][1], index ? index : none);
      bits = b_.CreateSelect(isBetter, frame_.bitsOf(pairs[i][0]),
                             bits ? bits : llvm::Constant::getNullValue(frame_.bitsOf(pairs[i][0])->getType()));
    }
  }
  if (!wantsBits)
    index = extremumOfPairs(OpKind::SMin, candidates);
  V first = extremumOfLanes(OpKind::SMin, index, lanes, repeat);
  V value = !isNarrow ? found : isFloat ? vec_->narrow(found, t.elem) : b_.CreateTrunc(found, pairs[0][0]->getType());
  if (wantsBits) {
    V mine = b_.CreateSelect(b_.CreateICmpEQ(index, first), bits, llvm::Constant::getNullValue(bits->getType()));
    V all = b_.CreateZExt(mine, b_.getInt32Ty());
    if (lanes)
      all = extremumOfLanes(OpKind::UMax, all, lanes, repeat);
    value = frame_.fromBits(b_.CreateTrunc(all, bits->getType()), pairs[0][0]->getType());
  }
  return {value, first};
}

} // namespace tegula::nvidia
