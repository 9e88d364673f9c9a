// Expressions: literals, operators, short circuits, ternaries, attributes.
#include "lang/Containers.h"
#include "sema/Evaluator.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace tegula::sema {

using lang::Int;

namespace {

struct NotSupported {
  ExprKind kind;
  const char *what;
  const char *hint;
};
/// Expressions that Python has and kernels lack, in the user's terms.
constexpr NotSupported notSupported[] = {
    {ExprKind::Lambda, "Lambda", "move it into a function of its own with @triton.jit"},
    {ExprKind::Dict, "Dict", "use a tuple, a namedtuple or separate names"},
    {ExprKind::Set, "Set", "use a tuple"},
    {ExprKind::SetComp, "SetComp", "use a list comprehension over a tuple"},
    {ExprKind::DictComp, "DictComp", "use a list comprehension over a tuple"},
    {ExprKind::GeneratorExp, "GeneratorExp", "use a list comprehension over a tuple"},
    {ExprKind::Await, "Await", "a kernel has no coroutines"},
    {ExprKind::Yield, "Yield", "a kernel has no generators"},
    {ExprKind::YieldFrom, "YieldFrom", "a kernel has no generators"},
    {ExprKind::Imaginary, "complex literal", "a kernel has no complex numbers"},
    {ExprKind::Bytes, "bytes literal", "use a str"},
};

} // namespace

bool reportUnsupported(const Expr &e, DiagEngine &diag) {
  for (const NotSupported &n : notSupported)
    if (n.kind == e.kind) {
      diag.report(diag::unsupportedExpr, e.loc, n.what, n.hint);
      return true;
    }
  return false;
}

Value Evaluator::unsupported(const Expr &e) {
  if (e.kind == ExprKind::Starred)
    return fail(diag::starredTarget, e.loc);
  reportUnsupported(e, diag());
  return Value::error();
}

Value Evaluator::eval(const Expr &e) {
  if (!step(e.loc))
    return Value::error();
  // Children set their own location; operations of this node belong to it.
  builder().setLoc(e.loc);
  if (!options_.annotate || frame_->python)
    return checkedKind(e);
  size_t node = beginNode(e);
  Value v = checkedKind(e);
  endNode(node, v);
  return v;
}

namespace {

/// Expressions that construct their value; the others return an existing one, or charge for it themselves.
bool makesValue(const Expr &e) {
  switch (e.kind) {
  case ExprKind::Binary:
  case ExprKind::Tuple:
  case ExprKind::List:
  case ExprKind::ListComp:
  case ExprKind::GeneratorExp:
  case ExprKind::FString: return true;
  case ExprKind::Subscript: return e.operands[1]->kind == ExprKind::Slice;
  default: return false;
  }
}

/// The weight of values that are copied, compared or printed in the time of one step.
constexpr uint64_t weightPerStep = 4;

} // namespace

bool Evaluator::charge(uint64_t weight, Loc loc) {
  steps_ += weight / weightPerStep;
  return weight < weightPerStep || step(loc);
}

Value Evaluator::bounded(Value v, Loc loc) {
  lang::Summary s = v.summary();
  if (s.isBounded())
    return v;
  return s.depth > s.maxDepth ? fail(diag::valueTooDeep, loc, s.maxDepth) : fail(diag::valueTooLarge, loc, s.maxWeight);
}

Value Evaluator::checkedKind(const Expr &e) {
  Value v = bounded(evalKind(e), e.loc);
  if (!makesValue(e))
    return v;
  const auto *items = lang::sequenceItems(v);
  uint64_t made = items ? items->size() : v.summary().weight;
  return charge(made, e.loc) ? v : Value::error();
}

