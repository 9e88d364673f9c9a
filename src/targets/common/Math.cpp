// Elementary functions on float and double at full vector width, within 2 ulp, without calls: exp, exp2, log, log2,
// erf, tanh, rsqrt. Sine and cosine stand in MathTrig.cpp, what x86 does in a way of its own in
// MathX86.cpp, polynomials in MathTables.h.
//
// Why our own and not a vector math library: the sequences are LLVM IR at any vector length for every target, are
// inlined and scheduled with the code around them, work in objects that link against nothing, and give the same results
// in every element of a tile. Each function is one straight line without branches; special values are put right by
// selects at the end.
#include "targets/common/MathTables.h"
#include "targets/common/MathX86.h"
#include "targets/common/NvptxOps.h"
#include "targets/common/VecUtil.h"
#include <cmath>

namespace tegula::targets {
namespace {

using ir::OpKind;
using V = llvm::Value *;

struct MathEmitter : Arith {
  using Arith::Arith;

  bool isDouble(V x) { return x->getType()->getScalarSizeInBits() == 64; }
  template <size_t N, size_t M> llvm::ArrayRef<double> pick(V x, const double (&f32)[N], const double (&f64)[M]) {
    return isDouble(x) ? llvm::ArrayRef<double>(f64) : llvm::ArrayRef<double>(f32);
  }
  double pick(V x, double f32, double f64) { return isDouble(x) ? f64 : f32; }

  /// min(x, c) and max(x, c) that let NaN through.
  V atMost(V x, double c) { return b.CreateSelect(b.CreateFCmpOGT(x, f(x, c)), f(x, c), x); }
  V atLeast(V x, double c) { return b.CreateSelect(b.CreateFCmpOLT(x, f(x, c)), f(x, c), x); }

  /// The integer nearest to a small x (|x| < 2^21), as a float and as an integer of the same width. `forScale`: of the
  /// integer, the low bits hold twice the bias of an exponent more, what is above them is not specified, and scale()
  /// takes two exponents from it by shifts alone.
  struct Rounded {
    V value, integer;
    bool forScale;
  };
  double magic(V x, bool forScale) { return pick(x, 0x1.8p23, 0x1.8p52) + (forScale ? 2 * pick(x, 127, 1023) : 0); }
  Rounded nearest(V x, V scaledSum, bool forScale);
  Rounded nearestOf(V x, bool forScale) { return nearest(x, fadd(x, magic(x, forScale)), forScale); }

  V powerOfTwo(V n); // 2^n, n in the normal range
  V scale(V x, Rounded n, V nonzero = nullptr);
  V scalePlusOne(V x, Rounded n, V nonzero = nullptr);
  std::pair<V, V> factors(Rounded n);
  bool scalesNatively(V x);
  V nonzeroOrAtLeast(V x, V &y, double zeroBelow, double least);
  Rounded reduceByLn2(V x, V &r, bool forScale);
  V exp(V x);
  V exp2(V x);
  V expInRange(V x, V nonzero = nullptr);
  V tanh(V x);
  V erf(V x);
  // Float on GPUs, and on the simulator with exact operations in place of the fast ones.
  V fastExp2(V x), fastReciprocal(V x);
  V gpuTanh(V x), gpuErf(V x), fusedErf(V x);

