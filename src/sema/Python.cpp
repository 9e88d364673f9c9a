// Functions that run at compile time (constexpr_function): Python's own statements on compile-time values.
#include "lang/Containers.h"
#include "sema/Evaluator.h"

namespace tegula::sema {

using lang::Function;
using lang::Int;
using lang::RangeValue;

Value Evaluator::callPython(const std::shared_ptr<const Function> &fn, std::span<const Value> values, Loc loc) {
  const Value *runtime = nullptr;
  for (const Value &v : values) {
    if (v.isError())
      return v;
    // An aggregate may be passed: its fields are read, not their run-time values.
    if (!v.isConstexpr() && !lang::isAggregate(v) && fn->kind != Function::Kind::Builtin)
      runtime = &v;
  }
  if (!enterCall(*fn, loc))
    return Value::error();
  const ir::Block *block = builder().block();
  size_t operations = block ? block->ops.size() : 0;
  Value r;
  {
    CallNote note(*this, *fn, loc);
    Frame frame = makeFrame(fn);
    bindParams(frame, values, {});
    r = runBody(frame);
    if (frame.names)
      frame.names->end();
  }
  --depth_;
  // Types and shapes of a tensor can be read; computing with it is an error.
  if (runtime && block && block->ops.size() != operations && !r.isError())
    return fail(diag::constexprFunctionArg, loc, fn->name, describe(*runtime));
  return r;
}

std::optional<bool> Evaluator::pythonTruth(const Expr &e) {
  Value c = eval(e);
  if (c.isTensor())
    fail(diag::pythonCondition, e.loc, describe(c));
  return c.isError() || c.isTensor() ? std::nullopt : std::optional(lang::constexprTruth(c));
}

Flow Evaluator::execPython(const Stmt &s) {
  switch (s.kind) {
  case StmtKind::Expr:
    eval(*s.value);
    return {};
  case StmtKind::Assign: {
    Value v = eval(*s.value);
    for (const Expr *t : s.targets)
      assign(*t, v);
    return {};
  }
  case StmtKind::AugAssign: execAugAssign(s); return {};
  case StmtKind::AnnAssign:
    if (s.value)
      assign(*s.targets[0], eval(*s.value));
    return {};
  case StmtKind::Pass: return {};
  case StmtKind::FunctionDef: {
    for (const Expr *d : s.decorators)
      if (std::string_view name = lastName(d);
          name != "jit" && name != "constexpr_function" && name != "must_use_result") {
        fail(diag::closureDecorator, d->loc, s.name);
        env().set(s.name, {Value::error(), s.loc});
        return {};
      }
    env().set(s.name, {closure(std::string(s.name), &s, nullptr, s.nameLoc ? s.nameLoc : s.loc), s.loc});
    return {};
  }
  case StmtKind::Delete: {
    for (const Expr *t : s.targets)
      if (t->kind != ExprKind::Subscript || !assignItem(*t, nullptr))
        return execUnsupported(s);
    return {};
  }
  case StmtKind::Break: return Flow::breaks(s.loc);
  case StmtKind::Continue: return Flow::continues(s.loc);
  case StmtKind::Return: return Flow::returns(s.value ? eval(*s.value) : Value::none(), s.loc);
  case StmtKind::If: {
    std::optional<bool> c = pythonTruth(*s.value);
    return c ? execBlock(*c ? s.body : s.orelse) : Flow::returns(Value::error(), s.loc);
  }
  case StmtKind::For: return pythonFor(s);
  case StmtKind::While: return pythonWhile(s);
  case StmtKind::Match: return pythonMatch(s);
  case StmtKind::Try: return s.isTryStar ? execUnsupported(s) : pythonTry(s);
  case StmtKind::Assert: {
    std::optional<bool> c = pythonTruth(*s.value);
    if (c && !*c) {
      Value message = s.extra ? eval(*s.extra) : Value::none();
      fail(diag::assertFailed, s.loc, message.isNone() ? "" : ": " + lang::str(message));
      return Flow::returns(Value::error(), s.loc);
    }
    return {};
  }
  case StmtKind::Raise:
    fail(diag::raised, s.loc, s.value ? s.value->loc.text() : "");
    return Flow::returns(Value::error(), s.loc);
  default: return execUnsupported(s);
  }
}

std::optional<std::vector<Value>> Evaluator::enumMembers(const Value &cls) {
  if (!cls.is<std::shared_ptr<const lang::Module>>())
    return std::nullopt;
  const lang::Module &m = *cls.get<std::shared_ptr<const lang::Module>>();
  std::optional<Value> names = m.attribute("_member_names_");
  const std::vector<Value> *listed = names ? lang::sequenceItems(*names) : nullptr;
  if (!listed)
    return std::nullopt;
  std::vector<Value> out;
  for (const Value &name : *listed) {
    std::optional<Value> member = m.attribute(name.isStr() ? name.asStr() : "");
    if (!member)
      return std::nullopt;
    out.push_back(*std::move(member));
  }
  return out;
}

std::optional<Value> Evaluator::enumMember(const Value &cls, const CallArgs &args, Loc loc) {
  std::optional<std::vector<Value>> members = enumMembers(cls);
  if (!members || args.args.size() != 1 || !args.args[0].keyword.empty())
    return std::nullopt;
  const Value &wanted = args.args[0].value;
  for (Value &m : *members)
    if (lang::equal(m, wanted) || lang::equal(objectAttribute(m, "value", loc).value_or(Value::error()), wanted))
      return std::move(m);
  const lang::Module &m = *cls.get<std::shared_ptr<const lang::Module>>();
  return wanted.isError() ? wanted : fail(diag::noMember, loc, lang::repr(wanted), m.name);
}

std::optional<std::vector<Value>> Evaluator::iterate(const Value &v, Loc loc) {
  if (const auto *items = lang::sequenceItems(v)) {
    if (!charge(items->size(), loc))
      return std::nullopt;
    return *items;
  }
  if (lang::isDict(v) || lang::isSet(v)) {
    const std::vector<Value> &items = lang::isDict(v) ? lang::keysOf(v) : lang::membersOf(v);
    return charge(items.size(), loc) ? std::optional(items) : std::nullopt;
  }
  if (std::optional<std::vector<Value>> members = enumMembers(v))
    return charge(members->size(), loc) ? std::move(members) : std::nullopt;
  std::vector<Value> out;
  if (v.isStr()) {
    if (!charge(v.asStr().size(), loc))
      return std::nullopt;
    for (char c : v.asStr())
      out.push_back(Value::str(std::string(1, c)));
    return out;
  }
  if (v.is<std::shared_ptr<const RangeValue>>()) {
    const RangeValue &r = *v.get<std::shared_ptr<const RangeValue>>();
    bool isRange = r.kind != RangeValue::Kind::Condition;
    for (const Value &a : r.args)
      isRange = isRange && (a.isInt() || a.isBool());
    if (isRange) {
      std::optional<uint64_t> trips = tripCount(r, loc);
      if (!trips)
        return std::nullopt;
      steps_ += *trips;
      Int i = r.args[0].asInt(), by = r.args[2].asInt();
      out.reserve(*trips);
      for (uint64_t k = 0; k < *trips; ++k, i += k < *trips ? by : 0)
        out.push_back(Value::integer(i));
      return out;
    }
  }
  if (!v.isError()) {
    auto d = diag().report(diag::notIterable, loc, describe(v));
    if (v.isTensor())
      d.note({}, "operations work on all elements of a block at once; tl.sum, tl.max and the like combine them");
  }
  return std::nullopt;
}

/// Generators run to their end when they are called; their values are collected.
Value Evaluator::yield(const Expr &e) {
  Value v = e.operands.empty() ? Value::none() : eval(*e.operands[0]);
  if (v.isError())
    return v;
  std::optional<std::vector<Value>> items = e.kind == ExprKind::Yield ? std::vector<Value>{v} : iterate(v, e.loc);
  if (!items)
    return Value::error();
  frame_->yielded->insert(frame_->yielded->end(), items->begin(), items->end());
  return Value::none();
}

Flow Evaluator::pythonFor(const Stmt &s) {
  std::optional<std::vector<Value>> items = iterate(eval(*s.value), s.value->loc);
  if (!items)
    return Flow::returns(Value::error(), s.loc);
  for (const Value &i : *items) {
    if (!step(s.headLoc))
      return Flow::returns(Value::error(), s.loc);
    assign(*s.targets[0], i);
    Flow f = execBlock(s.body);
    if (f.broke.always())
      return {};
    if (f.returned.always())
      return f;
  }
  return execBlock(s.orelse);
}

Flow Evaluator::pythonWhile(const Stmt &s) {
  for (;;) {
    std::optional<bool> c = pythonTruth(*s.value);
    if (!c || !step(s.headLoc))
      return Flow::returns(Value::error(), s.loc);
    if (!*c)
      return execBlock(s.orelse);
    Flow f = execBlock(s.body);
    if (f.broke.always())
      return {};
    if (f.returned.always())
      return f;
  }
}

} // namespace tegula::sema