Value Evaluator::evalKind(const Expr &e) {
  switch (e.kind) {
  case ExprKind::Name: return readName(e);
  case ExprKind::Int:
  case ExprKind::Float: return number(e);
  case ExprKind::Str: return Value::str(e.text);
  case ExprKind::FString: return fstring(e);
  case ExprKind::True: return Value::boolean(true);
  case ExprKind::False: return Value::boolean(false);
  case ExprKind::None: return Value::none();
  case ExprKind::Ellipsis: return Value(lang::EllipsisValue{});
  case ExprKind::Tuple:
  case ExprKind::List: return sequence(e);
  case ExprKind::ListComp: return comprehension(e);
  case ExprKind::GeneratorExp:
  case ExprKind::SetComp:
  case ExprKind::DictComp: return frame_->python ? comprehension(e) : unsupported(e);
  case ExprKind::Yield:
  case ExprKind::YieldFrom: return frame_->yielded ? yield(e) : unsupported(e);
  case ExprKind::Dict: return frame_->python ? dict(e) : unsupported(e);
  case ExprKind::Lambda: return frame_->python && frame_->fn ? closure("<lambda>", nullptr, &e, e.loc) : unsupported(e);
  case ExprKind::Set: {
    std::optional<std::vector<Value>> items = frame_->python ? itemsOf(e) : std::nullopt;
    return items ? lang::makeSet(*items) : frame_->python ? Value::error() : unsupported(e);
  }
  case ExprKind::Unary: return unary(e);
  case ExprKind::Binary: return binary(e);
  case ExprKind::BoolOp: return boolOp(e);
  case ExprKind::Compare: return compare(e);
  case ExprKind::Call: return callExpr(e);
  case ExprKind::Attribute: return attribute(e);
  case ExprKind::Subscript: return subscript(e);
  case ExprKind::Slice: return slice(e);
  case ExprKind::IfExp: return ternary(e);
  case ExprKind::NamedExpr: {
    Value v = eval(*e.operands[0]);
    assignName(e.name, v, e.nameLoc ? e.nameLoc : e.loc);
    const Var *var = env().find(e.name);
    return var ? var->value : Value::error();
  }
  default: return unsupported(e);
  }
}

Value Evaluator::number(const Expr &e) {
  const std::string &t = e.text;
  if (e.kind == ExprKind::Float)
    return Value::number(std::strtod(t.c_str(), nullptr));
  unsigned base = 10;
  size_t i = 0;
  if (t.size() > 2 && t[0] == '0') {
    char p = static_cast<char>(t[1] | 0x20);
    base = p == 'x' ? 16 : p == 'o' ? 8 : p == 'b' ? 2 : 10;
    i = base == 10 ? 0 : 2;
  }
  constexpr Int most = static_cast<Int>(~static_cast<unsigned __int128>(0) >> 1);
  Int v = 0;
  for (; i < t.size(); ++i) {
    char c = static_cast<char>(t[i] | 0x20);
    unsigned digit = c >= 'a' ? static_cast<unsigned>(c - 'a' + 10) : static_cast<unsigned>(t[i] - '0');
    if (v > (most - digit) / base)
      return fail(diag::literalTooLarge, e.loc);
    v = v * base + digit;
  }
  return Value::integer(v);
}

Value Evaluator::unary(const Expr &e) {
  Value v = eval(*e.operands[0]);
  if (v.isError())
    return v;
  Loc loc = e.opLoc && e.unaryOp != syntax::UnaryOp::Not ? Loc::cover(e.opLoc, e.loc) : e.loc;
  if (lang::isAggregate(v)) {
    static constexpr const char *methods[] = {"__neg__", "__pos__", "__invert__", "__not__"};
    static_assert(static_cast<int>(syntax::UnaryOp::Neg) == 0 && static_cast<int>(syntax::UnaryOp::Pos) == 1 &&
                  static_cast<int>(syntax::UnaryOp::Invert) == 2 && static_cast<int>(syntax::UnaryOp::Not) == 3);
    return aggregateUnary(methods[static_cast<unsigned>(e.unaryOp)], v, loc);
  }
  switch (e.unaryOp) {
  case syntax::UnaryOp::Neg: return lang::negate(*this, v, loc);
  case syntax::UnaryOp::Pos: return lang::plus(*this, v, loc);
  case syntax::UnaryOp::Invert: return lang::invert(*this, v, loc);
  case syntax::UnaryOp::Not: return lang::logicalNot(*this, v, loc);
  }
  return Value::error();
}

namespace {

constexpr lang::BinOp binOps[] = {
    lang::BinOp::Add, lang::BinOp::Sub,    lang::BinOp::Mul,    lang::BinOp::MatMul, lang::BinOp::Div,
    lang::BinOp::FloorDiv, lang::BinOp::Mod, lang::BinOp::Pow,  lang::BinOp::LShift, lang::BinOp::RShift,
    lang::BinOp::And, lang::BinOp::Or,     lang::BinOp::Xor,
};

} // namespace

lang::BinOp toLang(syntax::BinaryOp op) { return binOps[static_cast<unsigned>(op)]; }

Value Evaluator::binary(const Expr &e) {
  Value a = eval(*e.operands[0]);
  Value b = eval(*e.operands[1]);
  return binaryOf(e.binaryOp, a, b, e.loc, e.operands[0]->loc, e.operands[1]->loc);
}

