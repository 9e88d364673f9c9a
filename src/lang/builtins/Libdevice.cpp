// tl.extra.libdevice (LANGUAGE 3.10), as far as operations of the IR compute it. Functions take float32 and float64,
// numbers count as literals. Short compositions of operations are here too; what takes a formula is library text
// (src/lib/libdevice_*.py).
#include "lang/builtins/Args.h"
#include "lang/builtins/Families.h"
#include <cmath>
#include <limits>

namespace tegula::lang {

namespace {

using ir::CmpPred;
using ir::OpKind;

/// Float expressions over values of one type.
struct Real {
  ir::Builder *b;
  ir::Value *v;

  Real as(ir::Value *x) const { return {b, x}; }
  Real of(double k) const { return as(b->constFloat(v->type, k)); }
  Real op(OpKind k) const { return as(b->unary(k, v)); }
  Real op(OpKind k, Real y) const { return as(b->binary(k, v, y.v)); }
  ir::Value *cmp(CmpPred p, Real y) const { return b->cmp(p, v, y.v); }
  ir::Value *cmp(CmpPred p, double k) const { return cmp(p, of(k)); }
  Real operator+(Real y) const { return op(OpKind::FAdd, y); }
  Real operator-(Real y) const { return op(OpKind::FSub, y); }
  Real operator*(Real y) const { return op(OpKind::FMul, y); }
  Real operator/(Real y) const { return op(OpKind::FDiv, y); }
  Real operator*(double k) const { return *this * of(k); }
  Real operator+(double k) const { return *this + of(k); }
  Real operator-(double k) const { return *this - of(k); }
  Real abs() const { return op(OpKind::FAbs); }
  bool isDouble() const { return v->type.elem == ir::Elem::F64; }
};

Real select(ir::Value *c, Real x, Real y) { return x.as(x.b->select(c, x.v, y.v)); }

ir::Elem bitsOf(Real x) { return x.isDouble() ? ir::Elem::I64 : ir::Elem::I32; }
ir::Value *toBits(Real x) { return x.b->create1(OpKind::Bitcast, {x.v}, x.v->type.withElem(bitsOf(x))); }

Real copysign(Real x, Real y) {
  ir::Value *p = toBits(x), *q = toBits(y);
  int64_t sign = x.isDouble() ? INT64_MIN : int64_t{INT32_MIN};
  ir::Value *magnitude = x.b->binary(OpKind::And, p, x.b->constInt(p->type, ~sign));
  ir::Value *r = x.b->binary(OpKind::Or, magnitude, x.b->binary(OpKind::And, q, x.b->constInt(p->type, sign)));
  return x.as(x.b->create1(OpKind::Bitcast, {r}, x.v->type));
}

Real trunc(Real x) { return select(x.cmp(CmpPred::Olt, 0.0), x.op(OpKind::Ceil), x.op(OpKind::Floor)); }


Real fmod(Real x, Real y) { return x.op(OpKind::FRem, y); }
Real fdim(Real x, Real y) { return select(x.cmp(CmpPred::Ole, y), x.of(0.0), x - y); }
Real fmax(Real x, Real y) { return x.op(OpKind::MaxNum, y); }
Real fmin(Real x, Real y) { return x.op(OpKind::MinNum, y); }
Real divRn(Real x, Real y) { return x / y; }
Real divFast(Real x, Real y) {
  return x.as(x.b->create1(OpKind::FDiv, {x.v, y.v}, x.v->type, {{ir::attr::fast, true}}));
}
Real rounded(Real r, OpKind kind) {
  keepRounded(r.v, kind);
  return r;
}
Real addRn(Real x, Real y) { return rounded(x + y, OpKind::FAdd); }

/// Halves away from zero. With the number below one half added, halves are rounded up to a whole number, and nothing
/// less is: 0.5 itself would take the number below it to 1.
Real round(Real x) {
  return copysign(addRn(x.abs(), x.of(x.isDouble() ? 0x1.fffffffffffffp-2 : 0x1.fffffep-2)).op(OpKind::Floor), x);
}

Real subRn(Real x, Real y) { return rounded(x - y, OpKind::FSub); }
Real mulRn(Real x, Real y) { return rounded(x * y, OpKind::FMul); }

ir::Value *isNan(Real x) { return x.cmp(CmpPred::Uno, x); }
ir::Value *isInf(Real x) { return x.abs().cmp(CmpPred::Oeq, std::numeric_limits<double>::infinity()); }
ir::Value *isFinite(Real x) { return x.abs().cmp(CmpPred::Olt, std::numeric_limits<double>::infinity()); }
ir::Value *signBit(Real x) {
  ir::Value *bits = toBits(x);
  return x.b->cmp(CmpPred::Slt, bits, x.b->constInt(bits->type, 0));
}

// Handlers.

/// Argument i as float32 or float64.
std::optional<Tensor> realOperand(Args &a, size_t i) {
  std::optional<Tensor> x = a.tensor(i);
  if (!x || x->dtype == dtype(Scalar::Fp32) || x->dtype == dtype(Scalar::Fp64))
    return x;
  a.fail(diag::expectedDtype, a.loc(i), x->dtype.isFloat() ? code(x->dtype) : spelling(x->dtype), "libdevice");
  return std::nullopt;
}

Value mappedTo(OpKind kind, BuiltinCall &call, std::vector<ir::Attr> attrs) {
  Args a(call, "libdevice");
  std::optional<Tensor> x = realOperand(a, 0);
  return x ? tensor(x->dtype, a.b().create1(kind, {x->value}, x->value->type, std::move(attrs))) : Value::error();
}
template <OpKind K> Value mapped(BuiltinCall &call) { return mappedTo(K, call, {}); }
template <OpKind K> Value fast(BuiltinCall &call) { return mappedTo(K, call, {{ir::attr::fast, true}}); }

/// Computes f in float64 if `Wide`, and returns in x's own type.
template <bool Wide, typename F> Value apply(Args &a, const Tensor &x, F &&f) {
  Tensor w = Wide ? convert(a.ctx(), x, dtype(Scalar::Fp64)) : x;
  w.value = f(Real{&a.b(), w.value}).v;
  return tensor(convert(a.ctx(), w, x.dtype));
}

template <Real (*F)(Real), bool Wide = false> Value unary(BuiltinCall &call) {
  Args a(call, "libdevice");
  std::optional<Tensor> x = realOperand(a, 0);
  return x ? apply<Wide>(a, *x, F) : Value::error();
}

template <Real (*F)(Real, Real), bool Wide = false> Value binary(BuiltinCall &call) {
  Args a(call, "libdevice");
  auto x = meet(call.ctx, "libdevice", a[0], a[1], true, a.loc(), a.loc(0), a.loc(1));
  if (!x)
    return Value::error();
  if (x->a.dtype != dtype(Scalar::Fp32) && x->a.dtype != dtype(Scalar::Fp64))
    return a.fail(diag::expectedDtype, a.loc(0), spelling(x->a.dtype), "libdevice");
  Tensor y = Wide ? convert(call.ctx, x->b, dtype(Scalar::Fp64)) : x->b;
  return apply<Wide>(a, x->a, [&](Real r) { return F(r, r.as(y.value)); });
}

template <ir::Value *(*F)(Real)> Value predicate(BuiltinCall &call) {
  Args a(call, "libdevice");
  std::optional<Tensor> x = realOperand(a, 0);
  if (!x)
    return Value::error();
  return tensor(convert(call.ctx, {dtype(Scalar::Int1), F(Real{&a.b(), x->value})}, dtype(Scalar::Int32)));
}

template <OpKind K> Value bitCount(BuiltinCall &call) {
  Args a(call, "libdevice");
  std::optional<Tensor> x = a.tensor(0);
  if (!x)
    return Value::error();
  if (!x->dtype.isInt() || x->dtype.bits() < 32)
    return a.fail(diag::expectedDtypes, a.loc(0), "['int32', 'int64']", spelling(x->dtype), "libdevice");
  return tensor(convert(call.ctx,
                        {dtype(x->dtype.bits() == 64 ? Scalar::Int64 : Scalar::Int32), a.b().unary(K, x->value)},
                        dtype(Scalar::Int32)));
}

template <Scalar From, Scalar To> Value reinterpret(BuiltinCall &call) {
  Args a(call, "libdevice");
  std::optional<Tensor> x = a.tensor(0);
  if (!x)
    return Value::error();
  if (x->dtype.isPtr || elem(x->dtype.scalar) != elem(From))
    return a.fail(diag::expectedDtypes, a.loc(0), spelling(dtype(From)), spelling(x->dtype), "libdevice");
  return cast(call.ctx, tensor(*x), dtype(To), a.loc(), Value::none(), true);
}

/// Rows that are functions of tl too.
template <const char *const &Name> Value forward(BuiltinCall &call) { return findBuiltin(Name)->fn(call); }
constexpr const char *absName = "abs", *fmaName = "fma";

#define LIBDEVICE(name, handler, doc) {"extra.libdevice." name, "arg0", handler, 0, doc}
#define LIBDEVICE2(name, handler, doc) {"extra.libdevice." name, "arg0, arg1", handler, 0, doc}
constexpr Builtin rows[] = {
    LIBDEVICE("exp", mapped<OpKind::Exp>, "e to the power of x."),
    LIBDEVICE("exp2", mapped<OpKind::Exp2>, "2 to the power of x."),
    LIBDEVICE("log", mapped<OpKind::Log>, "Natural logarithm."),
    LIBDEVICE("log2", mapped<OpKind::Log2>, "Logarithm of base 2."),
    LIBDEVICE("sin", mapped<OpKind::Sin>, "Sine."),
    LIBDEVICE("cos", mapped<OpKind::Cos>, "Cosine."),
    LIBDEVICE("sqrt", mapped<OpKind::Sqrt>, "Square root."),
    LIBDEVICE("sqrt_rn", mapped<OpKind::Sqrt>, "Square root, correctly rounded."),
    LIBDEVICE("rsqrt", mapped<OpKind::Rsqrt>, "1 / sqrt(x)."),
    LIBDEVICE("rsqrt_rn", mapped<OpKind::Rsqrt>, "1 / sqrt(x)."),
    LIBDEVICE("erf", mapped<OpKind::Erf>, "Error function."),
    LIBDEVICE("tanh", mapped<OpKind::Tanh>, "Hyperbolic tangent."),
    LIBDEVICE("floor", mapped<OpKind::Floor>, "The greatest whole number not above x."),
    LIBDEVICE("ceil", mapped<OpKind::Ceil>, "The least whole number not below x."),
    LIBDEVICE("fast_expf", fast<OpKind::Exp>, "e to the power of x by the GPU's instruction; __expf of CUDA."),
    LIBDEVICE("fast_logf", fast<OpKind::Log>, "Natural logarithm by the GPU's instruction; __logf of CUDA."),
    LIBDEVICE("fast_log2f", fast<OpKind::Log2>, "Logarithm of base 2 by the GPU's instruction; __log2f of CUDA."),
    LIBDEVICE("fast_sinf", fast<OpKind::Sin>, "Sine by the GPU's instruction; __sinf of CUDA."),
    LIBDEVICE("fast_cosf", fast<OpKind::Cos>, "Cosine by the GPU's instruction; __cosf of CUDA."),
    LIBDEVICE("fast_tanhf", fast<OpKind::Tanh>, "Hyperbolic tangent by the GPU's instruction; __tanhf of CUDA."),
    LIBDEVICE("trunc", unary<trunc>, "x without its fraction."),
    LIBDEVICE("round", unary<round>, "The nearest whole number, halves away from zero."),
    LIBDEVICE("rint", mapped<OpKind::Rint>, "The nearest whole number, halves to even."),
    LIBDEVICE("nearbyint", mapped<OpKind::Rint>, "The nearest whole number, halves to even."),
    LIBDEVICE2("fmod", binary<fmod>, "The remainder of x / y with the sign of x."),
    LIBDEVICE2("fdim", binary<fdim>, "x - y if that is positive, else 0."),
    LIBDEVICE2("fmax", binary<fmax>, "The greater one; NaN is ignored."),
    LIBDEVICE2("fmin", binary<fmin>, "The lesser one; NaN is ignored."),
    LIBDEVICE2("copysign", binary<copysign>, "The magnitude of x with the sign of y."),
    LIBDEVICE2("div_rn", binary<divRn>, "x / y correctly rounded."),
    LIBDEVICE2("fast_dividef", binary<divFast>,
               "x / y by the GPU's reciprocal, for y from 2**-126 to 2**126; __fdividef of CUDA."),
    LIBDEVICE2("add_rn", binary<addRn>, "x + y."),
    LIBDEVICE2("sub_rn", binary<subRn>, "x - y."),
    LIBDEVICE2("mul_rn", binary<mulRn>, "x * y."),
    LIBDEVICE("isnan", predicate<isNan>, "1 where x is NaN, as int32."),
    LIBDEVICE("isinf", predicate<isInf>, "1 where x is infinite, as int32."),
    LIBDEVICE("finitef", predicate<isFinite>, "1 where x is finite, as int32."),
    LIBDEVICE("isfinited", predicate<isFinite>, "1 where x is finite, as int32."),
    LIBDEVICE("signbit", predicate<signBit>, "1 where x has a sign bit, as int32."),
    LIBDEVICE("clz", bitCount<OpKind::Clz>, "The number of leading zero bits, as int32."),
    LIBDEVICE("popc", bitCount<OpKind::PopCount>, "The number of bits that are set, as int32."),
    LIBDEVICE("float_as_int", (reinterpret<Scalar::Fp32, Scalar::Int32>), "The bits as int32."),
    LIBDEVICE("float_as_uint", (reinterpret<Scalar::Fp32, Scalar::UInt32>), "The bits as uint32."),
    LIBDEVICE("int_as_float", (reinterpret<Scalar::Int32, Scalar::Fp32>), "The bits as float32."),
    LIBDEVICE("uint_as_float", (reinterpret<Scalar::UInt32, Scalar::Fp32>), "The bits as float32."),
    LIBDEVICE("double_as_longlong", (reinterpret<Scalar::Fp64, Scalar::Int64>), "The bits as int64."),
    LIBDEVICE("longlong_as_double", (reinterpret<Scalar::Int64, Scalar::Fp64>), "The bits as float64."),
    {"extra.libdevice.abs", "x", forward<absName>, 0, "Absolute value."},
    {"extra.libdevice.fabs", "x", forward<absName>, 0, "Absolute value."},
    {"extra.libdevice.fma", "x, y, z", forward<fmaName>, 0, "x * y + z with one rounding."},
    {"extra.libdevice.fma_rn", "x, y, z", forward<fmaName>, 0, "x * y + z with one rounding."},
};
#undef LIBDEVICE
#undef LIBDEVICE2

} // namespace

std::span<const Builtin> libdeviceBuiltins() { return rows; }

} // namespace tegula::lang
