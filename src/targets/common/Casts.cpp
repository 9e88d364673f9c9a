// Conversions between element kinds, each with exactly one rounding. See Vec.h for how narrow floats live in registers.
//
// All narrow formats (f16, bf16, five fp8) go through float, which holds their values exactly. Wider sources (f64, i32,
// i64) first become a float rounded to odd: the last bit is set if anything was lost, and as float has at least two
// bits more than the target, the second rounding then sees the same side of every midpoint as the exact value does.
#include "passes/SignificantBits.h"
#include "targets/common/MathX86.h"
#include "targets/common/NvptxOps.h"
#include "targets/common/VecUtil.h"
#include "llvm/IR/IntrinsicInst.h"

namespace tegula::targets {
namespace {

using ir::Elem;
using ir::OpKind;
using V = llvm::Value *;

/// A float format below 32 bits with an implicit leading bit, gradual underflow and fewer exponent bits than float.
struct NarrowFormat {
  unsigned mantissa, bias;
  uint32_t max;      // code of the largest finite value
  uint32_t nan;      // code of NaN without sign; 0x80 in the fnuz formats; `max` where there is none
  uint32_t overflow; // code that too large values and infinity get: infinity, or `max` in saturating formats
  bool hasInf, fnuz;
};

const NarrowFormat &formatOf(Elem e) {
  // LANGUAGE 2.6 asks e4m3fn and e5m2 to saturate; the other fp8 formats do the same. Type.h names the formats.
  static constexpr NarrowFormat f16{10, 15, 0x7BFF, 0x7E00, 0x7C00, true, false};
  static constexpr NarrowFormat e5m2{2, 15, 0x7B, 0x7F, 0x7B, true, false};
  static constexpr NarrowFormat e4m3fn{3, 7, 0x7E, 0x7F, 0x7E, false, false};
  static constexpr NarrowFormat e4b15{3, 15, 0x7F, 0x7F, 0x7F, false, false};
  static constexpr NarrowFormat e4m3fnuz{3, 8, 0x7F, 0x80, 0x7F, false, true};
  static constexpr NarrowFormat e5m2fnuz{2, 16, 0x7F, 0x80, 0x7F, false, true};
  switch (e) {
  case Elem::F16:
    return f16;
  case Elem::F8E5M2:
    return e5m2;
  case Elem::F8E4M3FN:
    return e4m3fn;
  case Elem::F8E4B15:
    return e4b15;
  case Elem::F8E4B8:
    return e4m3fnuz;
  default:
    assert(e == Elem::F8E5B16);
    return e5m2fnuz;
  }
}

uint32_t floatBits(double v) { return llvm::bit_cast<uint32_t>(static_cast<float>(v)); }
double pow2(int e) { return __builtin_ldexp(1.0, e); }

/// Bits of a narrow format -> float by integer operations: exact, and no subnormal ever meets the floating point unit.
V widenSoft(VecEmitter &v, V x, Elem from) {
  const NarrowFormat &f = formatOf(from);
  Arith a(v);
  unsigned width = ir::bitWidth(from);
  V bits = a.b.CreateZExt(x, intLike(x, 32));
  V magnitude = a.and_(bits, (1u << (width - 1)) - 1);
  V sign = a.shl(a.and_(bits, 1u << (width - 1)), 32 - width);
  V normal = a.add(a.shl(magnitude, 23 - f.mantissa), (127 - f.bias) << 23);
  // Subnormal codes m read as 2^(1-bias) * (1 + m/2^mantissa) one binade up; subtract the 1.
  V subnormal = a.bitsOf(a.fadd(a.floatOf(a.add(normal, 1u << 23)), -pow2(1 - static_cast<int>(f.bias))));
  V isSubnormal = a.b.CreateICmpULT(magnitude, a.i(magnitude, 1u << f.mantissa));
  V result = a.b.CreateSelect(isSubnormal, subnormal, normal);
  if (f.hasInf) {
    V isSpecial = a.b.CreateICmpUGE(magnitude, a.i(magnitude, f.max + 1));
    result = a.b.CreateSelect(isSpecial, a.or_(a.shl(magnitude, 23 - f.mantissa), 0x7F800000), result);
  }
  result = a.b.CreateOr(result, sign);
  if (!f.hasInf && f.nan != f.max) {
    V nanCode = f.fnuz ? bits : magnitude;
    result = a.b.CreateSelect(a.b.CreateICmpEQ(nanCode, a.i(nanCode, f.nan)), a.i(result, 0x7FC00000), result);
  }
  return a.floatOf(result);
}

V toHalf(VecEmitter &v, V bits) {
  return v.b.CreateBitCast(bits, likeShape(bits->getType(), llvm::Type::getHalfTy(bits->getContext())));
}

/// Rounds |x| (as float bits, below the smallest normal of the format) to a multiple of the smallest subnormal.
V narrowSubnormal(Arith &a, V magnitude, const NarrowFormat &f, bool towardZero) {
  // Adding 2^23 of the smallest subnormals lets the addition do the rounding.
  double magic = pow2(1 - static_cast<int>(f.bias) - static_cast<int>(f.mantissa) + 23);
  V x = a.floatOf(magnitude);
  V sum = a.fadd(x, magic);
  V code = a.sub(a.bitsOf(sum), floatBits(magic));
  if (!towardZero)
    return code;
  V tooLarge = a.b.CreateFCmpOGT(a.fadd(sum, -magic), x);
  return a.b.CreateSub(code, a.b.CreateZExt(tooLarge, code->getType()));
}

V narrowSoft(VecEmitter &v, V x, Elem to, bool towardZero, bool keepInfinity = false) {
  NarrowFormat f = formatOf(to);
  if (keepInfinity && f.hasInf)
    f.overflow = f.max + 1;
  Arith a(v);
  unsigned width = ir::bitWidth(to), drop = 23 - f.mantissa;
  V bits = a.bitsOf(x);
  V magnitude = a.and_(bits, 0x7FFFFFFF);
  V sign = a.and_(a.lshr(bits, 32 - width), 1u << (width - 1));
  V rebased = a.sub(magnitude, (127 - f.bias) << 23);
  V rounded = rebased;
  if (!towardZero)
    rounded = a.b.CreateAdd(a.add(rebased, (1u << (drop - 1)) - 1), a.and_(a.lshr(rebased, drop), 1));
  V code = a.lshr(rounded, drop);
  V isSubnormal = a.b.CreateICmpULT(magnitude, a.i(magnitude, (127 - f.bias + 1) << 23));
  code = a.b.CreateSelect(isSubnormal, narrowSubnormal(a, magnitude, f, towardZero), code);
  // Toward zero, finite values stop at the largest finite one; infinity stays infinity if the format has it.
  V limit = a.i(code, f.max), isInf = a.b.CreateICmpEQ(magnitude, a.i(magnitude, 0x7F800000));
  V overflow = a.i(code, towardZero ? f.max : f.overflow);
  if (towardZero && f.overflow != f.max)
    overflow = a.b.CreateSelect(isInf, a.i(code, f.overflow), overflow);
  code = a.b.CreateSelect(a.b.CreateICmpUGT(code, limit), overflow, code);
  V isNan = a.b.CreateICmpUGT(magnitude, a.i(magnitude, 0x7F800000));
  V nan = a.i(code, f.nan);
  if (to == Elem::F16) // as hardware does: quiet, leading payload bits kept
    nan = a.b.CreateOr(nan, a.and_(a.lshr(magnitude, drop), (1u << f.mantissa) - 1));
  code = a.b.CreateSelect(isNan, nan, code);
  if (f.fnuz) // no negative zero: its code means NaN
    sign = a.b.CreateSelect(a.b.CreateICmpEQ(a.and_(code, 0x7F), a.i(code, 0)), a.i(sign, 0), sign);
  return a.b.CreateTrunc(a.b.CreateOr(code, sign), intLike(x, width));
}

/// Arithmetic gives quiet NaNs only, of which bit 22 is set. Not of what may turn out to be no arithmetic: x * 1, x +
/// 0.
bool isQuiet(V x) {
  auto changes = [](V operand) {
    auto *c = llvm::dyn_cast<llvm::Constant>(operand);
    auto *number =
        c ? llvm::dyn_cast_or_null<llvm::ConstantFP>(c->getType()->isVectorTy() ? c->getSplatValue() : c) : nullptr;
    return !c || (number && !number->isZero() && !number->isExactlyValue(1.0) && !number->isExactlyValue(-1.0));
  };
  if (auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(x))
    return call->getIntrinsicID() == llvm::Intrinsic::fma &&
           llvm::none_of(call->args(), [](V operand) { return llvm::isa<llvm::Constant>(operand); });
  auto *op = llvm::dyn_cast<llvm::BinaryOperator>(x);
  return op && op->getType()->isFPOrFPVectorTy() && llvm::all_of(op->operands(), changes);
}

/// bf16 is the upper half of a float: a carry out of the significand moves on to the next binade or to infinity by
/// itself.
V narrowToBf16(VecEmitter &v, V x, bool towardZero) {
  Arith a(v);
  V bits = a.bitsOf(x), rounded = bits;
  // without masks, a choice takes three operations: a NaN stays as it is if nothing is added
  if (!towardZero && v.target.x86 && !v.target.avx512 && isQuiet(x)) {
    V up = a.add(a.and_(a.lshr(bits, 16), 1), 0x7FFF),
      isNumber = a.b.CreateSExt(a.b.CreateFCmpORD(x, x), bits->getType());
    return a.b.CreateTrunc(a.lshr(a.b.CreateAdd(bits, a.b.CreateAnd(up, isNumber)), 16), intLike(x, 16));
  }
  if (!towardZero)
    rounded = a.b.CreateAdd(a.add(bits, 0x7FFF), a.and_(a.lshr(bits, 16), 1));
  V code = a.b.CreateSelect(a.isNan(x), a.or_(bits, 0x400000), rounded);
  return a.b.CreateTrunc(a.lshr(code, 16), intLike(x, 16));
}

/// Moves `y`, a rounded x, one step so that it is the truncated x, or the neighbour with an odd last bit.
V fixFloatRounding(Arith &a, V x, V y, bool odd) {
  V back = a.b.CreateFPExt(y, x->getType());
  V bits = a.bitsOf(y);
  V tooLarge = a.b.CreateFCmpOGT(a.fabs(back), a.fabs(x));
  if (!odd)
    return a.floatOf(a.b.CreateSub(bits, a.b.CreateZExt(tooLarge, bits->getType())));
  V step = a.b.CreateSelect(tooLarge, a.i(bits, ~uint64_t(0)), a.i(bits, 1));
  V inexact = a.b.CreateFCmpONE(back, x);
  V even = a.b.CreateICmpEQ(a.and_(bits, 1), a.i(bits, 0));
  return a.floatOf(a.b.CreateAdd(bits, a.b.CreateSelect(a.b.CreateAnd(inexact, even), step, a.i(bits, 0))));
}

/// AVX2 converts 32 bits only.
bool lacksLongs(const VecEmitter &v, V x) { return v.target.avx2 && !v.target.avx512 && x->getType()->isVectorTy(); }

/// float or double -> integer of `bits` bits, saturating, NaN -> 0.
V floatToInt(VecEmitter &v, V x, unsigned bits, bool isSigned) {
  if (v.target.nvptx)
    if (V r = nvptxFloatToInt(v, x, bits, isSigned))
      return r;
  Arith a(v);
  double low = isSigned ? -pow2(bits - 1) : 0.0;
  double end = pow2(isSigned ? bits - 1 : bits); // first value out of range
  if (bits < 32) {
    // Both bounds are exact: clamp, then convert by the native 32-bit instruction.
    V ordered = a.b.CreateSelect(a.isNan(x), a.f(x, 0), x);
    V lower = a.b.CreateSelect(a.b.CreateFCmpOLT(ordered, a.f(x, low)), a.f(x, low), ordered);
    V both = a.b.CreateSelect(a.b.CreateFCmpOGT(lower, a.f(x, end - 1)), a.f(x, end - 1), lower);
    return a.b.CreateTrunc(a.b.CreateFPToSI(both, intLike(x, 32)), intLike(x, bits));
  }
  if (bits == 32 && isSigned && v.target.avx2 && x->getType()->isVectorTy() &&
      x->getType()->getScalarType()->isFloatTy())
    return emitToIntX86(v, x);
  if (bits == 64 && isSigned && lacksLongs(v, x))
    return emitToLongX86(v, a.b.CreateFPExt(x, doubleLike(x)));
  llvm::Type *type = intLike(x, bits);
  // Out of range the instruction gives poison: freeze makes it some value, which the selects replace.
  V raw = a.b.CreateFreeze(isSigned ? a.b.CreateFPToSI(x, type) : a.b.CreateFPToUI(x, type));
  llvm::APInt min = isSigned ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt(bits, 0);
  llvm::APInt max = isSigned ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits);
  V result = a.b.CreateSelect(a.b.CreateFCmpOGE(x, a.f(x, end)), llvm::ConstantInt::get(type, max), raw);
  // Unordered compares send NaN to the same place as too small values where that is 0.
  if (!isSigned)
    return a.b.CreateSelect(a.b.CreateFCmpULT(x, a.f(x, low)), llvm::ConstantInt::get(type, min), result);
  result = a.b.CreateSelect(a.b.CreateFCmpOLT(x, a.f(x, low)), llvm::ConstantInt::get(type, min), result);
  return a.b.CreateSelect(a.isNan(x), llvm::Constant::getNullValue(type), result);
}

/// Any integer -> any float kind, one rounding.
V intToFloat(VecEmitter &v, V x, Elem to, bool isSigned) {
  if (v.target.nvptx)
    if (V r = nvptxIntToFloat(v, x, to, isSigned))
      return r;
  Arith a(v);
  auto convert = [&](V n, llvm::Type *t) { return isSigned ? a.b.CreateSIToFP(n, t) : a.b.CreateUIToFP(n, t); };
  unsigned bits = x->getType()->getScalarSizeInBits();
  const bool halves = bits == 64 && isSigned && (to == Elem::F32 || to == Elem::F64) && lacksLongs(v, x);
  auto toDouble = [&](V n) { return halves ? emitFromLongX86(v, n) : convert(n, doubleLike(n)); };
  if (to == Elem::F64)
    return toDouble(x);
  // LLVM 19 takes vectors of i64 to float by way of double on AArch64, rounding twice.
  bool direct = to == Elem::F32 && (bits < 64 || (v.target.x86 && !halves));
  if (direct || bits <= 16) {
    V wide = bits < 32 ? (isSigned ? a.b.CreateSExt(x, intLike(x, 32)) : a.b.CreateZExt(x, intLike(x, 32))) : x;
    if (bits < 32) // a known non-negative i32 converts by the signed instruction every target has
      return v.narrow(a.b.CreateSIToFP(wide, floatLike(x)), to);
    return convert(x, floatLike(x));
  }
  if (bits == 64) {
    // Integers of more than 52 bits: fold the low 11 bits into a sticky one; the rest is exact in a double.
    V sticky = a.b.CreateSelect(a.b.CreateICmpNE(a.and_(x, 0x7FF), a.i(x, 0)), a.i(x, 0x800), a.i(x, 0));
    V folded = a.b.CreateOr(a.and_(x, ~uint64_t(0x7FF)), sticky);
    V small = isSigned ? a.b.CreateICmpULT(a.add(x, 1ull << 52), a.i(x, 1ull << 53))
                       : a.b.CreateICmpULT(x, a.i(x, 1ull << 53));
    x = a.b.CreateSelect(small, x, folded);
  }
  return narrowFromDouble(v, toDouble(x), to, false);
}

} // namespace