namespace {

struct Comparison {
  syntax::CmpOp op;
  lang::Cmp cmp;
  const char *forward, *reflected;
};
constexpr Comparison comparisons[] = {
    {syntax::CmpOp::Eq, lang::Cmp::Eq, "__eq__", "__eq__"},  {syntax::CmpOp::NotEq, lang::Cmp::Ne, "__ne__", "__ne__"},
    {syntax::CmpOp::Lt, lang::Cmp::Lt, "__lt__", "__gt__"},  {syntax::CmpOp::LtE, lang::Cmp::Le, "__le__", "__ge__"},
    {syntax::CmpOp::Gt, lang::Cmp::Gt, "__gt__", "__lt__"},  {syntax::CmpOp::GtE, lang::Cmp::Ge, "__ge__", "__le__"},
};

} // namespace

Value Evaluator::compareOne(syntax::CmpOp op, const Value &a, const Value &b, const Expr &e, const Expr &ea,
                            const Expr &eb) {
  using syntax::CmpOp;
  if (a.isError() || b.isError() || !charge(std::min(a.summary().weight, b.summary().weight), e.loc))
    return Value::error();
  if (op == CmpOp::Is || op == CmpOp::IsNot) {
    bool same = a.isTensor() || b.isTensor() ? a.isTensor() && b.isTensor() && a.asTensor().value == b.asTensor().value
                                             : lang::key(a) == lang::key(b);
    return Value::boolean(same == (op == CmpOp::Is));
  }
  if (op == CmpOp::In || op == CmpOp::NotIn) {
    const char *spelled = op == CmpOp::In ? "in" : "not in";
    if (!frame_->python && target().strict)
      return fail(diag::unsupportedExpr, e.loc, op == CmpOp::In ? "In" : "NotIn", "compare with each element");
    if (!frame_->python && (!a.isConstexpr() || !b.isConstexpr()))
      return fail(diag::runtimeMembership, e.loc, spelled, describe(a.isConstexpr() ? b : a));
    if (!frame_->python)
      extension(diag::membership, e.loc, spelled);
    if (a.isStr() && b.isStr())
      return Value::boolean((b.asStr().find(a.asStr()) != std::string::npos) == (op == CmpOp::In));
    std::optional<std::vector<Value>> items = iterate(b, eb.loc);
    if (!items)
      return Value::error();
    bool found = false;
    for (const Value &i : *items)
      found |= lang::equal(a, i);
    return Value::boolean(found == (op == CmpOp::In));
  }
  const Comparison *c =
      std::find_if(std::begin(comparisons), std::end(comparisons), [&](const Comparison &x) { return x.op == op; });
  if (std::optional<Value> r = aggregateOperator(lang::spelling(c->cmp), c->forward, c->reflected, a, b, e.loc))
    return *r;
  return lang::compare(*this, c->cmp, a, b, e.loc, ea.loc, eb.loc);
}

/// a < b < c is a < b and b < c, with b evaluated once: a false compile-time link ends it, as in `and`; other links are
/// combined.
Value Evaluator::compare(const Expr &e) {
  Value a = eval(*e.operands[0]), last;
  std::vector<Value> runtime;
  for (size_t i = 0; i < e.cmpOps.size(); ++i) {
    Value b = eval(*e.operands[i + 1]);
    last = compareOne(e.cmpOps[i], a, b, e, *e.operands[i], *e.operands[i + 1]);
    bool dynamic = last.isTensor() || lang::isAggregate(last);
    if (last.isError() || (!dynamic && !lang::constexprTruth(last)))
      return last;
    if (dynamic)
      runtime.push_back(last);
    a = b;
  }
  if (runtime.empty())
    return last;
  Value result = runtime.back();
  for (size_t i = runtime.size() - 1; i-- > 0;)
    result = aggregateLogic(true, runtime[i], result, e.loc);
  return result;
}

/// Compile-time operands short-circuit as in Python and are dropped if they do not decide the result; run-time operands
/// are all evaluated and combined.
Value Evaluator::boolOp(const Expr &e) {
  std::vector<std::pair<Value, Loc>> runtime;
  Value last;
  for (const Expr *o : e.operands) {
    last = eval(*o);
    if (last.isError())
      return last;
    if (last.isTensor() || lang::isAggregate(last)) {
      if (last.isTensor() && !last.asTensor().isScalar())
        diag().report(diag::blockLogic, o->loc, e.isAnd ? "and" : "or", describe(last), e.isAnd ? "&" : "|");
      runtime.push_back({last, o->loc});
    } else if (lang::constexprTruth(last) != e.isAnd) {
      return last;
    }
  }
  if (runtime.empty())
    return last;
  Value result = runtime[0].first;
  for (size_t i = 1; i < runtime.size(); ++i)
    result = aggregateLogic(e.isAnd, result, runtime[i].first, e.loc);
  return result;
}

