// Small helpers shared by the files that implement Vec.h: types and constants in the shape of a given value.
#pragma once
#include "targets/common/Vec.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DerivedTypes.h"

namespace tegula::targets {

/// 1 for scalars.
inline unsigned lanesOf(const llvm::Type *t) {
  auto *v = llvm::dyn_cast<llvm::FixedVectorType>(t);
  return v ? v->getNumElements() : 1;
}
inline unsigned lanesOf(const llvm::Value *x) { return lanesOf(x->getType()); }

/// `elem` in the shape (scalar or vector of n) of `shape`.
inline llvm::Type *likeShape(const llvm::Type *shape, llvm::Type *elem) {
  auto *v = llvm::dyn_cast<llvm::FixedVectorType>(shape);
  return v ? llvm::FixedVectorType::get(elem, v->getNumElements()) : elem;
}
inline llvm::Type *intLike(const llvm::Value *x, unsigned bits) {
  return likeShape(x->getType(), llvm::Type::getIntNTy(x->getContext(), bits));
}
inline llvm::Type *floatLike(const llvm::Value *x) {
  return likeShape(x->getType(), llvm::Type::getFloatTy(x->getContext()));
}
inline llvm::Type *doubleLike(const llvm::Value *x) {
  return likeShape(x->getType(), llvm::Type::getDoubleTy(x->getContext()));
}

/// The vector `first`, `first` + 1, ... of `lanes` lanes, at least two.
inline llvm::Constant *consecutive(llvm::Type *elem, unsigned lanes, uint64_t first = 0) {
  llvm::SmallVector<llvm::Constant *, 64> numbers;
  for (unsigned i = 0; i < lanes; ++i)
    numbers.push_back(llvm::ConstantInt::get(elem, first + i));
  return llvm::ConstantVector::get(numbers);
}

/// Arithmetic over one builder with constants splat to the other operand's shape. Never sets fast-math flags, so LLVM
/// keeps the exact semantics of every sequence.
struct Arith {
  VecEmitter &v;
  llvm::IRBuilder<> &b;
  explicit Arith(VecEmitter &v) : v(v), b(v.b) {}
  using V = llvm::Value *;

  V i(V shape, uint64_t c) { return llvm::ConstantInt::get(shape->getType(), c); }
  V f(V shape, double c) { return llvm::ConstantFP::get(shape->getType(), c); }
  V add(V x, uint64_t c) { return b.CreateAdd(x, i(x, c)); }
  V sub(V x, uint64_t c) { return b.CreateSub(x, i(x, c)); }
  V and_(V x, uint64_t c) { return b.CreateAnd(x, i(x, c)); }
  V or_(V x, uint64_t c) { return b.CreateOr(x, i(x, c)); }
  V xor_(V x, uint64_t c) { return b.CreateXor(x, i(x, c)); }
  V shl(V x, uint64_t c) { return c ? b.CreateShl(x, i(x, c)) : x; }
  V lshr(V x, uint64_t c) { return c ? b.CreateLShr(x, i(x, c)) : x; }
  V ashr(V x, uint64_t c) { return b.CreateAShr(x, i(x, c)); }
  V fmul(V x, double c) { return b.CreateFMul(x, f(x, c)); }
  V fadd(V x, double c) { return b.CreateFAdd(x, f(x, c)); }
  /// x*y + z: fused if the target can, two roundings otherwise. For algorithms that are correct either way.
  V mulAdd(V x, V y, V z) {
    if (v.target.fma)
      return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
    return b.CreateFAdd(b.CreateFMul(x, y), z);
  }
  V mulAdd(V x, V y, double z) { return mulAdd(x, y, f(x, z)); }
  V mulAdd(V x, double y, V z) { return mulAdd(x, f(x, y), z); }
  V fabs(V x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  V bitsOf(V x) { return b.CreateBitCast(x, intLike(x, x->getType()->getScalarSizeInBits())); }
  V floatOf(V bits) {
    return b.CreateBitCast(bits, bits->getType()->getScalarSizeInBits() == 64 ? doubleLike(bits) : floatLike(bits));
  }
  V isNan(V x) { return b.CreateFCmpUNO(x, x); }
  V copySign(V magnitude, V sign) { return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign); }
  /// c[0] + c[1] x + c[2] x^2 + ... by Horner's rule.
  V poly(V x, llvm::ArrayRef<double> c);
};

/// Calls an internal function of the module with x. Its result has x's type, or `result`; it has no effects; its name
/// is `name` with the type of x. At the first call, `body` emits the function, with its emitter at the entry, and must
/// emit a return on every path. Use it for code with branches, so that the caller's block is not split.
llvm::Value *callShared(VecEmitter &v, const std::string &name, llvm::Value *x,
                        llvm::function_ref<void(VecEmitter &, llvm::Value *)> body, llvm::Type *result = nullptr);
/// Emits a return of rare()'s value from the current function if `isRare` (i1 per lane) is true in any lane. Emission
/// continues on the path where no lane is.
void returnIfAny(VecEmitter &v, llvm::Value *isRare, llvm::function_ref<llvm::Value *()> rare);

// The parts of Elementwise.cpp. Each takes operands in registers and returns the same shape.
llvm::Value *emitIntDivRem(VecEmitter &v, ir::OpKind kind, llvm::Value *x, llvm::Value *y);
llvm::Value *emitMinMax(VecEmitter &v, ir::OpKind kind, llvm::Value *x, llvm::Value *y);
/// x*y + z with one rounding on every target: float or double operands.
llvm::Value *emitFma(VecEmitter &v, llvm::Value *x, llvm::Value *y, llvm::Value *z);
/// x*y + z of doubles whose product is exact, rounded to odd: one more rounding to a narrower type then rounds
/// correctly.
llvm::Value *emitFmaToOdd(VecEmitter &v, llvm::Value *x, llvm::Value *y, llvm::Value *z);
llvm::Value *emitRound(VecEmitter &v, ir::OpKind floorOrCeil, llvm::Value *x);
/// C's fmod, exact.
llvm::Value *emitFmod(VecEmitter &v, llvm::Value *x, llvm::Value *y);
/// The same without calling it.
llvm::Value *emitSoftFmod(VecEmitter &v, llvm::Value *x, llvm::Value *y);
/// Any cast operation (Trunc ... Bitcast) between non-pointer element kinds.
llvm::Value *emitCast(VecEmitter &v, const ir::Op &op, llvm::Value *x, ir::Elem from, ir::Elem to);
/// A float that is a value of the narrow format, infinities included (narrow() would saturate those of f8e5m2) -> its
/// bits.
llvm::Value *narrowExact(VecEmitter &v, llvm::Value *x, ir::Elem to);
/// double -> float or narrow bits with one rounding.
llvm::Value *narrowFromDouble(VecEmitter &v, llvm::Value *x, ir::Elem to, bool towardZero);
/// exp, exp2, log, log2, sin, cos, rsqrt, erf, tanh on float or double (Math.cpp).
llvm::Value *emitMath(VecEmitter &v, ir::OpKind kind, llvm::Value *x);

} // namespace tegula::targets
