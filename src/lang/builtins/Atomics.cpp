// Atomic read-modify-write operations (LANGUAGE 3.4).
#include "lang/builtins/Families.h"
#include "lang/builtins/Pointers.h"

namespace tegula::lang {

namespace {

using ir::CmpPred;
using ir::OpKind;

enum class Rmw : uint8_t { Add, Max, Min, And, Or, Xor, Xchg };

struct RmwInfo {
  const char *function;
  const char *onSigned, *onUnsigned, *onFloat; // rmw attribute; null: not available, "trick": by integers
  bool halfFloats;
};
constexpr RmwInfo infos[] = {
    {"atomic_add", "add", "add", "fadd", true},     {"atomic_max", "smax", "umax", "trick", false},
    {"atomic_min", "smin", "umin", "trick", false}, {"atomic_and", "and", "and", nullptr, false},
    {"atomic_or", "or", "or", nullptr, false},      {"atomic_xor", "xor", "xor", nullptr, false},
    {"atomic_xchg", "xchg", "xchg", "xchg", false},
};
const RmwInfo &info(Rmw op) { return infos[static_cast<unsigned>(op)]; }

/// sem and scope as attributes. `plain`: the semantics that a load or a store may have besides "relaxed"; it is the
/// default.
std::optional<std::vector<ir::Attr>> ordering(Args &a, size_t sem, size_t scope, const char *plain = nullptr) {
  auto pick = [&](size_t i, const char *otherwise,
                  std::initializer_list<std::string_view> allowed) -> std::optional<std::string> {
    if (a[i].isNone() || (a[i].isStr() && a[i].asStr().empty()))
      return otherwise;
    for (std::string_view s : allowed)
      if (a[i].isStr() && a[i].asStr() == s)
        return a[i].asStr();
    if (i == scope)
      a.fail(diag::badScope, a.loc(i), str(a[i]));
    else if (plain)
      a.fail(diag::plainSemantics, a.loc(i), a.function(), plain, str(a[i]));
    else
      a.fail(diag::badSemantics, a.loc(i), str(a[i]));
    return std::nullopt;
  };
  auto order =
      plain ? pick(sem, plain, {plain, "relaxed"}) : pick(sem, "acq_rel", {"acquire", "release", "acq_rel", "relaxed"});
  auto domain = order ? pick(scope, "gpu", {"gpu", "cta", "sys"}) : std::nullopt;
  if (!domain)
    return std::nullopt;
  return std::vector<ir::Attr>{{ir::attr::sem, *order}, {ir::attr::scope, *domain}};
}

bool supported(Rmw op, Dtype d) {
  const RmwInfo &i = info(op);
  if (d.isFloat())
    return i.onFloat && (d.bits() >= 32 || (i.halfFloats && d.bits() == 16));
  return d.isInt() && d.bits() >= 32;
}

bool rejectsConst(Args &a, const Tensor &p) {
  if (p.dtype.isConst)
    a.fail(diag::storeToConst, a.loc(0), spelling(p.dtype));
  return p.dtype.isConst;
}

std::optional<Tensor> atomicPointer(Args &a) {
  std::optional<Tensor> p = pointerOperand(a, 0);
  return p && rejectsConst(a, *p) ? std::nullopt : p;
}

struct RmwOperands {
  Tensor pointer, value;
  ir::Value *mask = nullptr; // null: all lanes
};

ir::Value *emitRmw(Args &a, const RmwOperands &x, const char *rmw, std::vector<ir::Attr> attrs) {
  std::vector<ir::Value *> operands{x.pointer.value, x.value.value};
  if (x.mask)
    operands.push_back(x.mask);
  attrs.insert(attrs.begin(), {ir::attr::rmw, std::string(rmw)});
  const ir::Type types[] = {x.value.value->type};
  return a.b().create(OpKind::AtomicRmw, operands, types, std::move(attrs))->result();
}

/// max and min of floats on their bits: where the new value has no sign bit, signed order is float order; where it has
/// one, unsigned order is the reverse of it.
Value floatExtremum(Args &a, bool isMax, const RmwOperands &x, const std::vector<ir::Attr> &attrs) {
  ir::Builder &b = a.b();
  bool wide = x.value.dtype.bits() == 64;
  Dtype bits = dtype(wide ? Scalar::Int64 : Scalar::Int32);
  RmwOperands y;
  y.value = {bits, b.create1(OpKind::Bitcast, {x.value.value}, irType(bits, x.value.shape()))};
  y.pointer = convert(a.ctx(), x.pointer, Dtype::ptr(bits.scalar));
  ir::Value *positive = b.cmp(CmpPred::Sge, y.value.value, b.constInt(y.value.value->type, 0));
  ir::Value *negative = b.cmp(CmpPred::Slt, y.value.value, b.constInt(y.value.value->type, 0));
  auto masked = [&](ir::Value *lanes) { return x.mask ? b.binary(OpKind::And, x.mask, lanes) : lanes; };
  y.mask = masked(positive);
  ir::Value *r = emitRmw(a, y, isMax ? "smax" : "smin", attrs);
  y.mask = masked(negative);
  r = b.select(positive, r, emitRmw(a, y, isMax ? "umin" : "umax", attrs));
  return tensor(x.value.dtype, b.create1(OpKind::Bitcast, {r}, x.value.value->type));
}

template <Rmw Op> Value atomicRmw(BuiltinCall &call) {
  const RmwInfo &i = info(Op);
  Args a(call, i.function);
  std::optional<Tensor> p = atomicPointer(a);
  if (!p)
    return Value::error();
  Dtype element = p->dtype.pointee();
  if (!supported(Op, element))
    return a.fail(diag::atomicDtype, a.loc(0), i.function, element.isFloat() ? code(element) : spelling(element));
  auto attrs = ordering(a, 3, 4);
  Value v = attrs ? cast(call.ctx, a[1], element, a.loc(1)) : Value::error();
  std::optional<Tensor> value = v.isError() ? std::nullopt : upTo(a, v.asTensor(), p->shape(), 1);
  if (!value)
    return Value::error();
  RmwOperands x{*p, *value};
  if (!a[2].isNone()) {
    std::optional<Tensor> m = maskOperand(a, 2);
    m = m ? upTo(a, *m, p->shape(), 2) : std::nullopt;
    if (!m)
      return Value::error();
    x.mask = m->value;
  }
  if (element.isFloat() && std::string_view(i.onFloat) == "trick")
    return floatExtremum(a, Op == Rmw::Max, x, *attrs);
  const char *rmw = element.isFloat() ? i.onFloat : element.isSigned() ? i.onSigned : i.onUnsigned;
  return tensor(element, emitRmw(a, x, rmw, *attrs));
}

Value atomicCas(BuiltinCall &call) {
  Args a(call, "atomic_cas");
  std::optional<Tensor> p = atomicPointer(a), expected = a.tensor(1), value = a.tensor(2);
  if (!p || !expected || !value)
    return Value::error();
  Dtype element = p->dtype.pointee();
  if (element.bits() < 16 || element.isBool())
    return a.fail(diag::atomicDtype, a.loc(0), "atomic_cas", spelling(element));
  auto attrs = ordering(a, 3, 4);
  if (!attrs)
    return Value::error();
  // Bits are compared: integers of the pointer's width may be signed or not (`while tl.atomic_cas(lock, 0, 1)` with
  // locks of uint32).
  auto fits = [&](Dtype d) { return d == element || (d.isInt() && element.isInt() && d.bits() == element.bits()); };
  if (!fits(expected->dtype) || !fits(value->dtype))
    return a.fail(diag::casTypes, a.loc(), spelling(element), spelling(expected->dtype), spelling(value->dtype));
  for (size_t i : {size_t{1}, size_t{2}}) {
    const Tensor &t = i == 1 ? *expected : *value;
    if (t.shape() != p->shape())
      return a.fail(diag::wrongShape, a.loc(i), i == 1 ? "cmp" : "val", shapeText(t.shape()),
                    "the pointer's shape " + shapeText(p->shape()));
  }
  ir::Value *operands[] = {p->value, expected->value, value->value};
  const ir::Type types[] = {value->value->type};
  return tensor(value->dtype, a.b().create(OpKind::AtomicCas, operands, types, std::move(*attrs))->result());
}

/// Elements as the integers that are loaded and stored: floats by their bits, int1 as the byte it is in memory.
Dtype integerOf(Dtype element) {
  if (!element.isFloat() && !element.isBool())
    return element;
  switch (element.bits()) {
  case 16: return dtype(Scalar::Int16);
  case 32: return dtype(Scalar::Int32);
  case 64: return dtype(Scalar::Int64);
  default: return dtype(Scalar::Int8);
  }
}

/// Pointer (to integers) and mask of an atomic load or store, of one shape; `value` is not set.
std::optional<RmwOperands> plainOperands(Args &a, size_t mask) {
  std::optional<Tensor> p = pointerOperand(a, 0), m;
  if (!p)
    return std::nullopt;
  Dtype element = p->dtype.pointee();
  if (!a[mask].isNone()) {
    m = maskOperand(a, mask);
    auto shape = m ? commonShape(a.ctx(), p->shape(), m->shape(), a.loc(), a.loc(0), a.loc(mask)) : std::nullopt;
    if (!shape)
      return std::nullopt;
    p = spread(a.ctx(), *p, *shape);
    m = spread(a.ctx(), *m, *shape);
  }
  Dtype bits = integerOf(element);
  return RmwOperands{bits == element ? *p : convert(a.ctx(), *p, Dtype::ptr(bits.scalar, p->dtype.isConst)),
                     {},
                     m ? m->value : nullptr};
}

Value atomicLoad(BuiltinCall &call) {
  Args a(call, "atomic_load");
  auto x = plainOperands(a, 1);
  auto attrs = x ? ordering(a, 2, 3, "acquire") : std::nullopt;
  if (!attrs)
    return Value::error();
  Dtype element = a[0].asTensor().dtype.pointee(), bits = x->pointer.dtype.pointee();
  x->value = {bits, a.b().poison(irType(bits, x->pointer.shape()))};
  Tensor loaded{bits, emitRmw(a, *x, "load", std::move(*attrs))};
  if (element.isBool())
    return tensor(element, a.b().cmp(CmpPred::Ne, loaded.value, a.b().constInt(loaded.value->type, 0)));
  return tensor(element, element.isFloat()
                             ? a.b().create1(OpKind::Bitcast, {loaded.value}, irType(element, loaded.shape()))
                             : loaded.value);
}

Value atomicStore(BuiltinCall &call) {
  Args a(call, "atomic_store");
  auto x = plainOperands(a, 2);
  if (!x || rejectsConst(a, a[0].asTensor()))
    return Value::error();
  auto attrs = ordering(a, 3, 4, "release");
  Dtype element = a[0].asTensor().dtype.pointee(), bits = x->pointer.dtype.pointee();
  Value v = attrs ? cast(call.ctx, a[1], element, a.loc(1)) : Value::error();
  std::optional<Tensor> value = v.isError() ? std::nullopt : upTo(a, v.asTensor(), x->pointer.shape(), 1);
  if (!value)
    return Value::error();
  if (element.isBool())
    value = convert(call.ctx, *value, bits);
  else if (element.isFloat())
    value = Tensor{bits, a.b().create1(OpKind::Bitcast, {value->value}, irType(bits, value->shape()))};
  x->value = *value;
  emitRmw(a, *x, "store", std::move(*attrs));
  return Value::none();
}

/// Operands are checked here, where they have places; the loop is library text.
Value atomicPoll(BuiltinCall &call) {
  Args a(call, "atomic_poll");
  std::optional<Tensor> p = pointerOperand(a, 0);
  if (!p)
    return Value::error();
  Dtype element = p->dtype.pointee();
  if (!element.isInt() || element.bits() < 16)
    return a.fail(diag::pollDtype, a.loc(0), spelling(element));
  if (!ordering(a, 2, 3, "acquire"))
    return Value::error();
  Value timeout = a[4];
  if (timeout.isInt() && timeout.asInt() < 0)
    return a.fail(diag::pollNegative, a.loc(4), str(timeout));
  if (!timeout.isNone()) {
    Value t = timeout.isInt() || timeout.isTensor() ? toTensor(call.ctx, timeout, a.loc(4)) : Value::error();
    if (!t.isTensor() || !t.asTensor().isScalar() || !t.asTensor().dtype.isInt())
      return a.fail(diag::pollTimeout, a.loc(4), kindName(timeout));
    timeout =
        tensor(convert(call.ctx, t.asTensor(), dtype(t.asTensor().dtype.isSigned() ? Scalar::Int64 : Scalar::UInt64)));
  }
  Value expected = cast(call.ctx, a[1], element, a.loc(1));
  std::optional<Tensor> e = expected.isError() ? std::nullopt : upTo(a, expected.asTensor(), p->shape(), 1);
  const Value args[] = {a[0], e ? tensor(*e) : Value::error(), timeout, a[2], a[3]};
  return e ? call.ctx.call(call.ctx.libraryFunction("_atomic_poll"), args, call.loc) : Value::error();
}

constexpr const char *signature = "pointer, val, mask=None, sem=None, scope=None";

constexpr Builtin rows[] = {
    {"atomic_add", signature, atomicRmw<Rmw::Add>, Builtin::Method, "Adds to memory and returns the old values."},
    {"atomic_max", signature, atomicRmw<Rmw::Max>, Builtin::Method, "Maximum with memory; returns the old values."},
    {"atomic_min", signature, atomicRmw<Rmw::Min>, Builtin::Method, "Minimum with memory; returns the old values."},
    {"atomic_and", signature, atomicRmw<Rmw::And>, Builtin::Method, "Bitwise and with memory; returns the old values."},
    {"atomic_or", signature, atomicRmw<Rmw::Or>, Builtin::Method, "Bitwise or with memory; returns the old values."},
    {"atomic_xor", signature, atomicRmw<Rmw::Xor>, Builtin::Method, "Bitwise xor with memory; returns the old values."},
    {"atomic_xchg", signature, atomicRmw<Rmw::Xchg>, Builtin::Method, "Writes to memory and returns the old values."},
    {"atomic_cas", "pointer, cmp, val, sem=None, scope=None", atomicCas, Builtin::Method,
     "Writes `val` where memory equals `cmp`; returns the old values."},
    {"atomic_load", "pointer, mask=None, sem=None, scope=None", atomicLoad, Builtin::Method,
     "Reads memory, each element at once; acquires."},
    {"atomic_store", signature, atomicStore, Builtin::Method, "Writes to memory, each element at once; releases."},
    {"atomic_poll", "pointer, expected_value, sem=None, scope=None, timeout_ns=None", atomicPoll, Builtin::Method,
     "Waits until memory has held `expected_value`, or the time is over; returns where it has."},
};

} // namespace

std::span<const Builtin> atomicBuiltins() { return rows; }

} // namespace tegula::lang