V VecEmitter::widen(V x, Elem from) {
  if (target.nvptx)
    if (V r = nvptxWiden(*this, x, from))
      return r;
  switch (from) {
  case Elem::F32:
  case Elem::F64:
    return x;
  case Elem::BF16:
    return b.CreateBitCast(b.CreateShl(b.CreateZExt(x, intLike(x, 32)), 16), floatLike(x));
  case Elem::F16:
    return target.f16c ? b.CreateFPExt(toHalf(*this, x), floatLike(x)) : widenSoft(*this, x, from);
  case Elem::F8E5M2: // the upper byte of a half
    if (target.f16c)
      return b.CreateFPExt(toHalf(*this, b.CreateShl(b.CreateZExt(x, intLike(x, 16)), 8)), floatLike(x));
    [[fallthrough]];
  default:
    return widenSoft(*this, x, from);
  }
}

V VecEmitter::narrow(V x, Elem to, bool towardZero) {
  if (to == Elem::F32)
    return x;
  if (target.nvptx)
    if (V r = nvptxNarrow(*this, x, to, towardZero))
      return r;
  if (to == Elem::F16 && target.f16c && !towardZero) {
    llvm::Type *half = likeShape(x->getType(), llvm::Type::getHalfTy(x->getContext()));
    return b.CreateBitCast(b.CreateFPTrunc(x, half), intLike(x, 16));
  }
  // Not vcvtneps2bf16: that instruction flushes subnormals.
  if (to == Elem::BF16)
    return narrowToBf16(*this, x, towardZero);
  return narrowSoft(*this, x, to, towardZero);
}

