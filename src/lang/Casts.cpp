// Literals as tensors and casts (LANGUAGE 2.2, 2.6).
#include "lang/Emit.h"
#include <cmath>
#include <limits>

namespace tegula::lang {

using ir::OpKind;

namespace {

bool fits(Int v, Dtype d) {
  if (d.isBool())
    return v == 0 || v == 1;
  Int one = 1;
  if (d.isUnsigned())
    return v >= 0 && v < one << d.bits();
  return v >= -(one << (d.bits() - 1)) && v < one << (d.bits() - 1);
}

ir::Value *castOp(Context &c, OpKind k, ir::Value *x, Dtype to) {
  return c.builder().create1(k, {x}, irType(to, x->type.shape));
}

/// x != 0, with NaN counted as different from 0.
ir::Value *notZero(Context &c, const Tensor &x) {
  ir::Builder &b = c.builder();
  if (x.dtype.isPtr)
    return notZero(c, {dtype(Scalar::Int64), castOp(c, OpKind::PtrToInt, x.value, dtype(Scalar::Int64))});
  if (x.dtype.isFloat())
    return b.cmp(ir::CmpPred::Une, x.value, b.constFloat(x.value->type, 0.0));
  return b.cmp(ir::CmpPred::Ne, x.value, b.constInt(x.value->type, 0));
}

ir::Value *floatToFloat(Context &c, const Tensor &x, Dtype to, bool towardZero) {
  // Conversions between narrow types go through float32, as in hardware; widening is exact either way.
  bool narrow = x.dtype.bits() <= 16 || (to.isFp8() && x.dtype.scalar == Scalar::Fp64);
  if (narrow && to.scalar != Scalar::Fp32)
    return convert(c, convert(c, x, dtype(Scalar::Fp32), towardZero), to, towardZero).value;
  bool narrows = to.bits() < x.dtype.bits();
  std::vector<ir::Attr> attrs;
  if (narrows && towardZero)
    attrs.push_back({ir::attr::rtz, true});
  return c.builder().cast(narrows ? OpKind::FpTrunc : OpKind::FpExt, x.value, elem(to.scalar), std::move(attrs));
}

ir::Value *floatToInt(Context &c, const Tensor &x, Dtype to) {
  if (x.dtype.bits() < 32)
    return floatToInt(c, convert(c, x, dtype(Scalar::Fp32)), to);
  return castOp(c, to.isSigned() ? OpKind::FpToSI : OpKind::FpToUI, x.value, to);
}

ir::Value *intToFloat(Context &c, const Tensor &x, Dtype to) {
  if (to.bits() < 32)
    return convert(c, {dtype(Scalar::Fp32), intToFloat(c, x, dtype(Scalar::Fp32))}, to).value;
  return castOp(c, x.dtype.isSigned() ? OpKind::SIToFp : OpKind::UIToFp, x.value, to);
}

ir::Value *intToInt(Context &c, const Tensor &x, Dtype to) {
  if (x.dtype.bits() == to.bits())
    return x.value;
  if (x.dtype.bits() > to.bits())
    return castOp(c, OpKind::Trunc, x.value, to);
  return castOp(c, x.dtype.isSigned() ? OpKind::SExt : OpKind::ZExt, x.value, to);
}

ir::Value *toPointer(Context &c, const Tensor &x, Dtype to) {
  ir::Type type = irType(to, x.shape());
  if (x.dtype.isPtr)
    return x.value->type == type ? x.value : castOp(c, OpKind::Bitcast, x.value, to);
  return castOp(c, OpKind::IntToPtr, convert(c, x, dtype(Scalar::Int64)).value, to);
}

/// Whether a cast accepts the pair; reports if not.
bool checkCast(Context &c, const Value &x, Dtype to, Loc loc) {
  const Tensor &t = x.asTensor();
  if (to.isVoid() || t.dtype.isVoid()) {
    fail(c, diag::badCast, loc, kindName(x), spelling(to));
    return false;
  }
  bool pointerOk = !t.dtype.isPtr || to.isPtr || to.isBool() || (to.isInt() && to.bits() == 64);
  if (!pointerOk) {
    fail(c, diag::pointerCast, loc, kindName(x), spelling(to));
    return false;
  }
  if (to.isPtr && t.dtype.isFloat()) {
    fail(c, diag::badCast, loc, kindName(x), spelling(to));
    return false;
  }
  return true;
}

Value bitcastTo(Context &c, const Value &x, Dtype to, Loc loc) {
  const Tensor &t = x.asTensor();
  if (t.dtype.isPtr || to.isPtr)
    return cast(c, x, to, loc);
  if (t.dtype.bits() != to.bits())
    return fail(c, diag::bitcastWidth, loc, t.dtype.bits(), to.bits(), spelling(t.dtype), spelling(to));
  if (irType(t.dtype) == irType(to))
    return tensor(to, t.value);
  return tensor(to, castOp(c, OpKind::Bitcast, t.value, to));
}

/// Whether rounding is toward zero; nullopt after a report.
std::optional<bool> roundingMode(Context &c, const Tensor &x, Dtype to, Loc loc, const Value &rounding) {
  if (rounding.isNone())
    return false;
  if (!rounding.isStr() || (rounding.asStr() != "rtne" && rounding.asStr() != "rtz")) {
    fail(c, diag::unknownRounding, loc, repr(rounding));
    return std::nullopt;
  }
  if (x.dtype == to) // nothing is rounded
    return false;
  if (!x.dtype.isFloat() || !to.isFloat() || x.dtype.bits() <= to.bits()) {
    fail(c, diag::roundingNotAllowed, loc, spelling(x.dtype), spelling(to));
    return std::nullopt;
  }
  return rounding.asStr() == "rtz";
}

} // namespace

std::optional<Dtype> literalDtype(const Value &n) {
  if (n.isBool())
    return dtype(Scalar::Int1);
  if (n.isInt()) {
    for (Scalar s : {Scalar::Int32, Scalar::UInt32, Scalar::Int64, Scalar::UInt64})
      if (fits(n.asInt(), dtype(s)))
        return dtype(s);
    return std::nullopt;
  }
  if (!n.isFloat())
    return std::nullopt;
  double v = std::abs(n.asFloat());
  constexpr double least = std::numeric_limits<float>::min(), most = std::numeric_limits<float>::max();
  bool single = v == 0 || std::isinf(v) || std::isnan(v) || (v >= least && v <= most);
  return dtype(single ? Scalar::Fp32 : Scalar::Fp64);
}

Value constant(Context &c, const Value &n, Dtype d, Loc loc, const ir::Shape &shape) {
  if (n.isError())
    return n;
  if (!n.isNumber() || d.isPtr || d.isVoid())
    return fail(c, diag::badCast, loc, repr(n), spelling(d));
  ir::Type type = irType(d, shape);
  if (d.isFloat())
    return tensor(d, c.builder().constFloat(type, n.asFloat()));
  Int v;
  if (n.isFloat()) {
    // Truncates like the cast; what no integer can be is an error, since the program says it in that many words.
    double f = std::trunc(n.asFloat());
    if (!(std::abs(f) < 0x1p100))
      return fail(c, diag::scalarOutOfRange, loc, repr(n), spelling(d));
    v = d.isBool() ? n.asFloat() != 0 : static_cast<Int>(f);
  } else {
    v = d.isBool() ? n.asInt() != 0 : n.asInt();
  }
  if (!fits(v, d))
    return fail(c, diag::scalarOutOfRange, loc, repr(n), spelling(d));
  return tensor(d, c.builder().constInt(type, static_cast<int64_t>(v)));
}

Value toTensor(Context &c, const Value &v, Loc loc) {
  if (v.isTensor() || v.isError())
    return v;
  if (!v.isNumber())
    return fail(c, diag::cannotConvert, loc, repr(v), kindName(v));
  std::optional<Dtype> d = literalDtype(v);
  if (!d)
    return fail(c, diag::nonrepresentable, loc, repr(v));
  return constant(c, v, *d, loc);
}

Tensor convert(Context &c, const Tensor &x, Dtype to, bool towardZero) {
  const Dtype from = x.dtype;
  if (from == to)
    return x;
  if (to.isPtr)
    return {to, toPointer(c, x, to)};
  if (to.isBool())
    return {to, notZero(c, x)};
  if (from.isPtr)
    return {to, castOp(c, OpKind::PtrToInt, x.value, to)};
  if (from.isFloat())
    return {to, to.isFloat() ? floatToFloat(c, x, to, towardZero) : floatToInt(c, x, to)};
  return {to, to.isFloat() ? intToFloat(c, x, to) : intToInt(c, x, to)};
}

Value cast(Context &c, const Value &value, Dtype to, Loc loc, const Value &rounding, bool bitcast, Loc roundingLoc) {
  LocScope scope(c, loc);
  Value x = toTensor(c, value, loc);
  if (x.isError() || !checkCast(c, x, to, loc))
    return Value::error();
  if (bitcast)
    return bitcastTo(c, x, to, loc);
  std::optional<bool> towardZero = roundingMode(c, x.asTensor(), to, roundingLoc ? roundingLoc : loc, rounding);
  if (!towardZero)
    return Value::error();
  return tensor(convert(c, x.asTensor(), to, *towardZero));
}

} // namespace tegula::lang