  /// x = 2^exponent * (1 + f), 1 + f in [least, 2 * least).
  struct Split {
    V f, exponent;
  };
  Split split(V x, double least = 0x1.6a09e667f3bcdp-1);
  V logSpecials(V x, V result);
  V log(V x);
  V log2(V x);
  V logCore64(V f, V halfSquare);
  V log2Double(Split s);
};

MathEmitter::Rounded MathEmitter::nearest(V x, V sum, bool forScale) {
  // The sum with 1.5 * 2^(digits - 1) has the integer in its low bits.
  V integer = forScale ? bitsOf(sum) : b.CreateSub(bitsOf(sum), bitsOf(f(x, magic(x, false))));
  return {fadd(sum, -magic(x, forScale)), integer, forScale};
}

V MathEmitter::powerOfTwo(V n) {
  bool d = n->getType()->getScalarSizeInBits() == 64;
  return floatOf(shl(add(n, d ? 1023 : 127), d ? 52 : 23));
}

bool MathEmitter::scalesNatively(V x) {
  return v.target.avx512 && lanesOf(x) * x->getType()->getScalarSizeInBits() >= 128;
}

/// Below `zeroBelow` what is scaled becomes 0. i1, whether x is not (NaN is not), for emitScale(): an Intel core takes
/// 65 ns for a register with a float whose scaled value underflows (`vscalefps` of an Emerald Rapids; 1.1 ns
/// otherwise), not where it is masked off. Else null, and y, from x, is `least` there at least, of which both factors
/// of scale() are zero.
V MathEmitter::nonzeroOrAtLeast(V x, V &y, double zeroBelow, double least) {
  if (scalesNatively(x))
    return b.CreateFCmpUGE(x, f(x, zeroBelow));
  y = atLeast(y, least);
  return nullptr;
}

/// Two powers of two whose product is 2^n, each a normal number, for |n| < 2 * the exponent range.
std::pair<V, V> MathEmitter::factors(Rounded n) {
  V half = n.forScale ? lshr(n.integer, 1) : ashr(n.integer, 1), rest = b.CreateSub(n.integer, half);
  if (!n.forScale)
    return {powerOfTwo(half), powerOfTwo(rest)};
  unsigned digits = isDouble(n.value) ? 52 : 23;
  return {floatOf(shl(half, digits)), floatOf(shl(rest, digits))};
}

/// x * 2^n with one rounding, x in [1/2, 2]: of two products only the second can round. Where n is minus twice the
/// exponent range (what exp() makes of -inf) both factors are zero, and so is the result: products that only underflow
/// to zero take four times as long on a Zen 5.
V MathEmitter::scale(V x, Rounded n, V nonzero) {
  if (scalesNatively(x))
    return emitScale(v, x, n.value, nonzero);
  auto [first, second] = factors(n);
  return b.CreateFMul(b.CreateFMul(x, first), second);
}

/// (x + 1) * 2^n, the sum rounded and the product. The sum is rounded alike where it is scaled by the first factor at
/// once.
V MathEmitter::scalePlusOne(V x, Rounded n, V nonzero) {
  if (!n.forScale || v.target.avx512)
    return scale(fadd(x, 1), n, nonzero);
  auto [first, second] = factors(n);
  return b.CreateFMul(mulAdd(x, first, first), second);
}

/// r = x - n ln 2 for the nearest n; |r| <= ln2/2.
MathEmitter::Rounded MathEmitter::reduceByLn2(V x, V &r, bool forScale) {
  using namespace tables;
  Rounded n = nearest(x, mulAdd(x, 0x1.71547652b82fep+0, f(x, magic(x, forScale))), forScale);
  r = mulAdd(n.value, -pick(x, ln2High32, ln2High64), x);
  r = mulAdd(n.value, -pick(x, ln2Low32, ln2Low64), r);
  return n;
}

V MathEmitter::exp(V x) {
  // Beyond these the result is infinity anyway, or 0: half of the least number at most, to even.
  V y = atMost(x, pick(x, 89, 710)), nonzero = nonzeroOrAtLeast(x, y, pick(x, -104, -746), pick(x, -176, -1418));
  return expInRange(y, nonzero);
}

V MathEmitter::expInRange(V x, V nonzero) {
  V r;
  Rounded n = reduceByLn2(x, r, !v.target.nvptx);
  V tail = poly(r, pick(x, tables::expTail32, tables::expTail64));
  return scalePlusOne(mulAdd(b.CreateFMul(r, r), tail, r), n, nonzero);
}

V MathEmitter::exp2(V x) {
  // as in exp()
  V y = atMost(x, pick(x, 129, 1025)), nonzero = nonzeroOrAtLeast(x, y, pick(x, -150, -1075), pick(x, -254, -2046));
  Rounded n = nearestOf(y, !v.target.nvptx);
  V r = b.CreateFSub(y, n.value);
  V p = mulAdd(r, poly(r, pick(x, tables::exp2Tail32, tables::exp2Tail64)), 1.0);
  return scale(p, n, nonzero);
}

V MathEmitter::tanh(V x) {
  // With m = e^(-2|x|) - 1: tanh |x| = -m / (m + 2). Small x lose nothing, as m is computed as such.
  V y = fmul(atMost(fabs(x), pick(x, 10, 22)), -2);
  V r;
  Rounded n = reduceByLn2(y, r, false);
  V u = b.CreateFMul(b.CreateFMul(r, r), poly(r, pick(x, tables::expm1Tail32, tables::expm1Tail64)));
  V p = b.CreateFAdd(r, u);
  V s = powerOfTwo(n.integer), sMinus1 = fadd(s, -1);
  V t = b.CreateFMul(s, p); // exact
  V m = b.CreateFAdd(sMinus1, t), d = fadd(m, 2);
  // What the three additions lost, for a correction of the quotient: alone they would cost more than 2 ulp.
  V pLow = b.CreateFSub(u, b.CreateFSub(p, r));
  V mLow = mulAdd(s, pLow, b.CreateFSub(t, b.CreateFSub(m, sMinus1)));
  V dLow = b.CreateFAdd(b.CreateFSub(m, fadd(d, -2)), mLow);
  V q = b.CreateFDiv(m, d);
  // 1/d = (1 - q)/2 as d = 2 + m.
  V correction = b.CreateFMul(mulAdd(b.CreateFNeg(q), dLow, mLow), mulAdd(q, -0.5, f(q, 0.5)));
  return copySign(b.CreateFAdd(q, correction), x);
}

/// float, with fused multiply-adds: 1 - e^-y for y = -log(1 - erf |x|), which is |x| (1 + a polynomial). One way for
/// small and large x, at most 1.8 ulp.
V MathEmitter::fusedErf(V x) {
  constexpr double whole = 0x1.8p23 + 127; // a sum with it has the biased exponent in its low bits
  V size = atMost(fabs(x), 4), y = mulAdd(size, poly(size, tables::erfLogTail32), size);
  V sum = mulAdd(y, -0x1.71547652b82fep+0, f(x, whole)), n = fadd(sum, -whole), s = floatOf(shl(bitsOf(sum), 23));
  V r = mulAdd(n, -0x1.62e42fefa39efp-1, b.CreateFNeg(y)); // e^-y = s e^r
  V m = mulAdd(b.CreateFMul(r, r), poly(r, tables::expm1Tail32), r);
  return copySign(mulAdd(b.CreateFNeg(s), m, b.CreateFSub(f(x, 1), s)), x);
}

V MathEmitter::erf(V x) {
  if (!isDouble(x) && v.target.fma && !v.target.gpu)
    return fusedErf(x);
  V size = fabs(x), square = b.CreateFMul(x, x), large, small;
  if (isDouble(x)) {
    small = mulAdd(x, poly(square, tables::erfSmall64), x);
    V y = atMost(size, 6);
    V t = b.CreateFDiv(fadd(y, -2), fadd(y, 2));
    V c = b.CreateFMul(poly(t, tables::erfcScaled64), expInRange(b.CreateFNeg(b.CreateFMul(y, y))));
    large = b.CreateFSub(f(x, 1), c);
  } else {
    small = mulAdd(x, poly(square, tables::erfSmall32), x);
    V y = atMost(size, 4);
    large = b.CreateFSub(f(x, 1), expInRange(b.CreateFNeg(poly(y, tables::erfLog32))));
  }
  V isSmall = b.CreateFCmpOLT(size, f(x, pick(x, 0.9, 1.0)));
  return b.CreateSelect(isSmall, small, copySign(large, x));
}

V MathEmitter::fastExp2(V x) { return v.target.nvptx ? nvptxMath(v, OpKind::Exp2, x) : exp2(x); }

V MathEmitter::fastReciprocal(V x) { return v.target.nvptx ? nvptxReciprocal(v, x) : b.CreateFDiv(f(x, 1), x); }

/// 1 - 2 / (e^(2|x|) + 1), whose errors count half where the polynomial ends.
V MathEmitter::gpuTanh(V x) {
  V size = fabs(x), square = b.CreateFMul(x, x);
  V small = mulAdd(b.CreateFMul(x, square), poly(square, tables::tanhTail32), x);
  V e = fastExp2(fmul(size, 2 * 0x1.71547652b82fep+0));
  V large = mulAdd(fastReciprocal(fadd(e, 1)), -2.0, f(x, 1));
  return copySign(b.CreateSelect(b.CreateFCmpOLT(size, f(x, 0.65)), small, large), x); // a small zero has lost its sign
}

/// As erf, with the polynomial of the exponent in base 2.
V MathEmitter::gpuErf(V x) {
  V size = fabs(x), square = b.CreateFMul(x, x);
  V small = mulAdd(x, poly(square, tables::erfSmall32), x);
  llvm::SmallVector<double, 8> exponent;
  for (double c : tables::erfLog32)
    exponent.push_back(-c * 0x1.71547652b82fep+0);
  V large = b.CreateFSub(f(x, 1), fastExp2(poly(atMost(size, 4), exponent)));
  return b.CreateSelect(b.CreateFCmpOLT(size, f(x, 0.9)), small, copySign(large, x));
}

MathEmitter::Split MathEmitter::split(V x, double least) {
  bool d = isDouble(x);
  unsigned digits = d ? 52 : 23;
  // Subnormals are brought into the normal range first.
  V tiny = b.CreateFCmpOLT(x, f(x, d ? 0x1p-1022 : 0x1p-126));
  V normal = b.CreateSelect(tiny, fmul(x, d ? 0x1p52 : 0x1p23), x);
  V bits = bitsOf(normal);
  V exponent = ashr(b.CreateSub(bits, bitsOf(f(x, least))), digits);
  V m = floatOf(b.CreateSub(bits, shl(exponent, digits)));
  exponent = b.CreateSub(exponent, b.CreateSelect(tiny, i(exponent, digits), i(exponent, 0)));
  // AVX2 cannot convert 64-bit integers; the exponent fits the low half.
  V narrow = d ? b.CreateTrunc(exponent, intLike(x, 32)) : exponent;
  return {fadd(m, -1), b.CreateSIToFP(narrow, x->getType())};
}

V MathEmitter::logSpecials(V x, V result) {
  if (v.target.gpu && !isDouble(x)) {
    // One comparison finds what is negative, infinite or no number, of which x * infinity + infinity is the result.
    V bits = bitsOf(x), isSpecial = b.CreateICmpUGE(bits, i(bits, 0x7f800000));
    V regular = b.CreateSelect(isSpecial, mulAdd(x, INFINITY, f(x, INFINITY)), result);
    return b.CreateSelect(b.CreateFCmpOEQ(x, f(x, 0)), f(x, -INFINITY), regular);
  }
  V special = b.CreateSelect(b.CreateFCmpOLT(x, f(x, 0)), f(x, NAN), x); // +inf and NaN stay
  special = b.CreateSelect(b.CreateFCmpOEQ(x, f(x, 0)), f(x, -INFINITY), special);
  V regular = b.CreateAnd(b.CreateFCmpOGT(x, f(x, 0)), b.CreateFCmpOLT(x, f(x, INFINITY)));
  return b.CreateSelect(regular, result, special);
}

/// log(1+f) - f + f^2/2 for double: s (f^2/2 + R(s^2)) with s = f / (2 + f).
V MathEmitter::logCore64(V f, V halfSquare) {
  V s = b.CreateFDiv(f, fadd(f, 2));
  V z = b.CreateFMul(s, s);
  return b.CreateFMul(s, mulAdd(z, poly(z, tables::logTail64), halfSquare));
}

V MathEmitter::log(V x) {
  using namespace tables;
  if (v.target.gpu && !isDouble(x)) { // 0.91 ulp at most, in five operations less than below
    Split s = split(x, 0.75);
    return logSpecials(
        x, mulAdd(s.exponent, 0x1.62e42fefa39efp-1, mulAdd(b.CreateFMul(s.f, poly(s.f, logRest32)), s.f, s.f)));
  }
  Split s = split(x);
  V square = b.CreateFMul(s.f, s.f), halfSquare = fmul(square, 0.5);
  V low;
  if (isDouble(x))
    low = mulAdd(s.exponent, ln2Low64, logCore64(s.f, halfSquare));
  else
    low = mulAdd(s.exponent, ln2Low32, b.CreateFMul(b.CreateFMul(square, s.f), poly(s.f, logTail32)));
  V r = b.CreateFSub(s.f, b.CreateFSub(halfSquare, low));
  return logSpecials(x, mulAdd(s.exponent, pick(x, ln2High32, ln2High64), r));
}

/// log2 of double keeps log(1+f) as a sum of two numbers, or its error would be magnified on the way.
V MathEmitter::log2Double(Split s) {
  using namespace tables;
  V halfSquare = fmul(b.CreateFMul(s.f, s.f), 0.5);
  V tail = logCore64(s.f, halfSquare);
  // The upper half of the digits: its product with log2eHigh64 is exact.
  V high = floatOf(and_(bitsOf(b.CreateFSub(s.f, halfSquare)), 0xFFFFFFFF00000000));
  V low = b.CreateFAdd(b.CreateFSub(b.CreateFSub(s.f, high), halfSquare), tail);
  V main = fmul(high, log2eHigh64);
  V rest = mulAdd(b.CreateFAdd(high, low), log2eLow64, fmul(low, log2eHigh64));
  // main + exponent rounds; what it loses goes to the rest (|exponent| is 0 or larger than |main|).
  V sum = b.CreateFAdd(s.exponent, main);
  V lost = b.CreateFAdd(b.CreateFSub(s.exponent, sum), main);
  return b.CreateFAdd(sum, b.CreateFAdd(rest, lost));
}

V MathEmitter::log2(V x) {
  using namespace tables;
  Split s = split(x);
  if (isDouble(x))
    return logSpecials(x, log2Double(s));
  V square = b.CreateFMul(s.f, s.f);
  V q = b.CreateFMul(square, mulAdd(s.f, poly(s.f, logTail32), -0.5)); // log(1+f) - f
  V r = mulAdd(q, log2eHigh32, fmul(s.f, log2eLow32));
  r = v.target.fma ? mulAdd(s.f, log2eHigh32, r) : b.CreateFAdd(fmul(s.f, log2eHigh32), r);
  return logSpecials(x, b.CreateFAdd(s.exponent, r));
}

} // namespace

V emitTrig(VecEmitter &v, OpKind sinOrCos, V x);

V emitMath(VecEmitter &v, OpKind kind, V x) {
  if (v.target.nvptx)
    if (V r = nvptxMath(v, kind, x))
      return r;
  if (V r = emitMathX86(v, kind, x))
    return r;
  MathEmitter m(v);
  switch (kind) {
  case OpKind::Exp:
    return m.exp(x);
  case OpKind::Exp2:
    return m.exp2(x);
  case OpKind::Log:
    return m.log(x);
  case OpKind::Log2:
    return m.log2(x);
  case OpKind::Sin:
  case OpKind::Cos:
    return emitTrig(v, kind, x);
  case OpKind::Rsqrt:
    return m.b.CreateFDiv(m.f(x, 1), m.b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x));
  case OpKind::Erf:
    return v.target.gpu && !m.isDouble(x) ? m.gpuErf(x) : m.erf(x);
  case OpKind::Tanh:
    return v.target.gpu && !m.isDouble(x) ? m.gpuTanh(x) : m.tanh(x);
  default:
    llvm_unreachable("not an elementary function");
  }
}

} // namespace tegula::targets