/// The value of a compile-time condition; nullopt if the value is not allowed as one (reported).
std::optional<bool> Evaluator::staticCondition(const Value &v, Loc loc) {
  if (frame_->python || v.isBool() || v.isInt() || v.isNone())
    return lang::constexprTruth(v);
  fail(diag::conditionType, loc, describe(v));
  return std::nullopt;
}

Value Evaluator::ternary(const Expr &e) {
  Value c = eval(*e.operands[0]);
  if (c.isError())
    return c;
  if (!c.isTensor()) {
    std::optional<bool> b = staticCondition(c, e.operands[0]->loc);
    return b ? eval(*e.operands[*b ? 1 : 2]) : Value::error();
  }
  Value condition = lang::truth(*this, c, e.operands[0]->loc);
  if (condition.isError())
    return condition;
  auto side = [&](const Expr &x) {
    return runArm(x.loc, [&](Arm &arm) {
      Value v = eval(x);
      arm.value = v.isNumber() ? lang::toTensor(*this, v, x.loc) : v;
    });
  };
  Arm t = side(*e.operands[1]), f = side(*e.operands[2]);
  if (t.value->isError() || f.value->isError())
    return Value::error();
  bool isVoid = t.value->isNone() && f.value->isNone();
  if (!isVoid && (!t.value->isTensor() || !f.value->isTensor() || !sameType(*t.value, *f.value))) {
    diag().report(diag::ternaryTypes, e.loc, describe(*t.value), describe(*f.value))
        .label(e.operands[1]->loc, "this is " + describe(*t.value))
        .label(e.operands[2]->loc, "this is " + describe(*f.value));
    return Value::error();
  }
  Value result = Value::none();
  joinArms(condition.asTensor().value, t, f, e.loc, isVoid ? nullptr : &result);
  return result;
}

std::optional<std::vector<Value>> Evaluator::spread(const Expr &starred) {
  Value v = eval(*starred.operands[0]);
  if (frame_->python)
    return iterate(v, starred.loc);
  if (const auto *s = lang::sequenceItems(v))
    return *s;
  if (!v.isError())
    fail(diag::cannotSplat, starred.loc, describe(v));
  return std::nullopt;
}

/// The items of a display: (a, *b), {a, b}.
std::optional<std::vector<Value>> Evaluator::itemsOf(const Expr &e) {
  std::vector<Value> items;
  for (const Expr *o : e.operands) {
    if (o->kind != ExprKind::Starred) {
      items.push_back(eval(*o));
      continue;
    }
    std::optional<std::vector<Value>> more = spread(*o);
    if (!more)
      return std::nullopt;
    items.insert(items.end(), more->begin(), more->end());
  }
  return items;
}

Value Evaluator::sequence(const Expr &e) {
  std::optional<std::vector<Value>> items = itemsOf(e);
  return items ? Value::tuple(std::move(*items)) : Value::error();
}

/// {a: b, **c}
Value Evaluator::dict(const Expr &e) {
  std::vector<Value> keys, values;
  for (size_t i = 0; i + 1 < e.operands.size(); i += 2) {
    Value v = eval(*e.operands[i + 1]);
    if (!e.operands[i]) {
      if (!lang::isDict(v))
        return v.isError() ? v : fail(diag::cannotSplat, e.operands[i + 1]->loc, describe(v));
      keys.insert(keys.end(), lang::keysOf(v).begin(), lang::keysOf(v).end());
      values.insert(values.end(), lang::valuesOf(v).begin(), lang::valuesOf(v).end());
      continue;
    }
    keys.push_back(eval(*e.operands[i]));
    values.push_back(v);
    if (keys.back().isError())
      return Value::error();
  }
  // Each key is compared with those before it.
  return charge(keys.size() * keys.size(), e.loc) ? lang::makeDict(keys, values) : Value::error();
}

std::optional<Value> Evaluator::objectAttribute(const Value &object, std::string_view name, Loc loc) {
  if (object.is<std::shared_ptr<const lang::Module>>())
    return object.get<std::shared_ptr<const lang::Module>>()->attribute(name);
  return lang::attribute(*this, object, name, loc);
}

