// Python's own names inside kernels (LANGUAGE 1.8), the loop iterators, and the host module `math` on compile-time
// numbers.
#include "lang/CompileTime.h"
#include "lang/Containers.h"
#include "lang/builtins/Args.h"
#include "lang/builtins/Families.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace tegula::lang {

namespace {

// Conversions.

Value pyLen(BuiltinCall &call) {
  Args a(call, "len");
  if (const auto *items = sequenceItems(a[0]))
    return Value::integer(static_cast<Int>(items->size()));
  if (a[0].isStr())
    return Value::integer(static_cast<Int>(a[0].asStr().size()));
  if (isDict(a[0]) || isSet(a[0]))
    return Value::integer(static_cast<Int>((isDict(a[0]) ? keysOf(a[0]) : membersOf(a[0])).size()));
  if (a[0].is<std::shared_ptr<const Module>>()) // an enumeration of the host
    if (std::optional<Value> names = call.ctx.objectAttribute(a[0], "_member_names_", call.loc);
        names && sequenceItems(*names))
      return Value::integer(static_cast<Int>(sequenceItems(*names)->size()));
  return a.fail(diag::noLength, a.loc(0), kindName(a[0]));
}

Value pyList(BuiltinCall &call) {
  Args a(call, "list");
  const auto *items = sequenceItems(a[0]);
  if (isDict(a[0]) || isSet(a[0]))
    return Value::tuple(isDict(a[0]) ? keysOf(a[0]) : membersOf(a[0]));
  return items ? Value::tuple(*items) : a.badArgument(0, "iterable", "a tuple");
}

Value pyInt(BuiltinCall &call) {
  Args a(call, "int");
  if (a[0].isInt() || a[0].isBool())
    return Value::integer(a[0].asInt());
  if (a[0].isFloat()) {
    if (std::abs(a[0].asFloat()) < 0x1p126)
      return Value::integer(static_cast<Int>(a[0].asFloat()));
    return a.badArgument(0, "x", "a finite number of at most 126 bits");
  }
  if (a[0].isStr()) {
    char *end = nullptr;
    const std::string &s = a[0].asStr();
    long long v = std::strtoll(s.c_str(), &end, 10);
    if (!s.empty() && *end == '\0')
      return Value::integer(v);
  }
  return a.badArgument(0, "x", "a number");
}

Value pyFloat(BuiltinCall &call) {
  Args a(call, "float");
  if (a[0].isNumber())
    return Value::number(a[0].asFloat());
  if (a[0].isStr()) {
    char *end = nullptr;
    const std::string &s = a[0].asStr();
    double v = std::strtod(s.c_str(), &end);
    if (!s.empty() && *end == '\0')
      return Value::number(v);
  }
  return a.badArgument(0, "x", "a number, or a string such as \"inf\"");
}

// Classes and attributes.

bool isInstanceOfNamed(const Value &v, std::string_view cls) {
  struct Row {
    std::string_view name;
    bool (*test)(const Value &);
  };
  static constexpr Row rows[] = {
      {"python.int", [](const Value &x) { return x.isInt() || x.isBool(); }},
      {"python.float", [](const Value &x) { return x.isFloat(); }},
      {"python.list", [](const Value &x) { return x.isTuple(); }},
      {"python.bool", [](const Value &x) { return x.isBool(); }},
      {"python.str", [](const Value &x) { return x.isStr(); }},
      {"python.tuple", [](const Value &x) { return sequenceItems(x) != nullptr; }},
      {"python.dict", isDict},
      {"python.set", isSet},
      {"tuple", [](const Value &x) { return sequenceItems(x) != nullptr; }},
      {"constexpr", [](const Value &x) { return x.isConstexpr() && !sequenceItems(x); }},
      {"tensor", [](const Value &x) { return x.isTensor(); }},
      {"dtype", [](const Value &x) { return x.isDtype() || x.is<std::shared_ptr<const TypeValue>>(); }},
      {"pointer_type",
       [](const Value &x) {
         using Type = std::shared_ptr<const TypeValue>;
         return x.isDtype() ? x.asDtype().isPtr : x.is<Type>() && x.get<Type>()->isBlockPtr();
       }},
      {"block_type",
       [](const Value &x) {
         using Type = std::shared_ptr<const TypeValue>;
         return x.is<Type>() && x.get<Type>()->isBlock;
       }},
      {"constexpr_type", [](const Value &x) { return x.isRecord() && x.record().cls->name == "constexpr_type"; }},
      {"tuple_type", [](const Value &x) { return x.isRecord() && x.record().cls->name == "tuple_type"; }},
      {"tensor_descriptor",
       [](const Value &x) { return x.isRecord() && x.record().cls->kind == RecordClass::Kind::Descriptor; }},
      {"tensor_descriptor_type",
       [](const Value &x) { return x.isRecord() && x.record().cls->name == "tensor_descriptor_type"; }},
  };
  for (const Row &r : rows)
    if (r.name == cls)
      return r.test(v);
  return false;
}

} // namespace