V narrowExact(VecEmitter &v, V x, Elem to) {
  return to == Elem::F8E5M2 ? narrowSoft(v, x, to, false, /*keepInfinity=*/true) : v.narrow(x, to);
}

V narrowFromDouble(VecEmitter &v, V x, Elem to, bool towardZero) {
  if (to == Elem::F64)
    return x;
  Arith a(v);
  V y = a.b.CreateFPTrunc(x, floatLike(x));
  if (to == Elem::F32)
    return towardZero ? fixFloatRounding(a, x, y, /*odd=*/false) : y;
  return v.narrow(fixFloatRounding(a, x, y, /*odd=*/!towardZero), to, towardZero);
}

/// Was the float an integer of at most eight bits, as many as a significand of bf16 has?
static bool isSmallInteger(const ir::Value *x) {
  constexpr unsigned most = 8;
  if (!x->def || (x->def->kind != OpKind::SIToFp && x->def->kind != OpKind::UIToFp))
    return false;
  const ir::Value *n = x->def->operands[0];
  while (n->def && n->def->kind == OpKind::SExt && x->def->kind == OpKind::SIToFp)
    n = n->def->operands[0];
  if (ir::bitWidth(n->type.elem) <= most || significantBits(n) <= most)
    return true;
  const bool isSum =
      n->def && (n->def->kind == OpKind::Sub || n->def->kind == OpKind::Add) && x->def->kind == OpKind::SIToFp;
  return isSum && significantBits(n->def->operands[0]) < most && significantBits(n->def->operands[1]) < most;
}

