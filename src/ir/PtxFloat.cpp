// Arithmetic of floats in PTX; see PtxMeaning.h.
#include "ir/PtxMeaning.h"
#include <array>

namespace tegula::ir::ptx {

using V = Value *;

V Meaning::flushed(V bits, const Type &t) {
  if (t.elem != Elem::F32 && t.elem != Elem::F16)
    return bits;
  bool wide = t.elem == Elem::F32;
  uint64_t exponent = wide ? 0x7f800000 : 0x7c00, sign = wide ? 0x80000000 : 0x8000;
  return b_.select(cmp(CmpPred::Eq, bin(OpKind::And, bits, exponent), uint64_t{0}), bin(OpKind::And, bits, sign), bits);
}

V Meaning::saturated(V x) {
  V low = bin(OpKind::MaxNum, x, b_.constFloat(x->type, 0));
  return bin(OpKind::MinNum, low, b_.constFloat(x->type, 1));
}

/// Reads operands 1, 2, ..., computes each element, writes operand 0. Supports .ftz, .sat and .relu; `f` takes and
/// returns floats.
bool Meaning::floats(size_t operands, const std::function<V(const Type &, std::span<const V>)> &f) {
  const Type t = types_[0];
  if (!t.isFloat() || t.tf32 || bitWidth(t.elem) < 16)
    return fail("it is not known for this type");
  bool flushes = has("ftz"), saturates = has("sat"), cutsOff = has("relu");
  std::vector<V> in;
  for (size_t i = 1; i <= operands; ++i) {
    in.push_back(read(i, t.width()));
    if (!in.back())
      return false;
  }
  V r = eachLane(t, in, [&](std::span<const V> bits) -> V {
    std::vector<V> x;
    for (V v : bits)
      x.push_back(toFloat(flushes ? flushed(v, t) : v, t));
    V y = f(t, x);
    if (!y)
      return nullptr;
    y = saturates ? saturated(y) : y;
    y = cutsOff ? bin(OpKind::Maximum, y, b_.constFloat(y->type, 0)) : y;
    V out = toBits(y);
    return flushes ? flushed(out, t) : out;
  });
  return r && write(0, r);
}

bool Meaning::arithmetic() {
  std::string_view n = name();
  has("rn");
  bool divides = n == "div";
  if (divides)
    has("approx"), has("full");
  OpKind k = n == "add" ? OpKind::FAdd : n == "sub" ? OpKind::FSub : n == "mul" ? OpKind::FMul : OpKind::FDiv;
  if (n == "rem")
    return fail("it is not known for this type");
  return floats(2, [&](const Type &, std::span<const V> x) {
    std::vector<Attr> attrs;
    if (k == OpKind::FMul)
      attrs.push_back({attr::rounded, true});
    return b_.create1(k, {x[0], x[1]}, x[0]->type, std::move(attrs));
  });
}

bool Meaning::fusedMultiplyAdd() {
  has("rn");
  return floats(3, [&](const Type &, std::span<const V> x) {
    return b_.create1(OpKind::Fma, {x[0], x[1], x[2]}, x[0]->type);
  });
}

bool Meaning::extremum() {
  bool isMin = name() == "min", spreadsNan = has("NaN");
  OpKind k = spreadsNan ? (isMin ? OpKind::Minimum : OpKind::Maximum) : isMin ? OpKind::MinNum : OpKind::MaxNum;
  return floats(2, [&](const Type &, std::span<const V> x) { return bin(k, x[0], x[1]); });
}

/// abs and neg, on the bits: a NaN keeps its payload.
bool Meaning::signOperation() {
  const Type t = types_[0];
  if (t.tf32 || t.bits < 16)
    return fail("it is not known for this type");
  bool flushes = has("ftz"), isAbs = name() == "abs";
  V a = read(1, t.width());
  if (!a)
    return false;
  uint64_t sign = uint64_t{1} << (t.bits - 1);
  V r = eachLane(t, std::array{a}, [&](std::span<const V> x) {
    V y = isAbs ? bin(OpKind::And, x[0], ~sign) : bin(OpKind::Xor, x[0], sign);
    return flushes ? flushed(y, t) : y;
  });
  return write(0, r);
}

/// As precise as the operation of the IR is; 16-bit floats are computed in f32 and rounded.
bool Meaning::elementary() {
  std::string_view n = name();
  has("approx");
  has("rn");
  auto compute = [&](V x) -> V {
    if (n == "rcp")
      return bin(OpKind::FDiv, b_.constFloat(x->type, 1), x);
    OpKind k = n == "sqrt"    ? OpKind::Sqrt
               : n == "rsqrt" ? OpKind::Rsqrt
               : n == "sin"   ? OpKind::Sin
               : n == "cos"   ? OpKind::Cos
               : n == "lg2"   ? OpKind::Log2
               : n == "ex2"   ? OpKind::Exp2
                              : OpKind::Tanh;
    return b_.unary(k, x);
  };
  return floats(1, [&](const Type &t, std::span<const V> x) -> V {
    if (t.bits >= 32)
      return compute(x[0]);
    return b_.cast(OpKind::FpTrunc, compute(b_.cast(OpKind::FpExt, x[0], Elem::F32)), t.elem);
  });
}

/// The second operand with the sign of the first one.
bool Meaning::copySign() {
  const Type t = types_[0];
  if (t.lanes > 1 || (t.elem != Elem::F32 && t.elem != Elem::F64))
    return fail("it is not known for this type");
  V a = read(1, t.bits), b = a ? read(2, t.bits) : nullptr;
  if (!b)
    return false;
  uint64_t sign = uint64_t{1} << (t.bits - 1);
  return write(0, bin(OpKind::Or, bin(OpKind::And, a, sign), bin(OpKind::And, b, ~sign)));
}

bool Meaning::testProperty() {
  const Type t = types_[0];
  if (t.elem != Elem::F32 && t.elem != Elem::F64)
    return fail("it is not known for this type");
  std::string_view what = oneOf({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  V a = read(1, t.bits);
  if (!a)
    return false;
  if (what.empty())
    return fail("there is no such property");
  bool wide = t.bits == 64;
  uint64_t infinity = wide ? 0x7ff0000000000000 : 0x7f800000, least = wide ? 0x0010000000000000 : 0x00800000;
  V size = bin(OpKind::And, a, ~(uint64_t{1} << (t.bits - 1)));
  V finite = cmp(CmpPred::Ult, size, infinity);
  V r = what == "finite"       ? finite
        : what == "infinite"   ? cmp(CmpPred::Eq, size, infinity)
        : what == "number"     ? cmp(CmpPred::Ule, size, infinity)
        : what == "notanumber" ? cmp(CmpPred::Ugt, size, infinity)
        : what == "normal"     ? bin(OpKind::And, finite, cmp(CmpPred::Uge, size, least))
                               : bin(OpKind::And, cmp(CmpPred::Ult, size, least), cmp(CmpPred::Ne, size, uint64_t{0}));
  return write(0, r);
}

} // namespace tegula::ir::ptx
