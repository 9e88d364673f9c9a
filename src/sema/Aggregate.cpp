// Aggregates: their construction and operators, and `with` statements, for which they are context managers.
//
// A user's `__init__` is ordinary Python on compile-time objects and run-time values; `self` in it stands for a
// Construction, which becomes an immutable record when it returns.
#include "sema/Evaluator.h"
#include <algorithm>

namespace tegula::sema {

using lang::Aggregate;
using lang::Function;
using lang::RecordClass;
using lang::RecordValue;

namespace {

using ClassPtr = std::shared_ptr<const RecordClass>;
using FunctionPtr = std::shared_ptr<const Function>;

/// The class whose `__init__` makes instances of `cls`: itself, or, if it has no fields of its own, the nearest base
/// that has one. Null: the constructor sets the fields.
ClassPtr initOwner(const ClassPtr &cls) {
  if (lang::ownMember(*cls, "__init__"))
    return cls;
  for (size_t i = 0; i < cls->aggregate->bases.size(); ++i)
    if (ClassPtr base = lang::baseOf(*cls, i);
        base->fields.size() == cls->fields.size() && lang::ownMember(*base, "__init__"))
      return base;
  return nullptr;
}

} // namespace

bool Evaluator::isSelf(const Expr &e) const {
  return frame_->construction && e.kind == ExprKind::Name && e.name == frame_->self;
}

/// The value of `self` in an `__init__`: a record of the fields set so far.
Value Evaluator::selfSoFar() const {
  const Construction &c = *frame_->construction;
  struct Part {
    RecordClass cls;
    ClassPtr whole; // keeps the parts shared with `cls` alive
  };
  auto part = std::make_shared<Part>();
  part->whole = c.cls;
  part->cls.kind = RecordClass::Kind::Aggregate;
  part->cls.name = c.cls->name;
  part->cls.aggregate = c.cls->aggregate;
  std::vector<Value> values;
  for (size_t i = 0; i < c.fields.size(); ++i)
    if (c.fields[i]) {
      part->cls.fields.push_back(c.cls->fields[i]);
      values.push_back(*c.fields[i]);
    }
  const RecordClass *cls = &part->cls;
  return Value(std::make_shared<const RecordValue>(ClassPtr(std::move(part), cls), std::move(values)));
}

bool Evaluator::setField(Construction &c, std::string_view name, const Value &v, Loc loc) {
  auto it = std::find(c.cls->fields.begin(), c.cls->fields.end(), name);
  if (it == c.cls->fields.end()) {
    fail(diag::unknownField, loc, c.cls->name, name);
    return false;
  }
  size_t i = static_cast<size_t>(it - c.cls->fields.begin());
  bool fits = lang::checkField(*this, *c.cls, i, v, loc);
  c.fields[i] = fits ? v : Value::error();
  return fits;
}

Value Evaluator::constructAggregate(const ClassPtr &cls, const CallArgs &args, Loc loc) {
  if (!cls->aggregate->badBase.empty())
    return fail(diag::aggregateBase, loc, cls->name, cls->aggregate->badBase);
  Construction c{cls, std::vector<std::optional<Value>>(cls->fields.size())};
  unsigned before = diag().errorCount();
  if (!runInit(c, cls, args, loc))
    return Value::error();
  std::vector<Value> values;
  for (size_t i = 0; i < c.fields.size(); ++i) {
    bool missing = !c.fields[i];
    if (missing && !cls->defaults[i].isError() && lang::checkField(*this, *cls, i, cls->defaults[i], loc))
      c.fields[i] = lang::defaultOf(*cls, i);
    else if (missing && diag().errorCount() == before)
      fail(diag::uninitialisedField, loc, cls->name, cls->fields[i]);
    if (!c.fields[i] || c.fields[i]->isError())
      return Value::error();
    values.push_back(std::move(*c.fields[i]));
  }
  return Value(std::make_shared<const RecordValue>(cls, std::move(values)));
}

/// Runs the initializer of the part of `c` that has class `at`.
bool Evaluator::runInit(Construction &c, const ClassPtr &at, const CallArgs &args, Loc loc) {
  ClassPtr owner = initOwner(at);
  std::vector<Value> values;
  std::vector<Loc> locs;
  if (!owner) {
    std::vector<ParamInfo> params;
    for (size_t i = 0; i < at->fields.size(); ++i)
      params.push_back({at->fields[i], false, false, false, !at->defaults[i].isError(), lang::defaultOf(*at, i)});
    if (!bindArgs(at->name, params, args, loc, values, locs))
      return false;
    bool ok = true;
    for (size_t i = 0; i < at->fields.size(); ++i)
      ok &= !values[i].isError() && setField(c, at->fields[i], values[i], locs[i]);
    return ok;
  }
  Value init = lang::ownMember(*owner, "__init__")->value;
  if (!init.is<FunctionPtr>())
    return !fail(diag::notCallable, loc, describe(init)).isError();
  const FunctionPtr &fn = init.get<FunctionPtr>();
  if (fn->kind == Function::Kind::Jit)
    return !fail(diag::initIsJit, loc, owner->name).isError();
  std::optional<std::vector<ParamInfo>> params = paramsOf(*fn);
  CallArgs all = args;
  all.args.insert(all.args.begin(), CallArgs::Arg{Value::none(), loc, {}, {}});
  if (!params || !bindArgs(at->name, *params, all, loc, values, locs) ||
      std::any_of(values.begin(), values.end(), [](const Value &v) { return v.isError(); }) || !enterCall(*fn, loc))
    return false;
  CallNote note(*this, *fn, loc);
  Frame frame = makeFrame(fn);
  frame.python = frame.handlesTensors = true;
  frame.construction = &c;
  frame.self = fn->def->params.empty() ? std::string_view() : fn->def->params[0].name;
  frame.initOf = owner;
  bindParams(frame, values, locs);
  Value r = runBody(frame);
  builder().setLoc(loc);
  --depth_;
  return !r.isError();
}

/// `super().__init__(...)` and `Base.__init__(self, ...)` in an `__init__`; nullopt if the call is neither.
std::optional<Value> Evaluator::initOfBase(const Expr &call) {
  const Expr &callee = *call.operands[0];
  if (callee.kind != ExprKind::Attribute || callee.name != "__init__")
    return std::nullopt;
  const Expr &object = *callee.operands[0];
  bool isSuper = object.kind == ExprKind::Call && object.operands[0]->kind == ExprKind::Name &&
                 object.operands[0]->name == "super";
  Construction &c = *frame_->construction;
  ClassPtr base;
  if (isSuper) {
    const auto &bases = c.cls->aggregate->bases;
    auto next = lang::isSameClass(*frame_->initOf, *c.cls)
                    ? bases.begin()
                    : std::find_if(bases.begin(), bases.end(), [&](const ClassPtr &b) {
                        return lang::isSameClass(*b, *frame_->initOf);
                      }) + 1;
    if (next >= bases.end())
      return Value::none(); // of `object`
    base = lang::baseOf(*c.cls, static_cast<size_t>(next - bases.begin()));
  } else {
    bool passesSelf = call.operands.size() > 1 && isSelf(*call.operands[1]);
    Value v = passesSelf ? eval(object) : Value::none();
    if (!v.is<ClassPtr>() || !v.get<ClassPtr>()->aggregate)
      return std::nullopt;
    base = v.get<ClassPtr>();
  }
  CallArgs args = evalArgs(call);
  if (!isSuper)
    args.args.erase(args.args.begin());
  return !args.failed && runInit(c, base, args, call.loc) ? Value::none() : Value::error();
}

/// `object.name(*args)`; nullopt if the class of the aggregate has no such member.
std::optional<Value> Evaluator::callMember(const Value &object, std::string_view name, std::span<const Value> args,
                                           Loc loc) {
  std::optional<Value> method =
      lang::findMember(*object.record().cls, name) ? objectAttribute(object, name, loc) : std::nullopt;
  return method ? std::optional(call(*method, args, loc)) : std::nullopt;
}

namespace {

bool isNotImplemented(const Value &v) {
  using Opaque = std::shared_ptr<const lang::OpaqueValue>;
  return v.is<Opaque>() && v.get<Opaque>()->name == "NotImplemented";
}

std::string typeText(const Value &v) { return v.isTensor() ? lang::typeName(v.asTensor()) : lang::kindName(v); }

} // namespace

/// An operator with an aggregate among its operands (nullopt: there is none). Only aggregates are tried: the left one
/// first, unless the right one's class derives from the left one's.
std::optional<Value> Evaluator::aggregateOperator(const char *spelling, const char *forward, const char *reflected,
                                                  const Value &a, const Value &b, Loc loc) {
  bool left = lang::isAggregate(a), right = lang::isAggregate(b);
  if (a.isError() || b.isError() || (!left && !right))
    return std::nullopt;
  const Value *order[] = {&a, &b};
  bool rightIsDerived = left && right && !lang::isSameClass(*a.record().cls, *b.record().cls) &&
                        lang::derivesFrom(*b.record().cls, *a.record().cls);
  if (rightIsDerived)
    std::swap(order[0], order[1]);
  builder().setLoc(loc);
  for (const Value *self : order) {
    const Value &other = self == &a ? b : a;
    std::optional<Value> r;
    if (lang::isAggregate(*self))
      r = callMember(*self, self == &a ? forward : reflected, std::span(&other, 1), loc);
    if (r && !isNotImplemented(*r))
      return r;
  }
  return fail(diag::aggregateOperands, loc, spelling, typeText(a), typeText(b));
}

namespace {

/// In the order of syntax::BinaryOp, like the table of toLang().
constexpr struct {
  const char *forward, *reflected;
} binaryMethods[] = {
    {"__add__", "__radd__"},       {"__sub__", "__rsub__"},         {"__mul__", "__rmul__"},
    {"__matmul__", "__rmatmul__"}, {"__truediv__", "__rtruediv__"}, {"__floordiv__", "__rfloordiv__"},
    {"__mod__", "__rmod__"},       {"__pow__", "__rpow__"},         {"__lshift__", "__rlshift__"},
    {"__rshift__", "__rrshift__"}, {"__and__", "__rand__"},         {"__or__", "__ror__"},
    {"__xor__", "__rxor__"},
};

} // namespace

Value Evaluator::binaryOf(syntax::BinaryOp op, const Value &a, const Value &b, Loc loc, Loc aLoc, Loc bLoc) {
  const auto &methods = binaryMethods[static_cast<unsigned>(op)];
  if (std::optional<Value> r =
          aggregateOperator(lang::spelling(toLang(op)), methods.forward, methods.reflected, a, b, loc))
    return *r;
  return lang::binary(*this, toLang(op), a, b, loc, aLoc, bLoc);
}

Value Evaluator::aggregateUnary(const char *method, const Value &v, Loc loc) {
  std::optional<Value> r = callMember(v, method, {}, loc);
  return r && !isNotImplemented(*r) ? *r : fail(diag::unaryNotImplemented, loc, method, typeText(v));
}

/// `and`, `or` of run-time values: an aggregate on the left has methods for them.
Value Evaluator::aggregateLogic(bool isAnd, const Value &a, const Value &b, Loc loc) {
  if (!lang::isAggregate(a) && !lang::isAggregate(b))
    return lang::logicalAndOr(*this, isAnd, a, b, loc);
  std::optional<Value> r;
  if (lang::isAggregate(a))
    r = callMember(a, isAnd ? "logical_and" : "logical_or", std::span(&b, 1), loc);
  return r ? *r : fail(diag::aggregateOperands, loc, isAnd ? "and" : "or", typeText(a), typeText(b));
}

/// Managers are made and entered in order, and left in reverse order. Branches have no jumps out of them, so the code
/// that leaves the managers occurs once, after the body.
Flow Evaluator::execWith(const Stmt &s) {
  struct Item {
    Value manager;
    Loc loc;
  };
  std::vector<Item> items;
  bool ok = true;
  for (const syntax::WithItem &w : s.items) {
    Value v = w.context->kind == ExprKind::Call ? eval(*w.context) : fail(diag::withForm, w.context->loc);
    bool isManager = lang::isAggregate(v) && lang::findMember(*v.record().cls, "__enter__") &&
                     lang::findMember(*v.record().cls, "__exit__");
    if (!isManager && !v.isError())
      fail(diag::notAContextManager, w.context->loc, describe(v));
    ok &= isManager;
    items.push_back({v, w.context->loc});
  }
  if (exitsOf(s.body).returns) {
    fail(diag::returnInWith, s.headLoc ? s.headLoc : s.loc);
    ok = false;
  }
  if (!ok) {
    Stmt *self = const_cast<Stmt *>(&s);
    bindErrors(assignedNames(Stmts(&self, 1)), s.headLoc ? s.headLoc : s.loc);
    return {};
  }
  for (size_t i = 0; i < items.size(); ++i) {
    Value entered = callMember(items[i].manager, "__enter__", {}, items[i].loc).value_or(Value::error());
    if (s.items[i].target)
      assign(*s.items[i].target, entered);
  }
  Flow f = execBlock(s.body);
  const std::vector<Value> nothing(3, Value::none());
  for (size_t i = items.size(); i-- > 0;)
    callMember(items[i].manager, "__exit__", nothing, items[i].loc);
  return f;
}

} // namespace tegula::sema