Value Evaluator::attribute(const Expr &e) {
  const Expr &target = *e.operands[0];
  Value object = eval(target);
  if (object.isError())
    return object;
  Loc loc = e.nameLoc ? e.nameLoc : e.loc;
  using Object = std::shared_ptr<const lang::OpaqueValue>;
  if (e.name == "value" && !frame_->python && object.is<Object>() && !object.get<Object>()->bare) {
    auto held = std::make_shared<lang::OpaqueValue>(*object.get<Object>());
    held->bare = true;
    return Value(Object(std::move(held)));
  }
  if (e.name == "value" && !frame_->python && object.member() && !object.member()->bare) {
    auto held = std::make_shared<lang::OpaqueValue>(*object.member());
    held->bare = true;
    return object.asMember(std::move(held));
  }
  if (std::optional<Value> v = objectAttribute(object, e.name, e.loc))
    return *v;
  bool isModule = object.is<std::shared_ptr<const lang::Module>>();
  // Python code has no wrapper, and the attributes of a host object are not known.
  bool isHosts = isModule || object.is<Object>();
  if (std::optional<Value> v = isHosts ? std::nullopt : lang::wrapperAttribute(object, e.name))
    return *v;
  if (frame_->moduleLevel)
    return Value::error();
  if (isModule) {
    const lang::Module &m = *object.get<std::shared_ptr<const lang::Module>>();
    bool isLanguages = m.name.starts_with("triton") || m.name == "math" || m.tree;
    auto d = diag().report(isLanguages ? diag::noModuleAttribute : diag::noUsableAttribute, loc, m.name, e.name);
    std::string own(e.name);
    if (std::string_view here = m.tree ? "" : kernelSpelling(own); !here.empty()) {
      d.note({}, "use " + std::string(here));
      return Value::error();
    }
    if (!isLanguages) {
      if (lang::findBuiltin(own) || sema::libraryFunction(own))
        d.note({}, "did you mean `tl." + own + "`?");
      return Value::error();
    }
    if (own == "extern_elementwise") {
      d.note({}, "no libraries of bitcode are linked; the functions of libdevice are `tl.extra.libdevice.NAME`");
      return Value::error();
    }
    // The module that had it in older versions of the language.
    bool isOlder = m.name == "triton.language" || m.name == "triton.language.math";
    std::string now = !isOlder                                                           ? ""
                      : own == "libdevice"                                               ? own
                      : builtinModule("triton.language.extra.libdevice")->attribute(own) ? "libdevice." + own
                                                                                         : "";
    if (!now.empty()) {
      d.note({}, "did you mean `tl.extra." + now + "`?");
      return Value::error();
    }
    std::vector<std::string> names;
    for (const lang::Builtin *b : lang::allBuiltins())
      names.emplace_back(b->name);
    for (std::string &n : libraryNames())
      names.push_back(std::move(n));
    std::string near = nearestName(e.name, names);
    if (!near.empty() && !m.tree)
      d.note({}, "did you mean `" + near + "`?");
    return Value::error();
  }
  auto d = diag().report(diag::noAttribute, loc, lang::kindName(object), e.name);
  if (object.isNumber() && (e.name == "to" || e.name == "dtype"))
    d.note(target.loc,
           "`" + std::string(target.loc.text()) + "` is the compile-time value " + lang::repr(object) +
               " (an integer argument equal to 1 is one as well); tl.cast, tl.to_tensor and the operators take both");
  constexpr std::string_view changes[] = {"append", "extend", "insert", "pop", "remove", "reverse", "sort", "clear"};
  if (object.isTuple() && std::find(std::begin(changes), std::end(changes), e.name) != std::end(changes))
    d.note(target.loc, "lists are tuples in kernels, which do not change: in a tl.static_range, make a new one by `+`");
  constexpr std::string_view ofTensors[] = {"data_ptr", "device", "is_contiguous", "ndim",
                                            "numel", "size", "stride", "strides"};
  if (object.isTensor() && object.asTensor().dtype.isPtr &&
      std::find(std::begin(ofTensors), std::end(ofTensors), e.name) != std::end(ofTensors))
    d.note(target.loc, "it is a pointer; pass the extents and strides of a tensor as arguments");
  if (object.is<std::shared_ptr<const lang::OpaqueValue>>())
    d.note(target.loc,
           "kernels can compare such an object and read those of its attributes that are numbers, strings or types");
  return Value::error();
}

} // namespace tegula::sema
