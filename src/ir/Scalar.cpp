// Element arithmetic; see Scalar.h.
#include "ir/Scalar.h"
#include "support/FloatFormat.h"
#include <bit>
#include <cmath>

namespace tegula::ir {

uint64_t elemMask(Elem e) {
  unsigned w = bitWidth(e);
  return w >= 64 ? ~uint64_t(0) : (uint64_t(1) << w) - 1;
}

int64_t signExtend(Elem e, uint64_t bits) {
  unsigned shift = 64 - bitWidth(e);
  return static_cast<int64_t>(bits << shift) >> shift;
}

int64_t toConstInt(Elem e, uint64_t bits) {
  return e == Elem::I1 ? static_cast<int64_t>(bits & 1) : signExtend(e, bits);
}

static FloatKind kindOf(Elem e) {
  return static_cast<FloatKind>(static_cast<unsigned>(e) - static_cast<unsigned>(Elem::F8E5M2));
}
static_assert(static_cast<unsigned>(Elem::F64) - static_cast<unsigned>(Elem::F8E5M2) ==
                  static_cast<unsigned>(FloatKind::F64) &&
              static_cast<unsigned>(Elem::F16) - static_cast<unsigned>(Elem::F8E5M2) ==
                  static_cast<unsigned>(FloatKind::F16));

double decodeFloat(Elem e, uint64_t bits) { return tegula::decodeFloat(kindOf(e), bits); }
uint64_t encodeFloat(Elem e, long double v, bool towardZero) { return tegula::encodeFloat(kindOf(e), v, towardZero); }

uint64_t constantBits(Elem e, const AttrValue &value) {
  if (const double *d = std::get_if<double>(&value))
    return e == Elem::F64 ? std::bit_cast<uint64_t>(*d) : encodeFloat(e, *d);
  return static_cast<uint64_t>(std::get<int64_t>(value)) & elemMask(e);
}

AttrValue constantAttr(Elem e, uint64_t bits) {
  if (isFloat(e))
    return decodeFloat(e, bits);
  return toConstInt(e, bits);
}

ScalarOp scalarOp(OpKind kind, std::span<Value *const> operands, const Type &result, std::span<const Attr> attrs) {
  auto elemOf = [](const Type &t) { return t.isPtr ? Elem::I64 : t.elem; };
  const Type &from = operands[kind == OpKind::Select ? 1 : 0]->type;
  ScalarOp s{kind, elemOf(from), elemOf(result)};
  for (const Attr &a : attrs) {
    if (a.key == attr::pred)
      s.pred = static_cast<CmpPred>(std::get<int64_t>(a.value));
    else if (a.key == attr::rtz)
      s.towardZero = std::get<int64_t>(a.value) != 0;
  }
  if (kind == OpKind::AddPtr) {
    s.pointeeBytes = byteWidth(result.elem);
    s.offset = operands[1]->type.elem;
  }
  return s;
}

namespace {

bool compareInts(CmpPred p, uint64_t a, uint64_t b, int64_t sa, int64_t sb) {
  switch (p) {
  case CmpPred::Eq: return a == b;
  case CmpPred::Ne: return a != b;
  case CmpPred::Slt: return sa < sb;
  case CmpPred::Sle: return sa <= sb;
  case CmpPred::Sgt: return sa > sb;
  case CmpPred::Sge: return sa >= sb;
  case CmpPred::Ult: return a < b;
  case CmpPred::Ule: return a <= b;
  case CmpPred::Ugt: return a > b;
  default: return a >= b;
  }
}

bool compareFloats(CmpPred p, double a, double b) {
  bool unordered = std::isnan(a) || std::isnan(b);
  switch (p) {
  case CmpPred::Oeq: return a == b;
  case CmpPred::One: return !unordered && a != b;
  case CmpPred::Olt: return a < b;
  case CmpPred::Ole: return a <= b;
  case CmpPred::Ogt: return a > b;
  case CmpPred::Oge: return a >= b;
  case CmpPred::Ord: return !unordered;
  case CmpPred::Ueq: return unordered || a == b;
  case CmpPred::Une: return unordered || a != b;
  case CmpPred::FUlt: return unordered || a < b;
  case CmpPred::FUle: return unordered || a <= b;
  case CmpPred::FUgt: return unordered || a > b;
  case CmpPred::FUge: return unordered || a >= b;
  default: return unordered;
  }
}

std::optional<uint64_t> evalDivision(OpKind k, Elem e, uint64_t a, uint64_t b) {
  if (b == 0)
    return std::nullopt;
  int64_t sa = signExtend(e, a), sb = signExtend(e, b);
  bool isSigned = k == OpKind::SDiv || k == OpKind::SRem;
  if (isSigned && sb == -1) { // the smallest integer by -1 overflows
    if (k == OpKind::SRem)
      return 0;
    if (a == uint64_t(1) << (bitWidth(e) - 1))
      return std::nullopt;
    return -a;
  }
  switch (k) {
  case OpKind::SDiv: return static_cast<uint64_t>(sa / sb);
  case OpKind::SRem: return static_cast<uint64_t>(sa % sb);
  case OpKind::UDiv: return a / b;
  default: return a % b;
  }
}

uint64_t evalShift(OpKind k, Elem e, uint64_t a, uint64_t b) {
  // By the width and more: nothing is left but the sign.
  bool fits = b < bitWidth(e);
  switch (k) {
  case OpKind::Shl: return fits ? a << b : 0;
  case OpKind::LShr: return fits ? a >> b : 0;
  default: return static_cast<uint64_t>(signExtend(e, a) >> (fits ? b : bitWidth(e) - 1));
  }
}

std::optional<uint64_t> evalInt(const ScalarOp &op, uint64_t a, uint64_t b) {
  Elem e = op.from;
  int64_t sa = signExtend(e, a), sb = signExtend(e, b);
  switch (op.kind) {
  case OpKind::Add: return a + b;
  case OpKind::Sub: return a - b;
  case OpKind::Mul: return a * b;
  case OpKind::SDiv: case OpKind::UDiv: case OpKind::SRem: case OpKind::URem: return evalDivision(op.kind, e, a, b);
  case OpKind::And: return a & b;
  case OpKind::Or: return a | b;
  case OpKind::Xor: return a ^ b;
  case OpKind::Shl: case OpKind::LShr: case OpKind::AShr: return evalShift(op.kind, e, a, b);
  case OpKind::SMin: return sa < sb ? a : b;
  case OpKind::SMax: return sa > sb ? a : b;
  case OpKind::UMin: return a < b ? a : b;
  case OpKind::UMax: return a > b ? a : b;
  case OpKind::AbsI: return sa < 0 ? -a : a;
  case OpKind::UMulHi: return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> bitWidth(e));
  case OpKind::Clz: return static_cast<uint64_t>(std::countl_zero(a)) - (64 - bitWidth(e));
  case OpKind::PopCount: return static_cast<uint64_t>(std::popcount(a));
  case OpKind::CmpI: return compareInts(op.pred, a, b, sa, sb);
  default: return std::nullopt;
  }
}

/// minnum, maxnum, minimum, maximum: all order -0 below +0.
double evalMinMax(OpKind k, double a, double b) {
  bool isMin = k == OpKind::MinNum || k == OpKind::Minimum;
  bool propagates = k == OpKind::Minimum || k == OpKind::Maximum;
  if (std::isnan(a) || std::isnan(b))
    return propagates ? std::nan("") : std::isnan(a) ? b : a;
  if (a == b)
    return std::signbit(a) == isMin ? a : b;
  return (a < b) == isMin ? a : b;
}

double evalElementary(OpKind k, double x) {
  switch (k) {
  case OpKind::Exp: return std::exp(x);
  case OpKind::Exp2: return std::exp2(x);
  case OpKind::Log: return std::log(x);
  case OpKind::Log2: return std::log2(x);
  case OpKind::Sin: return std::sin(x);
  case OpKind::Cos: return std::cos(x);
  case OpKind::Rsqrt: return 1.0 / std::sqrt(x);
  case OpKind::Erf: return std::erf(x);
  case OpKind::Tanh: return std::tanh(x);
  case OpKind::Floor: return std::floor(x);
  case OpKind::Rint: return std::nearbyint(x);
  case OpKind::Ceil: return std::ceil(x);
  default: return std::sqrt(x);
  }
}

template <typename F> F evalArithmetic(OpKind k, F a, F b, F c) {
  switch (k) {
  case OpKind::FAdd: return a + b;
  case OpKind::FSub: return a - b;
  case OpKind::FMul: return a * b;
  case OpKind::FDiv: return a / b;
  case OpKind::FRem: return std::fmod(a, b);
  default: return std::fma(a, b, c);
  }
}

/// a * b + c of narrow values with one rounding: the sum in double is made odd if inexact, so that rounding it again to
/// a format with far fewer bits cannot see a false tie.
double narrowFma(double a, double b, double c) {
  double p = a * b, s = p + c; // p is exact: at most 22 bits
  if (!std::isfinite(s))
    return s;
  double t = s - p, error = (p - (s - t)) + (c - t);
  if (error == 0 || (std::bit_cast<uint64_t>(s) & 1))
    return s;
  return std::nextafter(s, error > 0 ? INFINITY : -INFINITY);
}

uint64_t evalFloatArithmetic(const ScalarOp &op, std::span<const uint64_t> args) {
  double v[3] = {0, 0, 0};
  for (size_t i = 0; i < args.size() && i < 3; ++i)
    v[i] = decodeFloat(op.from, args[i]);
  if (op.from == Elem::F32)
    return encodeFloat(op.to, evalArithmetic<float>(op.kind, static_cast<float>(v[0]), static_cast<float>(v[1]),
                                                    static_cast<float>(v[2])));
  if (op.from == Elem::F64 || op.kind != OpKind::Fma)
    return encodeFloat(op.to, evalArithmetic<double>(op.kind, v[0], v[1], v[2]));
  return encodeFloat(op.to, narrowFma(v[0], v[1], v[2]));
}

uint64_t floatToInt(const ScalarOp &op, double x) {
  unsigned width = bitWidth(op.to);
  bool isSigned = op.kind == OpKind::FpToSI;
  double low = isSigned ? -std::ldexp(1.0, static_cast<int>(width) - 1) : 0.0;
  double end = std::ldexp(1.0, static_cast<int>(isSigned ? width - 1 : width));
  if (std::isnan(x))
    return 0;
  x = std::trunc(x);
  if (x < low)
    x = low;
  if (x >= end)
    return isSigned ? elemMask(op.to) >> 1 : elemMask(op.to);
  return isSigned ? static_cast<uint64_t>(static_cast<int64_t>(x)) : static_cast<uint64_t>(x);
}

std::optional<uint64_t> evalCast(const ScalarOp &op, uint64_t a) {
  switch (op.kind) {
  case OpKind::Trunc: case OpKind::ZExt: case OpKind::Bitcast: case OpKind::IntToPtr: case OpKind::PtrToInt: return a;
  case OpKind::SExt: return static_cast<uint64_t>(signExtend(op.from, a));
  case OpKind::FpTrunc: case OpKind::FpExt: return encodeFloat(op.to, decodeFloat(op.from, a), op.towardZero);
  case OpKind::FpToSI: case OpKind::FpToUI: return floatToInt(op, decodeFloat(op.from, a));
  case OpKind::SIToFp: return encodeFloat(op.to, static_cast<long double>(signExtend(op.from, a)), op.towardZero);
  case OpKind::UIToFp: return encodeFloat(op.to, static_cast<long double>(a), op.towardZero);
  default: return std::nullopt;
  }
}

std::optional<uint64_t> evalAny(const ScalarOp &op, std::span<const uint64_t> args) {
  switch (op.kind) {
  case OpKind::Select: return args[0] & 1 ? args[1] : args[2];
  case OpKind::AddPtr: return args[0] + static_cast<uint64_t>(signExtend(op.offset, args[1])) * op.pointeeBytes;
  case OpKind::CmpF: return compareFloats(op.pred, decodeFloat(op.from, args[0]), decodeFloat(op.from, args[1]));
  // Sign operations work on the code, so that they hold for NaN; fnuz formats have no negative zero.
  case OpKind::FNeg: case OpKind::FAbs: {
    uint64_t sign = uint64_t(1) << (bitWidth(op.from) - 1), magnitude = args[0] & (sign - 1);
    if (!hasNegativeZero(kindOf(op.from)) && magnitude == 0)
      return args[0];
    return op.kind == OpKind::FAbs ? magnitude : args[0] ^ sign;
  }
  case OpKind::MinNum: case OpKind::MaxNum: case OpKind::Minimum: case OpKind::Maximum:
    return encodeFloat(op.to, evalMinMax(op.kind, decodeFloat(op.from, args[0]), decodeFloat(op.from, args[1])));
  case OpKind::FAdd: case OpKind::FSub: case OpKind::FMul: case OpKind::FDiv: case OpKind::FRem: case OpKind::Fma:
    return evalFloatArithmetic(op, args);
  case OpKind::Exp: case OpKind::Exp2: case OpKind::Log: case OpKind::Log2: case OpKind::Sin: case OpKind::Cos:
  case OpKind::Sqrt:
  case OpKind::Rsqrt:
  case OpKind::Erf:
  case OpKind::Tanh:
  case OpKind::Floor:
  case OpKind::Rint:
  case OpKind::Ceil: return encodeFloat(op.to, evalElementary(op.kind, decodeFloat(op.from, args[0])));
  default: break;
  }
  if (args.size() == 1)
    if (std::optional<uint64_t> v = evalCast(op, args[0]))
      return v;
  return evalInt(op, args[0], args.size() > 1 ? args[1] : 0);
}

} // namespace

std::optional<uint64_t> evalScalar(const ScalarOp &op, std::span<const uint64_t> args) {
  assert(info(op.kind).traits & traits::Elementwise);
  std::optional<uint64_t> v = evalAny(op, args);
  if (v)
    *v &= elemMask(op.to);
  return v;
}

} // namespace tegula::ir