bool isInstance(const Value &v, const Value &cls) {
  if (const auto *options = sequenceItems(cls)) {
    for (const Value &o : *options)
      if (isInstance(v, o))
        return true;
    return false;
  }
  if (cls.is<const Builtin *>())
    return isInstanceOfNamed(v, cls.get<const Builtin *>()->name);
  if (cls.is<std::shared_ptr<const OpaqueValue>>())
    return isInstanceOfNamed(v, cls.get<std::shared_ptr<const OpaqueValue>>()->name);
  if (cls.is<std::shared_ptr<const RecordClass>>())
    return v.isRecord() && derivesFrom(*v.record().cls, *cls.get<std::shared_ptr<const RecordClass>>());
  return false;
}

std::optional<bool> isInstance(Context &c, const Value &v, const Value &cls, Loc loc) {
  using Opaque = std::shared_ptr<const OpaqueValue>;
  using ModulePtr = std::shared_ptr<const Module>;
  if (const auto *options = sequenceItems(cls)) {
    for (const Value &o : *options)
      if (std::optional<bool> is = isInstance(c, v, o, loc); !is || *is)
        return is;
    return false;
  }
  const bool isObject = v.is<Opaque>() || v.is<ModulePtr>() || v.member();
  if (!cls.is<ModulePtr>()) {
    const bool isHosts = cls.is<Opaque>() && !cls.get<Opaque>()->name.starts_with("python.");
    return isObject && isHosts ? std::nullopt : std::optional(isInstance(v, cls));
  }
  std::optional<Value> wanted = c.objectAttribute(cls, "class of the host", loc);
  if (!wanted || !sequenceItems(*wanted)) // a module, or a class with a rule of its own for isinstance
    return isObject || v.isConstexpr() ? std::nullopt : std::optional(false);
  const std::vector<Value> &known = *sequenceItems(*wanted); // (name, has instances that are plain values here)
  if (!isObject)
    return known[1].asBool() && v.isConstexpr() ? std::nullopt : std::optional(false);
  std::optional<Value> classes = c.objectAttribute(v, "classes of the host", loc);
  if (!classes || !sequenceItems(*classes))
    return std::nullopt;
  for (const Value &k : *sequenceItems(*classes))
    if (equal(k, known[0]))
      return true;
  return false;
}