V emitCast(VecEmitter &v, const ir::Op &op, V x, Elem from, Elem to) {
  llvm::IRBuilder<> &b = v.b;
  llvm::Type *type = likeShape(x->getType(), v.elemType(to));
  switch (op.kind) {
  case OpKind::Trunc:
    return b.CreateTrunc(x, type);
  case OpKind::ZExt:
    return b.CreateZExt(x, type);
  case OpKind::SExt:
    return b.CreateSExt(x, type);
  case OpKind::Bitcast:
    return b.CreateBitCast(x, type);
  case OpKind::FpExt: {
    V wide = v.widen(x, from);
    if (to == Elem::F64 && from != Elem::F64)
      return b.CreateFPExt(wide, type);
    // Between narrow formats (f8e5m2 -> f16) narrowing is exact as the value fits.
    return v.narrow(wide, to);
  }
  case OpKind::FpTrunc: {
    bool towardZero = op.rtz();
    // nothing to round: the upper half
    if (from == Elem::F32 && to == Elem::BF16 && !v.target.nvptx && !op.operands.empty() &&
        isSmallInteger(op.operands[0])) {
      Arith a(v);
      return b.CreateTrunc(a.lshr(a.bitsOf(x), 16), intLike(x, 16));
    }
    if (from == Elem::F64)
      return narrowFromDouble(v, x, to, towardZero);
    return v.narrow(v.widen(x, from), to, towardZero);
  }
  case OpKind::FpToSI:
  case OpKind::FpToUI:
    return floatToInt(v, v.widen(x, from), ir::bitWidth(to), op.kind == OpKind::FpToSI);
  case OpKind::SIToFp:
  case OpKind::UIToFp:
    return intToFloat(v, x, to, op.kind == OpKind::SIToFp);
  default:
    llvm_unreachable("not a cast");
  }
}

} // namespace tegula::targets
