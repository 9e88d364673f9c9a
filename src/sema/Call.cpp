// Calls: evaluates arguments, binds them to parameters, and dispatches on the callee.
#include "sema/Evaluator.h"
#include <unordered_map>

namespace tegula::sema {

using lang::BoundMethod;
using lang::Builtin;
using lang::Function;
using lang::OpaqueValue;
using lang::RecordClass;
using lang::RecordValue;

CallArgs Evaluator::evalArgs(const Expr &e) {
  CallArgs out;
  for (size_t i = 1; i < e.operands.size(); ++i) {
    const Expr &a = *e.operands[i];
    if (a.kind != ExprKind::Starred) {
      out.args.push_back({eval(a), a.loc, {}, {}});
      continue;
    }
    std::optional<std::vector<Value>> items = spread(a);
    if (!items) {
      out.failed = true;
      continue;
    }
    for (const Value &item : *items)
      out.args.push_back({item, a.loc, {}, {}});
  }
  for (const syntax::Keyword &k : e.keywords) {
    if (k.name.empty()) {
      fail(diag::doubleStar, k.loc);
      out.failed = true;
      continue;
    }
    // Arguments that Python passes between functions and that are not needed here.
    if (frame_->python && (k.name == "_semantic" || k.name == "_generator"))
      continue;
    out.args.push_back({eval(*k.value), k.value->loc, k.name, k.loc});
  }
  return out;
}

Value Evaluator::callExpr(const Expr &e) {
  bool discarded = std::exchange(discarded_, nullptr) == &e;
  const Expr &calleeExpr = *e.operands[0];
  if (std::optional<Value> changed = frame_->python ? pythonMutation(e) : std::nullopt)
    return *changed;
  if (frame_->construction)
    if (std::optional<Value> done = initOfBase(e))
      return *done;
  Value callee = eval(calleeExpr);
  // Arguments are always evaluated: they may have errors of their own.
  CallArgs args = evalArgs(e);
  if (callee.isError() || args.failed)
    return Value::error();
  builder().setLoc(e.loc);
  // An iterator is the tuple of its items: a named one would return its first item again and again.
  bool isNext = callee.is<std::shared_ptr<const OpaqueValue>>() &&
                callee.get<std::shared_ptr<const OpaqueValue>>()->name == "python.next";
  if (isNext && e.operands.size() > 1 && e.operands[1]->kind != ExprKind::Call &&
      e.operands[1]->kind != ExprKind::GeneratorExp)
    return fail(diag::nextOfName, e.operands[1]->loc);
  // `self` of a method is the expression before the dot.
  Loc self = calleeExpr.kind == ExprKind::Attribute ? calleeExpr.operands[0]->loc : calleeExpr.loc;
  Value r = callValue(callee, std::move(args), e.loc, self);
  if (discarded && !r.isError())
    checkDiscarded(callee, e.loc);
  return r;
}

void Evaluator::checkDiscarded(const Value &callee, Loc loc) {
  if (callee.is<std::shared_ptr<const BoundMethod>>())
    return checkDiscarded(*callee.get<std::shared_ptr<const BoundMethod>>()->callee, loc);
  if (callee.is<const Builtin *>() && (callee.get<const Builtin *>()->flags & Builtin::MustUse))
    fail(diag::unusedResult, loc, callee.get<const Builtin *>()->name, "");
  if (!callee.is<std::shared_ptr<const Function>>())
    return;
  const Function &f = *callee.get<std::shared_ptr<const Function>>();
  if (f.mustUse)
    fail(diag::unusedResult, loc, f.name, f.mustUseHint.empty() ? "" : ". " + f.mustUseHint);
}

Value Evaluator::callValue(const Value &callee, CallArgs args, Loc loc, Loc selfLoc) {
  if (callee.isError())
    return callee;
  if (callee.is<const Builtin *>())
    return callBuiltin(*callee.get<const Builtin *>(), args, loc);
  if (callee.is<std::shared_ptr<const Function>>())
    return callFunction(callee.get<std::shared_ptr<const Function>>(), args, loc);
  if (callee.is<std::shared_ptr<const BoundMethod>>()) {
    const BoundMethod &m = *callee.get<std::shared_ptr<const BoundMethod>>();
    args.args.insert(args.args.begin(), CallArgs::Arg{*m.self, selfLoc, {}, {}});
    return callValue(*m.callee, std::move(args), loc, selfLoc);
  }
  if (callee.is<std::shared_ptr<const RecordClass>>())
    return construct(callee.get<std::shared_ptr<const RecordClass>>(), args, loc);
  if (lang::isAggregate(callee) && lang::findMember(*callee.record().cls, "__call__"))
    return callValue(objectAttribute(callee, "__call__", loc).value_or(Value::error()), std::move(args), loc, selfLoc);
  if (callee.is<std::shared_ptr<const OpaqueValue>>()) {
    const std::string &name = callee.get<std::shared_ptr<const OpaqueValue>>()->name;
    if (name.starts_with("python.") && !frame_->moduleLevel)
      return pythonBuiltin(name.substr(7), args, loc);
    return frame_->moduleLevel ? Value::error() : fail(diag::hostObjectCalled, loc, name);
  }
  if (std::optional<Value> member = enumMember(callee, args, loc))
    return *member;
  auto d = diag().report(diag::notCallable, loc, describe(callee));
  if (callee.isDtype())
    d.note({}, "a tensor or number is converted by `tl.cast(x, tl." + describe(callee) + ")`");
  return Value::error();
}

/// A default that could not be evaluated when the file was loaded is an error at its use.
Value Evaluator::defaultOf(const std::string &name, const ParamInfo &p, Loc loc) {
  return p.defaultValue.isError() ? fail(diag::unknownDefault, loc, p.name, name) : p.defaultValue;
}

/// One value per parameter; reports all errors in the user's terms.
bool Evaluator::bindArgs(const std::string &name, const std::vector<ParamInfo> &params, const CallArgs &args, Loc loc,
                         std::vector<Value> &values, std::vector<Loc> &locs) {
  std::vector<std::optional<Value>> bound(params.size());
  locs.assign(params.size(), loc);
  std::vector<Value> extra, named; // of *args and **kwargs
  size_t next = 0, variadic = params.size(), positional = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].variadic)
      variadic = i;
    positional += !params[i].variadic && !params[i].keywordOnly && !params[i].keywords;
  }
  bool takesAnyKeyword = std::any_of(params.begin(), params.end(), [](const ParamInfo &p) { return p.keywords; });
  bool ok = true;
  size_t given = 0;
  Loc tooMany;
  std::unordered_map<std::string_view, size_t> byName;
  for (size_t i = 0; args.args.size() > 8 && i < params.size(); ++i)
    if (!params[i].variadic)
      byName.emplace(params[i].name, i);
  for (const CallArgs::Arg &a : args.args) {
    if (a.keyword.empty()) {
      ++given;
      if (next < params.size() && next < variadic && !params[next].keywordOnly && !params[next].keywords) {
        bound[next] = a.value;
        locs[next++] = a.loc;
      } else if (variadic < params.size()) {
        if (extra.empty())
          locs[variadic] = a.loc;
        extra.push_back(a.value);
      } else if (!tooMany) {
        tooMany = a.loc;
      }
      continue;
    }
    size_t i = 0;
    if (auto it = byName.find(a.keyword); !byName.empty())
      i = it == byName.end() ? params.size() : it->second;
    else
      while (i < params.size() && (params[i].name != a.keyword || params[i].variadic))
        ++i;
    Loc at = a.keywordLoc ? a.keywordLoc : a.loc;
    if (takesAnyKeyword && (i == params.size() || params[i].keywords)) {
      named.push_back(Value::tuple({Value::str(std::string(a.keyword)), a.value}));
    } else if (i == params.size()) {
      ok = false;
      auto d = diag().report(diag::unknownKeyword, at, name, a.keyword);
      std::vector<std::string> names;
      for (const ParamInfo &p : params)
        if (!p.variadic)
          names.push_back(p.name);
      std::string near = nearestName(a.keyword, names);
      if (!near.empty())
        d.note({}, "did you mean `" + near + "`?");
    } else if (bound[i]) {
      ok = false;
      fail(diag::multipleValues, at, name, a.keyword);
    } else {
      bound[i] = a.value;
      locs[i] = a.loc;
    }
  }
  if (tooMany) {
    ok = false;
    fail(diag::tooManyArguments, tooMany, name, static_cast<uint64_t>(positional), static_cast<uint64_t>(given));
  }
  std::string missing;
  unsigned missingCount = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].variadic)
      bound[i] = Value::tuple(extra);
    else if (params[i].keywords)
      bound[i] = Value::tuple(named);
    else if (!bound[i] && params[i].hasDefault)
      bound[i] = defaultOf(name, params[i], loc);
    else if (!bound[i]) {
      missing += (missingCount++ ? ", `" : "`") + params[i].name + "`";
      bound[i] = Value::error();
    }
    values.push_back(*bound[i]);
  }
  if (missingCount)
    fail(diag::missingArguments, loc, name, missingCount > 1 ? "s" : "", missing);
  return ok && !missingCount;
}