namespace {

Value pyIsInstance(BuiltinCall &call) {
  Args a(call, "isinstance");
  if (std::optional<bool> is = isInstance(call.ctx, a[0], a[1], call.loc))
    return Value::boolean(*is);
  return a.badArgument(1, "classinfo", "a class of the language or one that kernels can construct");
}

Value pyHasattr(BuiltinCall &call) {
  std::optional<std::string> name = Args(call, "hasattr").text(1, "name");
  if (!name)
    return Value::error();
  // Every tensor has x.T, but reading it is an error unless there are two dimensions.
  if (call.args[0].isTensor() && *name == "T")
    return Value::boolean(true);
  return Value::boolean(call.ctx.objectAttribute(call.args[0], *name, call.loc).has_value());
}

/// An empty *default distinguishes a missing default from None.
Value pyGetattr(BuiltinCall &call) {
  Args a(call, "getattr");
  std::optional<std::string> name = a.text(1, "name");
  if (!name)
    return Value::error();
  if (std::optional<Value> v = call.ctx.objectAttribute(a[0], *name, a.loc()))
    return *v;
  if (!a[2].items().empty())
    return a[2].items()[0];
  return a.fail(diag::noAttributeOfName, a.loc(1), kindName(a[0]), *name);
}

// min and max.

Value extremum(BuiltinCall &call, const char *function, const char *tensorFunction, int wanted) {
  Args a(call, function);
  std::vector<Value> items = a[0].items();
  if (items.size() == 1 && sequenceItems(items[0])) {
    std::vector<Value> inner = *sequenceItems(items[0]);
    items = std::move(inner);
  }
  if (items.empty())
    return a.fail(diag::badArgument, a.loc(), function, "args", "one or more values", "none");
  if (items.size() > 1 &&
      std::any_of(items.begin(), items.end(), [](const Value &v) { return v.isTensor() && !v.asTensor().isScalar(); }))
    call.diag().report(diag::blockExtremum, a.loc(), function, tensorFunction);
  Value best = items[0];
  for (size_t i = 0; i < items.size(); ++i) {
    const Value &v = items[i];
    if (v.isError() || (!v.isTensor() && !v.isNumber()))
      return v.isError() ? v : a.fail(diag::badArgument, a.loc(0), function, "args", "numbers or tensors", kindName(v));
    if (v.isFloat() && (std::isnan(v.asFloat()) || (v.asFloat() == 0 && std::signbit(v.asFloat()))))
      return a.fail(diag::minMaxNan, a.loc(0), function, repr(v));
    if (i == 0)
      continue;
    if (best.isTensor() || v.isTensor()) {
      const Value pair[] = {best, v};
      const Value callee(findBuiltin(tensorFunction));
      best = call.ctx.call(callee, pair, a.loc());
      if (best.isError())
        return best;
    } else if (compareNumbers(v, best) == wanted) {
      best = v;
    }
  }
  return best;
}
Value pyMin(BuiltinCall &call) { return extremum(call, "min", "minimum", -1); }
Value pyMax(BuiltinCall &call) { return extremum(call, "max", "maximum", 1); }

// Iterators.

bool checkBound(Args &a, const Value &v, Loc loc) {
  bool isInt = v.isInt() || v.isBool() || (v.isTensor() && v.asTensor().dtype.isInt());
  if (!isInt)
    a.fail(diag::rangeArgument, loc, kindName(v));
  else if (v.isTensor() && !v.asTensor().isScalar())
    a.fail(diag::rangeScalar, loc, kindName(v));
  else
    return true;
  return false;
}

/// CTAs that share the iterations of a loop; -1: as many as the launch leaves idle.
std::optional<Int> splitOption(const Value &v) {
  if (v.isStr())
    return v.asStr() == "auto" ? std::optional<Int>(-1) : std::nullopt;
  if (!v.isInt() || v.asInt() < 1 || v.asInt() > 16 || (v.asInt() & (v.asInt() - 1)))
    return std::nullopt;
  return v.asInt();
}

/// start, stop, step from one, two or three arguments.
Value makeRange(BuiltinCall &call, const char *function, RangeValue::Kind kind) {
  Args a(call, function);
  bool one = a[1].isNone();
  RangeValue r{kind, {one ? Value::integer(0) : a[0], one ? a[0] : a[1], a[2].isNone() ? Value::integer(1) : a[2]}, {}};
  const size_t from[] = {0, one ? size_t{0} : size_t{1}, 2};
  for (size_t i = 0; i < 3; ++i) {
    if (kind == RangeValue::Kind::StaticRange && !r.args[i].isInt() && !r.args[i].isBool())
      return a.fail(diag::notStatic, a.loc(from[i]), a.loc(from[i]).text(), kindName(r.args[i]));
    if (!checkBound(a, r.args[i], a.loc(from[i])))
      return Value::error();
  }
  if (r.args[2].isNumber() && r.args[2].asInt() == 0)
    return a.fail(diag::zeroStep, a.loc(2));
  static constexpr const char *names[] = {"num_stages", "loop_unroll_factor", "disallow_acc_multi_buffer",
                                          "flatten", "warp_specialize", "disable_licm", "split"};
  if (kind == RangeValue::Kind::Range) {
    for (const Value &option : a[3].items())
      call.diag().report(diag::rangeOption, a.loc(), option.items()[0].asStr());
    return Value(std::make_shared<const RangeValue>(std::move(r)));
  }
  for (size_t i = 3; i < a.size(); ++i) {
    if (a[i].isNone())
      continue;
    if (names[i - 3] == std::string_view("split")) {
      std::optional<Int> parts = splitOption(a[i]);
      if (call.ctx.target().strict)
        return a.badArgument(i, "split", "None: Triton's range does not have it");
      if (!parts)
        return a.badArgument(i, "split", "\"auto\" or 1, 2, 4, 8 or 16");
      r.options.emplace_back("split", Value::integer(*parts));
      continue;
    }
    if (a[i].isTensor())
      return a.badArgument(i, names[i - 3], "an integer");
    if (a[i].isStr() && (names[i - 3] != std::string_view("warp_specialize") || a[i].asStr() != "never"))
      return a.badArgument(i, names[i - 3],
                           names[i - 3] == std::string_view("warp_specialize") ? "a bool or \"never\"" : "an integer");
    r.options.emplace_back(names[i - 3], a[i]);
  }
  return Value(std::make_shared<const RangeValue>(std::move(r)));
}

Value pyRange(BuiltinCall &call) { return makeRange(call, "range", RangeValue::Kind::Range); }
Value tlRange(BuiltinCall &call) { return makeRange(call, "range", RangeValue::Kind::TlRange); }
Value staticRange(BuiltinCall &call) { return makeRange(call, "static_range", RangeValue::Kind::StaticRange); }

Value condition(BuiltinCall &call) {
  RangeValue r{RangeValue::Kind::Condition, {call.args[0]}, {{"disable_licm", call.args[1]}}};
  return Value(std::make_shared<const RangeValue>(std::move(r)));
}

// The module math.

std::optional<double> number(BuiltinCall &call, size_t i, const char *function) {
  if (call.args[i].isNumber())
    return call.args[i].asFloat();
  if (const Value &x = call.args[i]; x.isTensor()) {
    auto d = call.diag().report(diag::notConstexpr, Args(call, function).loc(i), function, "x", kindName(x));
    auto builtins = allBuiltins();
    bool isOfLanguage = std::any_of(builtins.begin(), builtins.end(),
                                    [&](const Builtin *b) { return b->name == std::string_view(function); });
    constexpr std::string_view ofPython[] = {"degrees", "gamma", "isclose", "radians"};
    if (std::find(std::begin(ofPython), std::end(ofPython), function) == std::end(ofPython))
      d.note({}, "`math` is for compile-time numbers; for tensors there is `" +
                     std::string(isOfLanguage ? "tl." : "tl.extra.libdevice.") + function + "`");
    return std::nullopt;
  }
  Args(call, function).badArgument(i, "x", "a number");
  return std::nullopt;
}

/// Results that C calls NaN or infinite for a finite argument are errors in Python.
Value checked(BuiltinCall &call, const char *function, double x, double r) {
  if (std::isfinite(x) && !std::isfinite(r))
    return fail(call.ctx, diag::valueError, call.loc, std::string("math domain error in math.") + function);
  return Value::number(r);
}

using Real = double (*)(double);
template <Real F, const char *const &Name> Value mathReal(BuiltinCall &call) {
  std::optional<double> x = number(call, 0, Name);
  return x ? checked(call, Name, *x, F(*x)) : Value::error();
}
template <Real F, const char *const &Name> Value mathToInt(BuiltinCall &call) {
  if (call.args[0].isInt() || call.args[0].isBool())
    return Value::integer(call.args[0].asInt());
  std::optional<double> x = number(call, 0, Name);
  if (!x)
    return Value::error();
  double r = F(*x);
  if (!(std::abs(r) < 0x1p126))
    return fail(call.ctx, diag::valueError, call.loc, "cannot convert " + floatToString(*x) + " to an integer");
  return Value::integer(static_cast<Int>(r));
}
template <bool (*F)(double), const char *const &Name> Value mathTest(BuiltinCall &call) {
  std::optional<double> x = number(call, 0, Name);
  return x ? Value::boolean(F(*x)) : Value::error();
}
bool isNan(double x) { return std::isnan(x); }
bool isInf(double x) { return std::isinf(x); }
bool isFinite(double x) { return std::isfinite(x); }

Value mathLog(BuiltinCall &call) {
  std::optional<double> x = number(call, 0, "log");
  std::optional<double> base = call.args[1].isNone() ? std::optional<double>(M_E) : number(call, 1, "log");
  if (!x || !base)
    return Value::error();
  return checked(call, "log", *x, call.args[1].isNone() ? std::log(*x) : std::log(*x) / std::log(*base));
}

Value mathPow(BuiltinCall &call) {
  std::optional<double> x = number(call, 0, "pow"), y = number(call, 1, "pow");
  return x && y ? checked(call, "pow", *x, std::pow(*x, *y)) : Value::error();
}

std::optional<double> twice(BuiltinCall &call, const char *function, double (*f)(double, double)) {
  std::optional<double> x = number(call, 0, function), y = number(call, 1, function);
  return x && y ? std::optional(f(*x, *y)) : std::nullopt;
}
Value mathTwo(BuiltinCall &call, const char *function, double (*f)(double, double)) {
  std::optional<double> r = twice(call, function, f);
  return r ? Value::number(*r) : Value::error();
}
Value mathFmod(BuiltinCall &call) { return mathTwo(call, "fmod", std::fmod); }
Value mathHypot(BuiltinCall &call) { return mathTwo(call, "hypot", std::hypot); }
Value mathCopysign(BuiltinCall &call) { return mathTwo(call, "copysign", std::copysign); }
Value mathAtan2(BuiltinCall &call) { return mathTwo(call, "atan2", std::atan2); }

Value mathIsclose(BuiltinCall &call) {
  std::optional<double> x = number(call, 0, "isclose"), y = number(call, 1, "isclose"),
                        relative = number(call, 2, "isclose"), absolute = number(call, 3, "isclose");
  if (!x || !y || !relative || !absolute)
    return Value::error();
  bool near =
      *x == *y || (std::isfinite(*x) && std::isfinite(*y) &&
                   std::fabs(*x - *y) <= std::max(*relative * std::max(std::fabs(*x), std::fabs(*y)), *absolute));
  return Value::boolean(near);
}

/// A product that keeps to the bounds of compile-time integers.
Value product(BuiltinCall &call, Value total, const Value &by) {
  return foldBinary(call.ctx, BinOp::Mul, total, by, call.loc, call.loc, call.loc);
}
Value mathProd(BuiltinCall &call) {
  Args a(call, "prod");
  const auto *items = sequenceItems(a[0]);
  if (!items)
    return a.badArgument(0, "iterable", "a tuple of numbers");
  Value total = a[1];
  for (const Value &v : *items)
    total =
        v.isNumber() && total.isNumber() ? product(call, total, v) : a.badArgument(0, "iterable", "a tuple of numbers");
  return total;
}
/// n * (n - 1) * ... of `k` factors.
Value falling(BuiltinCall &call, int64_t n, int64_t k) {
  Value total = Value::integer(1);
  for (int64_t i = 0; i < k && !total.isError(); ++i)
    total = product(call, total, Value::integer(n - i));
  return total;
}
Value mathFactorial(BuiltinCall &call) {
  Args a(call, "factorial");
  std::optional<int64_t> n = a.integer(0, "x");
  return !n ? Value::error() : *n < 0 ? a.badArgument(0, "x", "a number that is not negative") : falling(call, *n, *n);
}
Value mathComb(BuiltinCall &call) {
  Args a(call, "comb");
  std::optional<int64_t> n = a.integer(0, "n"), k = n ? a.integer(1, "k") : std::nullopt;
  if (!k)
    return Value::error();
  if (*n < 0 || *k < 0)
    return a.badArgument(*n < 0 ? 0 : 1, *n < 0 ? "n" : "k", "a number that is not negative");
  int64_t m = std::min(*k, *n - *k);
  Value total = Value::integer(m < 0 ? 0 : 1);
  // Divides at each step, without remainder, so that no intermediate exceeds the result times m.
  for (int64_t i = 1; i <= m && !total.isError(); ++i) {
    total = product(call, total, Value::integer(*n - m + i));
    total = total.isError() ? total : Value::integer(total.asInt() / i);
  }
  return total;
}
Value mathIsqrt(BuiltinCall &call) {
  Args a(call, "isqrt");
  std::optional<int64_t> n = a.integer(0, "n");
  if (!n || *n < 0)
    return n ? a.badArgument(0, "n", "a number that is not negative") : Value::error();
  auto r = static_cast<int64_t>(std::sqrt(static_cast<double>(*n)));
  while (static_cast<Int>(r) * r > *n)
    --r;
  while (static_cast<Int>(r + 1) * (r + 1) <= *n)
    ++r;
  return Value::integer(r);
}
Value mathLcm(BuiltinCall &call) {
  Args a(call, "lcm");
  std::optional<int64_t> x = a.integer(0, "x"), y = x ? a.integer(1, "y") : std::nullopt;
  if (!y)
    return Value::error();
  Int p = *x < 0 ? -static_cast<Int>(*x) : *x, q = *y < 0 ? -static_cast<Int>(*y) : *y;
  return Value::integer(p == 0 || q == 0 ? 0 : p / std::gcd(static_cast<uint64_t>(p), static_cast<uint64_t>(q)) * q);
}

Value mathGcd(BuiltinCall &call) {
  Args a(call, "gcd");
  std::optional<int64_t> x = a.integer(0, "x"), y = x ? a.integer(1, "y") : std::nullopt;
  if (!y)
    return Value::error();
  // The magnitude of the least int64 has no int64 of its own.
  auto magnitude = [](int64_t v) { return v < 0 ? -static_cast<uint64_t>(v) : static_cast<uint64_t>(v); };
  return Value::integer(static_cast<Int>(std::gcd(magnitude(*x), magnitude(*y))));
}

/// The names of functions as template arguments, for messages.
#define MATH_NAME(name) constexpr const char *name##Name = #name
MATH_NAME(sqrt); MATH_NAME(exp); MATH_NAME(exp2); MATH_NAME(log2); MATH_NAME(log10); MATH_NAME(sin); MATH_NAME(cos);
MATH_NAME(tan); MATH_NAME(tanh); MATH_NAME(erf); MATH_NAME(fabs); MATH_NAME(floor); MATH_NAME(ceil); MATH_NAME(trunc);
MATH_NAME(isnan); MATH_NAME(isinf); MATH_NAME(isfinite); MATH_NAME(cbrt); MATH_NAME(log1p); MATH_NAME(expm1);
MATH_NAME(asin); MATH_NAME(acos); MATH_NAME(atan); MATH_NAME(sinh); MATH_NAME(cosh);
#undef MATH_NAME

constexpr Builtin rows[] = {
    {"python.len", "obj", pyLen, 0, "The number of items of a tuple, shape or string."},
    {"python.list", "iterable=()", pyList, 0, "The tuple itself; lists and tuples are one thing in kernels."},
    {"python.int", "x=0", pyInt, 0, "A compile-time number as integer, truncated toward zero."},
    {"python.float", "x=0", pyFloat, 0, "A compile-time number or string as float."},
    {"python.isinstance", "obj, classinfo", pyIsInstance, 0, "Whether a value is of a class, at compile time."},
    {"python.hasattr", "obj, name", pyHasattr, 0, "Whether a value has an attribute, at compile time."},
    {"python.getattr", "obj, name, *default", pyGetattr, 0, "The attribute of that name."},
    {"python.min", "*args", pyMin, 0, "The least of numbers, or tl.minimum chained over tensors."},
    {"python.max", "*args", pyMax, 0, "The greatest of numbers, or tl.maximum chained over tensors."},
    {"python.range", "arg1, arg2=None, step=None, **options", pyRange, 0, "A loop at run time."},
    {"range",
     "arg1, arg2=None, step=None, num_stages=None, loop_unroll_factor=None, disallow_acc_multi_buffer=None, "
     "flatten=None, "
     "warp_specialize=None, disable_licm=None, split=None",
     tlRange, 0, "A loop at run time with hints for the compiler."},
    {"static_range", "arg1, arg2=None, step=None", staticRange, 0, "A loop unrolled at compile time."},
    {"condition", "arg1, disable_licm=False", condition, 0, "The condition of a `while` with hints for the compiler."},
    {"python.math.sqrt", "x", mathReal<std::sqrt, sqrtName>, 0, "Square root."},
    {"python.math.exp", "x", mathReal<std::exp, expName>, 0, "e to the power of x."},
    {"python.math.exp2", "x", mathReal<std::exp2, exp2Name>, 0, "2 to the power of x."},
    {"python.math.log", "x, base=None", mathLog, 0, "Logarithm, natural or of a base."},
    {"python.math.log2", "x", mathReal<std::log2, log2Name>, 0, "Logarithm of base 2."},
    {"python.math.log10", "x", mathReal<std::log10, log10Name>, 0, "Logarithm of base 10."},
    {"python.math.sin", "x", mathReal<std::sin, sinName>, 0, "Sine."},
    {"python.math.cos", "x", mathReal<std::cos, cosName>, 0, "Cosine."},
    {"python.math.tan", "x", mathReal<std::tan, tanName>, 0, "Tangent."},
    {"python.math.tanh", "x", mathReal<std::tanh, tanhName>, 0, "Hyperbolic tangent."},
    {"python.math.erf", "x", mathReal<std::erf, erfName>, 0, "Error function."},
    {"python.math.fabs", "x", mathReal<std::fabs, fabsName>, 0, "Absolute value as float."},
    {"python.math.pow", "x, y", mathPow, 0, "x to the power of y."},
    {"python.math.floor", "x", mathToInt<std::floor, floorName>, 0, "The greatest integer not above x."},
    {"python.math.ceil", "x", mathToInt<std::ceil, ceilName>, 0, "The least integer not below x."},
    {"python.math.trunc", "x", mathToInt<std::trunc, truncName>, 0, "x without its fraction."},
    {"python.math.isnan", "x", mathTest<isNan, isnanName>, 0, "Whether x is NaN."},
    {"python.math.isinf", "x", mathTest<isInf, isinfName>, 0, "Whether x is infinite."},
    {"python.math.isfinite", "x", mathTest<isFinite, isfiniteName>, 0, "Whether x is neither infinite nor NaN."},
    {"python.math.cbrt", "x", mathReal<std::cbrt, cbrtName>, 0, "Cube root."},
    {"python.math.log1p", "x", mathReal<std::log1p, log1pName>, 0, "log(1 + x)."},
    {"python.math.expm1", "x", mathReal<std::expm1, expm1Name>, 0, "exp(x) - 1."},
    {"python.math.asin", "x", mathReal<std::asin, asinName>, 0, "Inverse sine."},
    {"python.math.acos", "x", mathReal<std::acos, acosName>, 0, "Inverse cosine."},
    {"python.math.atan", "x", mathReal<std::atan, atanName>, 0, "Inverse tangent."},
    {"python.math.atan2", "y, x", mathAtan2, 0, "Angle of a point."},
    {"python.math.sinh", "x", mathReal<std::sinh, sinhName>, 0, "Hyperbolic sine."},
    {"python.math.cosh", "x", mathReal<std::cosh, coshName>, 0, "Hyperbolic cosine."},
    {"python.math.fmod", "x, y", mathFmod, 0, "Remainder with the sign of x."},
    {"python.math.hypot", "x, y", mathHypot, 0, "Length of a vector."},
    {"python.math.copysign", "x, y", mathCopysign, 0, "x with the sign of y."},
    {"python.math.isclose", "a, b, rel_tol=1e-09, abs_tol=0.0", mathIsclose, 0, "Whether two numbers are close."},
    {"python.math.prod", "iterable, start=1", mathProd, 0, "The product of numbers."},
    {"python.math.factorial", "x", mathFactorial, 0, "1 * 2 * ... * x."},
    {"python.math.comb", "n, k", mathComb, 0, "Ways to choose k of n."},
    {"python.math.isqrt", "n", mathIsqrt, 0, "The greatest integer whose square is not above n."},
    {"python.math.lcm", "x, y", mathLcm, 0, "Least common multiple."},
    {"python.math.gcd", "x, y", mathGcd, 0, "Greatest common divisor."},
};

} // namespace

std::span<const Builtin> pythonBuiltins() { return rows; }

} // namespace tegula::lang
