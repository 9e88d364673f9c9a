// Elementwise functions of several operands (LANGUAGE 3.6). Below level 3.9 some first turn their operands into tensors
// and so do not know that a number was a literal: tl.maximum(x_fp16, 0.0) is float32 there.
#include "lang/builtins/Args.h"
#include "lang/builtins/Families.h"

namespace tegula::lang {

namespace {

using ir::OpKind;

template <BinOp Op> Value arithmeticFunction(BuiltinCall &call) {
  Args a(call, Op == BinOp::Add ? "add" : Op == BinOp::Sub ? "sub" : "mul");
  std::optional<bool> check = a.flag(2, "sanitize_overflow");
  return check ? arithmetic(call.ctx, Op, a[0], a[1], a.loc(), a.loc(0), a.loc(1), *check) : Value::error();
}

/// The first `n` operands in their common dtype and shape.
std::optional<std::vector<Tensor>> together(Args &a, size_t n, bool isDiv = false) {
  std::vector<Value> values;
  std::vector<Loc> locs;
  for (size_t i = 0; i < n; ++i) {
    values.push_back(a[i]);
    locs.push_back(a.loc(i));
  }
  return meetAll(a.ctx(), a.function(), values, isDiv, a.loc(), locs);
}

bool keepsLiterals(Args &a) { return a.ctx().target().level >= Level::v39; }

/// Two operands as tensors in their common dtype and shape.
std::optional<Operands> tensors(Args &a, size_t i, size_t j, bool widenBf16) {
  std::optional<Tensor> x = a.tensor(i), y = a.tensor(j);
  if (!x || !y)
    return std::nullopt;
  if (widenBf16)
    for (Tensor *t : {&*x, &*y})
      if (t->dtype == dtype(Scalar::Bf16))
        *t = convert(a.ctx(), *t, dtype(Scalar::Fp32));
  return meet(a.ctx(), a.function(), tensor(*x), tensor(*y), false, a.loc(), a.loc(i), a.loc(j));
}

std::optional<Operands> twoTensors(Args &a, bool widenBf16) {
  if (!keepsLiterals(a))
    return tensors(a, 0, 1, widenBf16);
  auto both = together(a, 2);
  return both ? std::optional(Operands{(*both)[0], (*both)[1]}) : std::nullopt;
}

std::optional<bool> propagatesNan(Args &a, size_t i) {
  if (a[i].is<std::shared_ptr<const OpaqueValue>>()) {
    const std::string &name = a[i].get<std::shared_ptr<const OpaqueValue>>()->name;
    if (name == "PropagateNan.ALL" || name == "PropagateNan.NONE")
      return name == "PropagateNan.ALL";
  }
  a.badArgument(i, "propagate_nan", "tl.PropagateNan.NONE or tl.PropagateNan.ALL");
  return std::nullopt;
}

OpKind extremumKind(Dtype d, bool isMax, bool propagate) {
  if (d.isFloat())
    return propagate ? (isMax ? OpKind::Maximum : OpKind::Minimum) : (isMax ? OpKind::MaxNum : OpKind::MinNum);
  if (d.isSigned())
    return isMax ? OpKind::SMax : OpKind::SMin;
  return isMax ? OpKind::UMax : OpKind::UMin;
}

template <bool IsMax> Value extremum(BuiltinCall &call) {
  Args a(call, IsMax ? "maximum" : "minimum");
  std::optional<bool> propagate = propagatesNan(a, 2);
  auto x = propagate ? twoTensors(a, true) : std::nullopt;
  if (!x)
    return Value::error();
  Dtype d = x->a.dtype;
  return tensor(d, a.b().binary(extremumKind(d, IsMax, *propagate), x->a.value, x->b.value));
}

/// Three operands in one dtype and shape, promoted pairwise.
struct Triple {
  Tensor a, b, c;
};
std::optional<Triple> threeTensors(Args &a, bool widenBf16) {
  if (keepsLiterals(a)) {
    auto all = together(a, 3);
    return all ? std::optional(Triple{(*all)[0], (*all)[1], (*all)[2]}) : std::nullopt;
  }
  auto first = tensors(a, 0, 1, widenBf16);
  auto second = first ? tensors(a, 0, 2, widenBf16) : std::nullopt;
  if (!second)
    return std::nullopt;
  Value x = tensor(first->a), y = tensor(first->b), z = tensor(second->b);
  std::optional<Dtype> d = promote(a.ctx(), x, z, false, a.loc());
  auto shape = d ? commonShape(a.ctx(), first->a.shape(), second->b.shape(), a.loc()) : std::nullopt;
  if (!shape)
    return std::nullopt;
  auto as = [&](const Value &v) { return spread(a.ctx(), convert(a.ctx(), v.asTensor(), *d), *shape); };
  return Triple{as(x), as(y), as(z)};
}

Value clamp(BuiltinCall &call) {
  Args a(call, "clamp");
  std::optional<bool> propagate = propagatesNan(a, 3);
  auto t = propagate ? threeTensors(a, true) : std::nullopt;
  if (!t)
    return Value::error();
  Dtype d = t->a.dtype;
  ir::Value *atLeast = a.b().binary(extremumKind(d, true, *propagate), t->a.value, t->b.value);
  return tensor(d, a.b().binary(extremumKind(d, false, *propagate), atLeast, t->c.value));
}

Value fma(BuiltinCall &call) {
  Args a(call, "fma");
  auto t = threeTensors(a, false);
  if (!t)
    return Value::error();
  if (!t->a.dtype.isFloat())
    return a.fail(diag::expectedDtypes, a.loc(0), "['fp16', 'bf16', 'fp32', 'fp64']", spelling(t->a.dtype), "fma");
  return tensor(t->a.dtype, a.b().create1(OpKind::Fma, {t->a.value, t->b.value, t->c.value}, t->a.value->type));
}

/// The arithmetic that newer versions of the language spell for pairs of float32; targets pair what they can by
/// themselves.
template <OpKind Kind> Value pairArithmetic(BuiltinCall &call) {
  constexpr unsigned count = Kind == OpKind::Fma ? 3 : 2;
  constexpr const char *name = Kind == OpKind::FAdd   ? "add_f32x2"
                               : Kind == OpKind::FSub ? "sub_f32x2"
                               : Kind == OpKind::FMul ? "mul_f32x2"
                                                      : "fma_f32x2";
  Args a(call, name);
  auto x = together(a, count);
  if (!x)
    return Value::error();
  if ((*x)[0].dtype != dtype(Scalar::Fp32))
    return a.fail(diag::expectedDtypes, a.loc(0), "['fp32']", code((*x)[0].dtype), name);
  ir::Value *operands[] = {(*x)[0].value, (*x)[1].value, (*x)[count - 1].value};
  return tensor((*x)[0].dtype, a.b().create(Kind, std::span(operands).first(count), {&operands[0]->type, 1})->result());
}

Value divRn(BuiltinCall &call) {
  Args a(call, "div_rn");
  auto x = twoTensors(a, false);
  if (!x)
    return Value::error();
  if (x->a.dtype != dtype(Scalar::Fp32))
    return a.fail(diag::expectedDtypes, a.loc(0), "['fp32']", code(x->a.dtype), "div_rn");
  return tensor(x->a.dtype, a.b().binary(OpKind::FDiv, x->a.value, x->b.value));
}

/// The operands of fdiv: promoted as those of `/`; below level 3.9 those of one float type keep it.
std::optional<Operands> dividends(Args &a) {
  bool keep = !keepsLiterals(a) && a[0].isTensor() && a[1].isTensor() && a[0].asTensor().dtype == a[1].asTensor().dtype;
  auto both = together(a, 2, !keep);
  if (!both)
    return std::nullopt;
  if ((*both)[0].dtype.isFloat())
    return Operands{(*both)[0], (*both)[1]};
  a.fail(diag::fdivNoFloat, a.loc(), kindName(a[0]), kindName(a[1]));
  return std::nullopt;
}

Value fdiv(BuiltinCall &call) {
  Args a(call, "fdiv");
  std::optional<bool> ieee = a.flag(2, "ieee_rounding"), approx = a.flag(3, "approx");
  if (!ieee || !approx)
    return Value::error();
  if (*ieee && *approx)
    return a.fail(diag::fdivRounding, a.loc(3));
  auto x = dividends(a);
  if (!x)
    return Value::error();
  Dtype d = x->a.dtype;
  if (*approx && d != dtype(Scalar::Fp32))
    return a.fail(diag::fdivApprox, a.loc(3), spelling(d));
  std::vector<ir::Attr> attrs;
  if (!*ieee && d == dtype(Scalar::Fp32))
    attrs.push_back({ir::attr::approx, true});
  return tensor(d, a.b().create1(OpKind::FDiv, {x->a.value, x->b.value}, x->a.value->type, std::move(attrs)));
}

Value umulhi(BuiltinCall &call) {
  Args a(call, "umulhi");
  auto x = twoTensors(a, false);
  if (!x)
    return Value::error();
  if (!x->a.dtype.isInt() || x->a.dtype.bits() < 32)
    return a.fail(diag::expectedDtypes, a.loc(0), "['int32', 'int64', 'uint32', 'uint64']", spelling(x->a.dtype),
                  "umulhi");
  return tensor(x->a.dtype, a.b().binary(OpKind::UMulHi, x->a.value, x->b.value));
}

// where

/// The arms: numbers keep the literal rule; pointers must agree in type.
std::optional<Operands> arms(Args &a) {
  auto isPointer = [](const Value &v) { return v.isTensor() && v.asTensor().dtype.isPtr; };
  if (!isPointer(a[1]) && !isPointer(a[2]))
    return meet(a.ctx(), "where", a[1], a[2], false, a.loc(), a.loc(1), a.loc(2));
  if (!isPointer(a[1]) || !isPointer(a[2]) || a[1].asTensor().dtype != a[2].asTensor().dtype) {
    a.fail(diag::typesMismatch, a.loc(), "where", kindName(a[1]), kindName(a[2]));
    return std::nullopt;
  }
  const Tensor &x = a[1].asTensor(), &y = a[2].asTensor();
  auto shape = commonShape(a.ctx(), x.shape(), y.shape(), a.loc(), a.loc(1), a.loc(2));
  if (!shape)
    return std::nullopt;
  return Operands{spread(a.ctx(), x, *shape), spread(a.ctx(), y, *shape)};
}

Value where(BuiltinCall &call) {
  Args a(call, "where");
  std::optional<Tensor> cond = a.tensor(0);
  auto x = cond ? arms(a) : std::nullopt;
  if (!x)
    return Value::error();
  if (!cond->dtype.isBool()) {
    call.diag().report(diag::whereCondition, a.loc(0), kindName(a[0]));
    *cond = convert(call.ctx, *cond, dtype(Scalar::Int1));
  }
  auto shape = commonShape(call.ctx, cond->shape(), x->a.shape(), a.loc(), a.loc(0), a.loc(1));
  if (!shape)
    return Value::error();
  Context &c = call.ctx;
  return tensor(x->a.dtype, a.b().select(spread(c, *cond, *shape).value, spread(c, x->a, *shape).value,
                                         spread(c, x->b, *shape).value));
}

template <bool IsAnd> Value logical(BuiltinCall &call) {
  return logicalAndOr(call.ctx, IsAnd, call.args[0], call.args[1], call.loc);
}

// Operators called by their names, as x.__lshift__(4): methods of tensors like all others.

template <BinOp Op, bool Reflected = false> Value operatorMethod(BuiltinCall &call) {
  Args a(call, "operator");
  constexpr size_t l = Reflected, r = !Reflected;
  return binary(call.ctx, Op, a[l], a[r], call.loc, a.loc(l), a.loc(r));
}
template <Cmp Op> Value comparisonMethod(BuiltinCall &call) {
  Args a(call, "comparison");
  return compare(call.ctx, Op, a[0], a[1], call.loc, a.loc(0), a.loc(1));
}
template <Value (*Op)(Context &, const Value &, Loc)> Value unaryMethod(BuiltinCall &call) {
  return Op(call.ctx, call.args[0], call.loc);
}

Value expectZero(BuiltinCall &call) {
  Args a(call, "expect_zero");
  std::optional<Tensor> x = a.tensor(0), mask = x ? a.tensor(1) : std::nullopt;
  if (!mask)
    return Value::error();
  if (!mask->dtype.isBool())
    return a.fail(diag::maskNotBool, a.loc(1), kindName(a[1]));
  if (!call.ctx.target().debug)
    return tensor(*x);
  const Value nothing = tensor(x->dtype, a.b().constInt(x->value->type, 0));
  Value zero = compare(call.ctx, Cmp::Eq, tensor(*x), nothing, a.loc(), a.loc(0), a.loc(0));
  auto shape =
      zero.isError() ? std::nullopt : commonShape(call.ctx, x->shape(), mask->shape(), a.loc(), a.loc(0), a.loc(1));
  if (!shape)
    return Value::error();
  ir::Value *operands[] = {spread(call.ctx, zero.asTensor(), *shape).value, spread(call.ctx, *mask, *shape).value};
  a.b().create(OpKind::Assert, operands, {},
               {{ir::attr::message, std::string("expect_zero: a masked value is not zero")},
                {ir::attr::inFunction, call.ctx.currentFunction()}});
  return tensor(*x);
}

constexpr Builtin rows[] = {
    {"add", "x, y, sanitize_overflow=True", arithmeticFunction<BinOp::Add>, 0, "x + y."},
    {"sub", "x, y, sanitize_overflow=True", arithmeticFunction<BinOp::Sub>, 0, "x - y."},
    {"mul", "x, y, sanitize_overflow=True", arithmeticFunction<BinOp::Mul>, 0, "x * y."},
    {"minimum", "x, y, propagate_nan=PropagateNan.NONE", extremum<false>, 0, "The lesser of x and y, elementwise."},
    {"maximum", "x, y, propagate_nan=PropagateNan.NONE", extremum<true>, 0, "The greater of x and y, elementwise."},
    {"clamp", "x, min, max, propagate_nan=PropagateNan.NONE", clamp, 0, "x limited to [min, max]."},
    {"fma", "x, y, z", fma, 0, "x * y + z with one rounding."},
    {"add_f32x2", "x, y", pairArithmetic<OpKind::FAdd>, 0, "x + y of float32."},
    {"sub_f32x2", "x, y", pairArithmetic<OpKind::FSub>, 0, "x - y of float32."},
    {"mul_f32x2", "x, y", pairArithmetic<OpKind::FMul>, 0, "x * y of float32."},
    {"fma_f32x2", "x, y, z", pairArithmetic<OpKind::Fma>, 0, "x * y + z of float32 with one rounding."},
    {"div_rn", "x, y", divRn, 0, "x / y correctly rounded, float32 only."},
    {"fdiv", "x, y, ieee_rounding=False, approx=False", fdiv, 0, "x / y of floats; `approx`: to 2 ulp, float32 only."},
    {"umulhi", "x, y", umulhi, 0, "The high half of the unsigned product."},
    {"where", "condition, x, y", where, 0, "x where the condition holds, y elsewhere; both are computed."},
    {"tensor.logical_and", "self, other", logical<true>, 0, "x and y of int1 tensors."},
    {"tensor.logical_or", "self, other", logical<false>, 0, "x or y of int1 tensors."},
    {"tensor.__add__", "self, other", operatorMethod<BinOp::Add>, 0, "self + other."},
    {"tensor.__radd__", "self, other", operatorMethod<BinOp::Add, true>, 0, "other + self."},
    {"tensor.__sub__", "self, other", operatorMethod<BinOp::Sub>, 0, "self - other."},
    {"tensor.__rsub__", "self, other", operatorMethod<BinOp::Sub, true>, 0, "other - self."},
    {"tensor.__mul__", "self, other", operatorMethod<BinOp::Mul>, 0, "self * other."},
    {"tensor.__rmul__", "self, other", operatorMethod<BinOp::Mul, true>, 0, "other * self."},
    {"tensor.__truediv__", "self, other", operatorMethod<BinOp::Div>, 0, "self / other."},
    {"tensor.__rtruediv__", "self, other", operatorMethod<BinOp::Div, true>, 0, "other / self."},
    {"tensor.__floordiv__", "self, other", operatorMethod<BinOp::FloorDiv>, 0, "self // other."},
    {"tensor.__rfloordiv__", "self, other", operatorMethod<BinOp::FloorDiv, true>, 0, "other // self."},
    {"tensor.__mod__", "self, other", operatorMethod<BinOp::Mod>, 0, "self % other."},
    {"tensor.__rmod__", "self, other", operatorMethod<BinOp::Mod, true>, 0, "other % self."},
    {"tensor.__lshift__", "self, other", operatorMethod<BinOp::LShift>, 0, "self << other."},
    {"tensor.__rlshift__", "self, other", operatorMethod<BinOp::LShift, true>, 0, "other << self."},
    {"tensor.__rshift__", "self, other", operatorMethod<BinOp::RShift>, 0, "self >> other."},
    {"tensor.__rrshift__", "self, other", operatorMethod<BinOp::RShift, true>, 0, "other >> self."},
    {"tensor.__and__", "self, other", operatorMethod<BinOp::And>, 0, "self & other."},
    {"tensor.__rand__", "self, other", operatorMethod<BinOp::And, true>, 0, "other & self."},
    {"tensor.__or__", "self, other", operatorMethod<BinOp::Or>, 0, "self | other."},
    {"tensor.__ror__", "self, other", operatorMethod<BinOp::Or, true>, 0, "other | self."},
    {"tensor.__xor__", "self, other", operatorMethod<BinOp::Xor>, 0, "self ^ other."},
    {"tensor.__rxor__", "self, other", operatorMethod<BinOp::Xor, true>, 0, "other ^ self."},
    {"tensor.__eq__", "self, other", comparisonMethod<Cmp::Eq>, 0, "self == other."},
    {"tensor.__ne__", "self, other", comparisonMethod<Cmp::Ne>, 0, "self != other."},
    {"tensor.__lt__", "self, other", comparisonMethod<Cmp::Lt>, 0, "self < other."},
    {"tensor.__le__", "self, other", comparisonMethod<Cmp::Le>, 0, "self <= other."},
    {"tensor.__gt__", "self, other", comparisonMethod<Cmp::Gt>, 0, "self > other."},
    {"tensor.__ge__", "self, other", comparisonMethod<Cmp::Ge>, 0, "self >= other."},
    {"tensor.__neg__", "self", unaryMethod<negate>, 0, "-self."},
    {"tensor.__invert__", "self", unaryMethod<invert>, 0, "~self."},
    {"expect_zero", "x, mask", expectZero, 0, "x, which is promised to be zero where the mask is true."},
};

} // namespace

std::span<const Builtin> elementwiseBuiltins() { return rows; }

} // namespace tegula::lang
