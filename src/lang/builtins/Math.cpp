// Elementary functions and rounding (LANGUAGE 3.6): the function forms take float32 and float64 only, as the method
// forms (x.exp()) do from level 3.9 on; below it those also take the narrow floats, computed in float32 and rounded
// back.
#include "lang/builtins/Args.h"
#include "lang/builtins/Families.h"

namespace tegula::lang {

namespace {

using ir::OpKind;

ir::Value *emit(Args &a, OpKind k, ir::Value *x, bool approx) {
  std::vector<ir::Attr> attrs;
  if (approx)
    attrs.push_back({ir::attr::approx, true});
  return a.b().create1(k, {x}, x->type, std::move(attrs));
}

/// Sqrt of tl.sqrt is the approximate one, tl.sqrt_rn is not. exp may be computed as exp2(x * log2 e) (LANGUAGE 3.6).
struct Unary {
  const char *function;
  OpKind kind;
  bool approx = false;
  bool onlyFloat32 = false;
};
constexpr Unary exp{"exp", OpKind::Exp, true}, exp2{"exp2", OpKind::Exp2}, log{"log", OpKind::Log},
    log2{"log2", OpKind::Log2};
constexpr Unary sin{"sin", OpKind::Sin}, cos{"cos", OpKind::Cos}, rsqrt{"rsqrt", OpKind::Rsqrt},
    erf{"erf", OpKind::Erf};
constexpr Unary floor{"floor", OpKind::Floor}, ceil{"ceil", OpKind::Ceil}, sqrt{"sqrt", OpKind::Sqrt, true};
constexpr Unary sqrtRn{"sqrt_rn", OpKind::Sqrt, false, true};

Value badDtype(Args &a, const Unary &u, Dtype d) {
  std::string found = d.isFloat() ? code(d) : spelling(d);
  if (u.onlyFloat32)
    return a.fail(diag::expectedDtypes, a.loc(0), "['fp32']", found, u.function);
  return a.fail(diag::expectedDtype, a.loc(0), found, u.function);
}

template <const Unary &U> Value function(BuiltinCall &call) {
  Args a(call, U.function);
  std::optional<Tensor> x = a.tensor(0);
  if (!x)
    return Value::error();
  Scalar s = x->dtype.isPtr ? Scalar::Void : x->dtype.scalar;
  if (s != Scalar::Fp32 && (s != Scalar::Fp64 || U.onlyFloat32))
    return badDtype(a, U, x->dtype);
  return tensor(x->dtype, emit(a, U.kind, x->value, U.approx));
}

template <const Unary &U> Value method(BuiltinCall &call) {
  if (call.ctx.target().level >= Level::v39)
    return function<U>(call);
  Args a(call, U.function);
  std::optional<Tensor> x = a.tensor(0);
  if (!x)
    return Value::error();
  if (!x->dtype.isFloat())
    return badDtype(a, U, x->dtype);
  if (x->dtype.bits() >= 32)
    return tensor(x->dtype, emit(a, U.kind, x->value, U.approx));
  Tensor wide = convert(call.ctx, *x, dtype(Scalar::Fp32));
  wide.value = emit(a, U.kind, wide.value, U.approx);
  return tensor(convert(call.ctx, wide, x->dtype));
}

Value abs(BuiltinCall &call) {
  Args a(call, "abs");
  std::optional<Tensor> x = a.tensor(0);
  if (!x)
    return Value::error();
  if (x->dtype.isPtr)
    return a.fail(diag::invalidOperand, a.loc(0), "abs", kindName(a[0]));
  if (x->dtype.isUnsigned())
    return tensor(*x);
  return tensor(x->dtype, a.b().unary(x->dtype.isFloat() ? OpKind::FAbs : OpKind::AbsI, x->value));
}

constexpr Builtin rows[] = {
    {"exp", "x", function<exp>, 0,
     "e to the power of x, elementwise; fast on GPUs, libdevice.exp is exact to the last place."},
    {"exp2", "x", function<exp2>, 0, "2 to the power of x, elementwise."},
    {"log", "x", function<log>, 0, "Natural logarithm, elementwise."},
    {"log2", "x", function<log2>, 0, "Logarithm of base 2, elementwise."},
    {"sin", "x", function<sin>, 0, "Sine, elementwise."},
    {"cos", "x", function<cos>, 0, "Cosine, elementwise."},
    {"sqrt", "x", function<sqrt>, 0, "Square root, elementwise; fast, not always correctly rounded."},
    {"sqrt_rn", "x", function<sqrtRn>, 0, "Square root, correctly rounded, float32 only."},
    {"rsqrt", "x", function<rsqrt>, 0, "1 / sqrt(x), elementwise."},
    {"erf", "x", function<erf>, 0, "Error function, elementwise."},
    {"floor", "x", function<floor>, 0, "The greatest whole number not above x, elementwise."},
    {"ceil", "x", function<ceil>, 0, "The least whole number not below x, elementwise."},
    {"abs", "x", abs, Builtin::Method, "Absolute value, elementwise."},
    {"tensor.exp", "x", method<exp>, 0, "e to the power of x, elementwise."},
    {"tensor.exp2", "x", method<exp2>, 0, "2 to the power of x, elementwise."},
    {"tensor.log", "x", method<log>, 0, "Natural logarithm, elementwise."},
    {"tensor.log2", "x", method<log2>, 0, "Logarithm of base 2, elementwise."},
    {"tensor.sin", "x", method<sin>, 0, "Sine, elementwise."},
    {"tensor.cos", "x", method<cos>, 0, "Cosine, elementwise."},
    {"tensor.sqrt", "x", method<sqrt>, 0, "Square root, elementwise."},
    {"tensor.sqrt_rn", "x", method<sqrtRn>, 0, "Square root, correctly rounded."},
    {"tensor.rsqrt", "x", method<rsqrt>, 0, "1 / sqrt(x), elementwise."},
    {"tensor.erf", "x", method<erf>, 0, "Error function, elementwise."},
    {"tensor.floor", "x", method<floor>, 0, "The greatest whole number not above x, elementwise."},
    {"tensor.ceil", "x", method<ceil>, 0, "The least whole number not below x, elementwise."},
};

} // namespace

std::span<const Builtin> mathBuiltins() { return rows; }

} // namespace tegula::lang