Value Evaluator::callBuiltin(const Builtin &b, const CallArgs &args, Loc loc) {
  std::vector<ParamInfo> params;
  for (const lang::Signature::Param &p : lang::signatureOf(b).params)
    params.push_back({p.name, p.variadic, p.keywordOnly, p.keywords, p.hasDefault, p.defaultValue});
  std::string_view name = b.name;
  for (std::string_view prefix : {"python.", "tensor.", "dtype."})
    if (name.starts_with(prefix))
      name.remove_prefix(prefix.size());
  std::vector<Value> values;
  std::vector<Loc> locs;
  if (!bindArgs(std::string(name), params, args, loc, values, locs))
    return Value::error();
  Value r = lang::callBuiltin(*this, b, values, locs, loc);
  builder().setLoc(loc);
  frame_->stopped |= r.isError() && name == "static_assert" && values[0].isConstexpr() && !values[0].isError();
  return r;
}

/// A record of a namedtuple class or an aggregate.
Value Evaluator::construct(const std::shared_ptr<const RecordClass> &cls, const CallArgs &args, Loc loc) {
  if (cls->aggregate)
    return constructAggregate(cls, args, loc);
  if (cls->kind != RecordClass::Kind::NamedTuple)
    return fail(diag::notCallable, loc, cls->name);
  std::vector<ParamInfo> params;
  size_t firstDefault = cls->fields.size() - cls->defaults.size();
  for (size_t i = 0; i < cls->fields.size(); ++i)
    params.push_back({cls->fields[i], false, false, false, i >= firstDefault,
                      i >= firstDefault ? cls->defaults[i - firstDefault] : Value::error()});
  std::vector<Value> values;
  std::vector<Loc> locs;
  if (!bindArgs(cls->name, params, args, loc, values, locs))
    return Value::error();
  return Value(std::make_shared<const RecordValue>(RecordValue{cls, std::move(values)}));
}

