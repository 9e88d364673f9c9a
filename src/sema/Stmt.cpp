// Statements other than branches and loops, and statement lists.
#include "sema/Evaluator.h"

namespace tegula::sema {

bool Evaluator::step(Loc loc) {
  if (aborted_)
    return false;
  // Measured, not counted: the stack use of a nesting level depends on the nested constructs.
  constexpr ptrdiff_t stackLimit = 3 << 20;
  char here;
  if (!stackBase_)
    stackBase_ = &here;
  ptrdiff_t used = stackBase_ - &here;
  if (++steps_ > options_.maxSteps)
    fail(diag::tooManySteps, loc, options_.maxSteps);
  else if (builder().block() && builder().block()->ops.size() > options_.maxOps)
    fail(diag::tooManyOps, loc, options_.maxOps);
  else if (used > stackLimit || -used > stackLimit)
    fail(diag::nestedTooDeeply, loc);
  else
    return true;
  aborted_ = true;
  return false;
}

Flow Evaluator::execBlock(Stmts body) {
  for (size_t i = 0; i < body.size(); ++i) {
    const Stmt &s = *body[i];
    if (!step(s.headLoc ? s.headLoc : s.loc))
      return {};
    Stmts rest = body.subspan(i + 1);
    Flow f = exec(s, rest);
    if (frame_->stopped)
      return Flow::returns(Value::error(), s.loc);
    if (f.falls())
      continue;
    bool tookRest = std::exchange(f.tookRest, false);
    if (tookRest || rest.empty() || frame_->python)
      return f;
    if (!f.leaves())
      return guardRest(f, [&] { return execBlock(rest); }, s.loc);
    return s.kind == StmtKind::If && f.returned.always() ? deadTail(f, rest) : f;
  }
  return {};
}

/// The statements after a taken compile-time `if ...: return` are evaluated too, and their returns take part in the
/// type of the result (LANGUAGE 1.5); their code is dropped.
Flow Evaluator::deadTail(Flow taken, Stmts rest) {
  Arm dead = runArm(taken.at, [&](Arm &arm) { arm.flow = execBlock(rest); });
  if (dead.flow.returned.never() || taken.value.isError() || dead.flow.value.isError())
    return taken;
  Arm live;
  live.flow = taken;
  live.region = builder().block()->parent;
  mergeReturns(live, dead);
  taken.value = live.flow.value;
  return taken;
}

Flow Evaluator::exec(const Stmt &s, Stmts rest) {
  if (frame_->python)
    return execPython(s);
  builder().setLoc(s.loc);
  if (options_.annotate)
    dumpStmt(s);
  switch (s.kind) {
  case StmtKind::Expr: execExpr(s); return {};
  case StmtKind::Assign: execAssign(s); return {};
  case StmtKind::AugAssign: execAugAssign(s); return {};
  case StmtKind::AnnAssign: execAnnAssign(s); return {};
  case StmtKind::Assert: execAssert(s); return {};
  case StmtKind::Pass: return {};
  case StmtKind::Return: return execReturn(s);
  case StmtKind::If: return execIf(s, rest);
  case StmtKind::For: return execFor(s);
  case StmtKind::While: return execWhile(s);
  case StmtKind::Break:
  case StmtKind::Continue: return execExit(s);
  case StmtKind::With: return execWith(s);
  default: return execUnsupported(s);
  }
}

Flow Evaluator::execReturn(const Stmt &s) {
  Flow f = Flow::returns(s.value ? eval(*s.value) : Value::none(), s.loc);
  if (!frame_->inRuntimeLoop())
    return f;
  if (target().strict) {
    diag().report(diag::returnInLoop, s.loc).note({}, "assign the value to a name and return it after the loop");
    return {};
  }
  extension(diag::returnsInLoop, s.loc);
  return f;
}

void Evaluator::execExpr(const Stmt &s) {
  const Expr &e = *s.value;
  // Docstrings and other literals have no effect.
  if (e.kind == ExprKind::Str || e.kind == ExprKind::Int || e.kind == ExprKind::Float || e.kind == ExprKind::Ellipsis)
    return;
  discarded_ = e.kind == ExprKind::Call ? &e : nullptr;
  eval(e);
  discarded_ = nullptr;
}

void Evaluator::execAssign(const Stmt &s) {
  Value v = eval(*s.value);
  if (s.targets.size() > 1 && !target().strict) {
    extension(diag::assignsTwice, s.loc);
  } else if (s.targets.size() > 1) {
    diag().report(diag::chainedAssignment, s.loc).note({}, "assign in two statements");
    v = Value::error();
  }
  for (const Expr *t : s.targets)
    assign(*t, v);
}

void Evaluator::execAugAssign(const Stmt &s) {
  const Expr &target = *s.targets[0];
  bool isField = frame_->construction && target.kind == ExprKind::Attribute;
  bool isItem = frame_->python && target.kind == ExprKind::Subscript;
  if (target.kind != ExprKind::Name && !isField && !isItem)
    return assign(target, Value::error());
  Value a = eval(target);
  Value b = eval(*s.value);
  Value r = binaryOf(s.binaryOp, a, b, s.loc, target.loc, s.value->loc);
  assign(target, r);
}

void Evaluator::execAnnAssign(const Stmt &s) {
  const Expr &target = *s.targets[0];
  if (!isConstexprAnnotation(s.extra)) {
    if (s.value)
      assign(target, eval(*s.value));
    return;
  }
  if (target.kind != ExprKind::Name)
    return assign(target, Value::error());
  if (!s.value) {
    frame_->declared.insert(target.name);
    return;
  }
  Value v = eval(*s.value);
  const Var *old = env().find(target.name);
  if (old && old->state == Var::State::Live && !old->value.isError()) {
    diag().report(diag::constexprReassigned, target.loc, target.name).note(old->at, "defined here");
    return;
  }
  // A run-time value stays one: the annotation only prevents decay.
  nameValue(v, target.name);
  env().set(target.name, {v, target.loc, {}, Var::State::Live, true});
}

void Evaluator::execAssert(const Stmt &s) {
  const lang::Builtin *b = lang::findBuiltin("device_assert");
  CallArgs args;
  args.args.push_back({eval(*s.value), s.value->loc, {}, {}});
  if (s.extra)
    args.args.push_back({eval(*s.extra), s.extra->loc, {}, {}});
  if (b)
    callBuiltin(*b, args, s.loc);
}

namespace {

struct NotSupported {
  StmtKind kind;
  const char *what;
  const char *hint;
};
constexpr NotSupported notSupported[] = {
    {StmtKind::Break, "Break", "put the condition into the bounds, or use `while`"},
    {StmtKind::Continue, "Continue", "put the rest of the body under an `if`"},
    {StmtKind::Try, "Try", "a kernel has no exceptions"},
    {StmtKind::Raise, "Raise", "use tl.device_assert or tl.static_assert"},
    {StmtKind::With, "With", "code that runs at compile time has no context managers"},
    {StmtKind::ClassDef, "ClassDef", "define the class outside of the kernel"},
    {StmtKind::Delete, "Delete", "a name simply goes out of use"},
    {StmtKind::Global, "Global", "pass values as arguments"},
    {StmtKind::Nonlocal, "Nonlocal", "pass values as arguments"},
    {StmtKind::Import, "Import", "import at the top of the file"},
    {StmtKind::ImportFrom, "ImportFrom", "import at the top of the file"},
    {StmtKind::Match, "Match", "use `if` and `elif`"},
    {StmtKind::TypeAlias, "TypeAlias", "define the alias outside of the kernel"},
};

} // namespace

bool reportUnsupported(const Stmt &s, Loc loc, DiagEngine &diag) {
  if (s.kind == StmtKind::FunctionDef) {
    diag.report(diag::nestedFunction, s.nameLoc ? s.nameLoc : loc, s.name);
    return true;
  }
  for (const NotSupported &n : notSupported)
    if (n.kind == s.kind) {
      diag.report(diag::unsupportedStmt, loc, n.what, n.hint);
      return true;
    }
  return false;
}

Flow Evaluator::execUnsupported(const Stmt &s) {
  Loc loc = s.headLoc ? s.headLoc : s.loc;
  reportUnsupported(s, loc, diag());
  // Names that it would have bound are error values from here on.
  Stmt *self = const_cast<Stmt *>(&s);
  bindErrors(assignedNames(Stmts(&self, 1)), loc);
  return {};
}

} // namespace tegula::sema
