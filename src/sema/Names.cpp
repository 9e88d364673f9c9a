// Names: reading them (locals, globals, builtins), assigning them (decay, annotations, tuple targets).
#include "sema/Evaluator.h"
#include <algorithm>

namespace tegula::sema {

using lang::Function;

namespace {

/// Every name that may have been meant: locals, then Python's and the language's own.
std::vector<std::string> candidates(const Env &env) {
  std::vector<std::string> names;
  env.forEach([&](std::string_view n, const Var &) { names.emplace_back(n); });
  for (const lang::Builtin *b : lang::allBuiltins()) {
    std::string_view n = b->name;
    if (n.starts_with("python.") && n.find('.', 7) == n.npos)
      names.emplace_back(n.substr(7));
  }
  return names;
}

} // namespace

/// Reports a global that a kernel may not read.
void reportGlobal(std::string_view name, const lang::Scope::Binding &b, Loc loc, DiagEngine &diag) {
  if (isHostImport(b.value)) {
    diag.report(diag::hostName, loc, name, lang::str(b.value)).note(b.declared, "imported here");
    return;
  }
  auto d = diag.report(diag::globalVariable, loc, name);
  constexpr std::string_view advice = "make it `tl.constexpr(...)`, or pass it as an argument";
  if (b.declared)
    d.note(b.declared, "declared here; " + std::string(advice));
  else if (!b.value.is<std::shared_ptr<const lang::OpaqueValue>>()) // for functions and classes the binding says more
    d.note({}, std::string(advice));
}

Value Evaluator::readName(const Expr &e) {
  if (isSelf(e))
    return selfSoFar();
  const Var *v = env().find(e.name);
  if (v && v->state == Var::State::Live)
    return v->value;
  if (v) {
    std::string name(e.name);
    if (v->state == Var::State::AfterLoop) {
      diag().report(diag::inductionAfterLoop, e.loc, name).note(v->why, "the loop is here");
      Var *own = env().edit(e.name);
      own->state = Var::State::Live;
      return own->value;
    }
    const DiagKind &kind = v->state == Var::State::OneArm ? diag::definedInOneArm : diag::definedInLoop;
    diag().report(kind, e.loc, name).note(v->at, "`" + name + "` is assigned here");
    env().set(e.name, {Value::error(), e.loc});
    return Value::error();
  }
  // A kernel's name that is not assigned yet is the global one, if there is one; in Python functions it is local from
  // the start.
  bool isLocal = frame_->locals && frame_->locals->contains(e.name) && !frame_->moduleLevel;
  if (isLocal && (frame_->python || !frame_->scope || !frame_->scope->lookup(e.name))) {
    Value r = fail(diag::usedBeforeAssigned, e.loc, e.name);
    env().set(e.name, {r, e.loc});
    return r;
  }
  return globalName(e.name, e.loc);
}

Value Evaluator::globalName(std::string_view name, Loc loc) {
  if (frame_->scope)
    if (std::optional<lang::Scope::Binding> b = frame_->scope->lookup(name)) {
      if (b->allowed || frame_->python)
        return b->value;
      if (frame_->moduleLevel)
        return Value::error();
      if (!target().strict && enumMembers(b->value)) {
        extension(diag::enumInKernel, loc, name);
        return b->value;
      }
      reportGlobal(name, *b, loc, diag());
      env().set(name, {Value::error(), loc});
      return Value::error();
    }
  // Python's own list, min and max accept more than those of kernels, but no tensors.
  if (frame_->python && !frame_->handlesTensors && isPythonBuiltin(name))
    return Value(std::make_shared<const lang::OpaqueValue>(lang::OpaqueValue{"python." + std::string(name), 0}));
  if (const lang::Builtin *b = lang::findBuiltin("python." + std::string(name)))
    return Value(b);
  if (std::optional<Value> constant = lang::findConstant("python." + std::string(name)))
    return *constant;
  if ((frame_->python || !target().strict) && isPythonBuiltin(name) && !frame_->moduleLevel) {
    if (!frame_->python)
      extension(diag::pythonInKernel, loc, name);
    return Value(std::make_shared<const lang::OpaqueValue>(lang::OpaqueValue{"python." + std::string(name), 0}));
  }
  return undefinedName(name, loc);
}

Value Evaluator::undefinedName(std::string_view name, Loc loc) {
  if (frame_->moduleLevel)
    return Value::error();
  {
    auto d = diag().report(diag::undefinedName, loc, name);
    std::string near = nearestName(name, candidates(env()));
    if (name == "breakpoint" || name == "input")
      d.note({}, "a compiled kernel cannot stop; " + std::string(lang::interpreterHint));
    else if (isPythonBuiltin(name))
      d.note({}, "Python's `" + std::string(name) + "` is not available in kernels");
    else if (lang::findBuiltin(name))
      d.note({}, "did you mean `tl." + std::string(name) + "`?");
    else if (!near.empty())
      d.note({}, "did you mean `" + near + "`?");
  }
  env().set(name, {Value::error(), loc});
  return Value::error();
}

/// Plain assignment turns compile-time numbers into tensors, also inside tuples.
Value Evaluator::decay(const Value &v, Loc loc) {
  if (v.isNumber())
    return lang::toTensor(*this, v, loc);
  if (!v.isTuple())
    return v;
  std::vector<Value> items;
  for (const Value &i : v.items())
    items.push_back(decay(i, loc));
  return Value::tuple(std::move(items));
}

void Evaluator::nameValue(const Value &v, std::string_view name) {
  if (v.isTensor() && v.asTensor().value->name.empty())
    v.asTensor().value->name = name;
}

void Evaluator::assignName(std::string_view name, const Value &v, Loc loc) {
  if (frame_->python)
    return env().set(name, {v, loc});
  const Var *old = env().find(name);
  bool keeps = frame_->declared.contains(name);
  if (keeps && old && old->state == Var::State::Live && !old->value.isError()) {
    diag().report(diag::constexprReassigned, loc, name).note(old->at, "defined here");
    return;
  }
  builder().setLoc(loc);
  Value value = keeps ? v : decay(v, loc);
  bool unassignable = value.isStr() || value.is<std::shared_ptr<const lang::Module>>() ||
                      value.is<const lang::Builtin *>() || value.is<std::shared_ptr<const Function>>();
  if (!keeps && unassignable) {
    fail(diag::cannotBecomeTensor, loc, lang::repr(v), lang::kindName(v), name);
    value = Value::error();
  }
  nameValue(value, name);
  env().set(name, {value, loc, {}, Var::State::Live, keeps});
}

/// One item per target; the starred one gets a list of the rest.
static std::optional<std::vector<Value>> gathered(const Expr &target, std::optional<std::vector<Value>> items) {
  auto isStarred = [](const Expr *o) { return o->kind == ExprKind::Starred; };
  auto star = std::find_if(target.operands.begin(), target.operands.end(), isStarred);
  if (!items || star == target.operands.end() || items->size() + 1 < target.operands.size())
    return items;
  auto first = items->begin() + (star - target.operands.begin());
  auto last = items->end() - (target.operands.end() - star - 1);
  Value middle = Value::tuple(std::vector<Value>(first, last));
  items->insert(items->erase(first, last), middle);
  return items;
}

void Evaluator::assign(const Expr &target, const Value &v, bool decays) {
  switch (target.kind) {
  case ExprKind::Name:
    return decays ? assignName(target.name, v, target.loc) : env().set(target.name, {v, target.loc});
  case ExprKind::Tuple:
  case ExprKind::List: {
    std::optional<std::vector<Value>> items;
    if (v.isError())
      items = std::vector<Value>(target.operands.size(), Value::error());
    else if (frame_->python)
      items = gathered(target, iterate(v, target.loc));
    else if (const auto *s = lang::sequenceItems(v))
      items = *s;
    for (const Expr *o : target.operands)
      if (o->kind == ExprKind::Starred && !frame_->python) {
        fail(diag::starredTarget, o->loc);
        items = std::vector<Value>(target.operands.size(), Value::error());
      }
    if (items && items->size() != target.operands.size()) {
      const DiagKind &kind = items->size() > target.operands.size() ? diag::unpackTooMany : diag::unpackTooFew;
      fail(kind, target.loc, static_cast<uint64_t>(target.operands.size()), static_cast<uint64_t>(items->size()));
      items = std::vector<Value>(target.operands.size(), Value::error());
    } else if (!items) {
      fail(diag::cannotUnpack, target.loc, describe(v), static_cast<uint64_t>(target.operands.size()));
      items = std::vector<Value>(target.operands.size(), Value::error());
    }
    for (size_t i = 0; i < target.operands.size(); ++i)
      if (target.operands[i]->kind != ExprKind::Starred)
        assign(*target.operands[i], (*items)[i], decays);
      else if (frame_->python)
        assign(*target.operands[i]->operands[0], (*items)[i], decays);
    return;
  }
  case ExprKind::Subscript:
    if (frame_->python && assignItem(target, &v))
      return;
    fail(diag::itemAssignment, target.loc);
    return;
  case ExprKind::Attribute: {
    if (isSelf(*target.operands[0])) {
      setField(*frame_->construction, target.name, v, target.loc);
      return;
    }
    Value object = target.operands[0]->kind == ExprKind::Name ? eval(*target.operands[0]) : Value::none();
    if (lang::isAggregate(object))
      fail(diag::frozenField, target.loc, target.name, object.record().cls->name);
    else if (!object.isError())
      fail(diag::attributeAssignment, target.loc);
    return;
  }
  case ExprKind::Starred:
    fail(diag::starredTarget, target.loc);
    return;
  default:
    // The parser rejects every other target.
    return;
  }
}

void Evaluator::bindErrors(const NameSet &names, Loc loc) {
  for (std::string_view n : names)
    env().set(n, {Value::error(), loc});
}

} // namespace tegula::sema