Value Evaluator::call(const Value &callee, std::span<const Value> args, Loc loc) {
  CallArgs a;
  for (const Value &v : args)
    a.args.push_back({v, loc, {}, {}});
  return callValue(callee, std::move(a), loc, loc);
}

Value Evaluator::libraryFunction(std::string_view name) {
  std::shared_ptr<const Function> f = sema::libraryFunction(name);
  return f ? Value(f) : fail(diag::noLibraryFunction, builder().loc(), name);
}

/// The parameters of a function of the language for binding; nullopt and a report if it has `**`.
std::optional<std::vector<Evaluator::ParamInfo>> Evaluator::paramsOf(const Function &fn) {
  std::vector<ParamInfo> params;
  const auto &def = fn.def->params;
  bool keywordOnly = false;
  for (size_t i = 0; i < def.size(); ++i) {
    using Kind = syntax::Param::Kind;
    if (def[i].kind == Kind::DoubleStar) {
      fail(diag::doubleStar, def[i].loc);
      return std::nullopt;
    }
    if (def[i].kind == Kind::Star && def[i].name.empty()) {
      keywordOnly = true;
      continue;
    }
    bool variadic = def[i].kind == Kind::Star;
    bool hasDefault = i < fn.defaults.size() && def[i].defaultValue;
    Value defaultValue = hasDefault ? fn.defaultOf(i) : Value::error();
    // Python's own compiler passes these; here they have no meaning.
    if (fn.kind != Function::Kind::Jit && (def[i].name == "_semantic" || def[i].name == "_generator")) {
      hasDefault = true;
      defaultValue = Value::none();
    }
    params.push_back({std::string(def[i].name), variadic, keywordOnly || def[i].kind == Kind::KeywordOnly, false,
                      hasDefault, defaultValue});
    keywordOnly |= variadic;
  }
  return params;
}

/// Binds the arguments of a function of the language.
Value Evaluator::callFunction(const std::shared_ptr<const Function> &fn, const CallArgs &args, Loc loc) {
  std::optional<std::vector<ParamInfo>> params = paramsOf(*fn);
  std::vector<Value> values;
  std::vector<Loc> locs;
  if (!params || !bindArgs(fn->name, *params, args, loc, values, locs))
    return Value::error();
  if (fn->kind == Function::Kind::Plain && !frame_->python) {
    diag().report(diag::plainFunction, loc, fn->name).note(fn->def->nameLoc, "defined here, without a decorator")
        .note({}, std::string(lang::interpreterHint));
    return Value::error();
  }
  if (fn->kind != Function::Kind::Jit)
    return callPython(fn, values, loc);
  // These two are also Python functions.
  bool isPythons = fn == sema::libraryFunction("cdiv") || fn == sema::libraryFunction("next_power_of_2");
  if (frame_->python && !frame_->handlesTensors && !isPythons)
    return fail(diag::jitFromPython, loc, fn->name);
  Value r = fn->noinline_ ? realCall(fn, values, locs, loc) : inlineCall(fn, values, locs, loc);
  // With an error value as an argument, the returning branch of a helper may be unknown.
  bool spoilt = std::any_of(values.begin(), values.end(), [](const Value &v) { return v.isError(); });
  return spoilt && r.isNone() ? Value::error() : r;
}

} // namespace tegula::sema
