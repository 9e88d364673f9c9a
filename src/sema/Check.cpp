// `tegula check`: diagnostics for a file without argument types.
//
// Walks jit functions as text: reports statements and expressions that kernels lack, undefined names, globals that a
// kernel may not read, attributes that a module lacks, keywords that a builtin does not accept.
#include "sema/Evaluator.h"
#include "sema/FileScope.h"

namespace tegula::sema {

using lang::Function;

namespace {

class Checker {
public:
  Checker(const Function &f, bool strict, DiagEngine &diag)
      : f_(f), strict_(strict), diag_(diag), locals_(assignedNames(f.def->body)) {
    for (const syntax::Param &p : f.def->params)
      locals_.insert(p.name);
  }

  void run() { statements(f_.def->body, {}); }

private:
  /// The loops around a statement.
  struct Loops {
    unsigned all = 0, runtime = 0;
  };

  void statements(Stmts body, Loops loops) {
    for (const Stmt *s : body)
      statement(*s, loops);
  }

  void statement(const Stmt &s, Loops loops) {
    checkForm(s, loops);
    for (const Expr *e : expressionsOf(s))
      expression(*e);
    if (s.kind == StmtKind::FunctionDef || s.kind == StmtKind::ClassDef)
      return;
    if (s.kind == StmtKind::With && exitsOf(s.body).returns)
      diag_.report(diag::returnInWith, s.headLoc ? s.headLoc : s.loc);
    bool isLoop = s.kind == StmtKind::While || s.kind == StmtKind::For;
    bool isRuntime = isLoop && !(s.kind == StmtKind::For && isStatic(*s.value));
    statements(s.body, {loops.all + isLoop, loops.runtime + isRuntime});
    statements(s.orelse, loops);
  }

  static bool isStatic(const Expr &iterable) { return lastName(&iterable) == "static_range"; }

  void checkForm(const Stmt &s, Loops loops) {
    Loc loc = s.headLoc ? s.headLoc : s.loc;
    if (s.kind == StmtKind::Assign && s.targets.size() > 1 && strict_)
      diag_.report(diag::chainedAssignment, s.loc).note({}, "assign in two statements");
    bool exits = s.kind == StmtKind::Break || s.kind == StmtKind::Continue;
    if (exits && loops.all == 0)
      diag_.report(diag::exitOutsideLoop, s.loc, s.kind == StmtKind::Break ? "break" : "continue");
    if (s.kind == StmtKind::Return && loops.runtime > 0 && strict_)
      diag_.report(diag::returnInLoop, s.loc).note({}, "assign the value to a name and return it after the loop");
    if ((s.kind == StmtKind::For || s.kind == StmtKind::While) && !s.orelse.empty() && strict_)
      diag_.report(diag::loopElse, s.orelse.front()->loc, s.kind == StmtKind::For ? "for" : "while");
    for (const Expr *t : s.targets) {
      if (t->kind == ExprKind::Subscript)
        diag_.report(diag::itemAssignment, t->loc);
      if (t->kind == ExprKind::Attribute)
        diag_.report(diag::attributeAssignment, t->loc);
    }
    if (exits ? loops.all > 0 && strict_ : s.kind != StmtKind::With)
      reportUnsupported(s, loc, diag_);
  }

  void expression(const Expr &e) {
    walk(e, [&](const Expr &x) {
      // Names that a lambda binds are not examined: the lambda itself is an error.
      for (const syntax::Param &p : x.params)
        locals_.insert(p.name);
      reportUnsupported(x, diag_);
      if (x.kind == ExprKind::Name)
        name(x);
      if (x.kind == ExprKind::Attribute)
        moduleAttribute(x);
      if (x.kind == ExprKind::Call)
        keywords(x);
    });
  }

  void name(const Expr &e) {
    if (locals_.contains(e.name) || !reported_.insert(e.name))
      return;
    if (std::optional<lang::Scope::Binding> b = f_.scope->lookup(e.name)) {
      if (!b->allowed)
        reportGlobal(e.name, *b, e.loc, diag_);
      return;
    }
    if (lang::findBuiltin("python." + std::string(e.name)) || (!strict_ && isPythonBuiltin(e.name)))
      return;
    std::vector<std::string> names;
    for (std::string_view n : locals_)
      names.emplace_back(n);
    std::string near = nearestName(e.name, names);
    auto d = diag_.report(diag::undefinedName, e.loc, e.name);
    if (isPythonBuiltin(e.name))
      d.note({}, "Python's `" + std::string(e.name) + "` is not available in kernels");
    else if (!near.empty())
      d.note({}, "did you mean `" + near + "`?");
  }

  /// The value of a dotted name, if it begins with a module.
  std::optional<Value> resolve(const Expr &e) {
    if (e.kind == ExprKind::Name) {
      if (locals_.contains(e.name))
        return std::nullopt;
      std::optional<lang::Scope::Binding> b = f_.scope->lookup(e.name);
      if (b)
        return b->value;
      const lang::Builtin *builtin = lang::findBuiltin("python." + std::string(e.name));
      return builtin ? std::optional(Value(builtin)) : std::nullopt;
    }
    if (e.kind != ExprKind::Attribute)
      return std::nullopt;
    std::optional<Value> object = resolve(*e.operands[0]);
    if (!object || !object->is<std::shared_ptr<const lang::Module>>())
      return std::nullopt;
    return object->get<std::shared_ptr<const lang::Module>>()->attribute(e.name);
  }

  void moduleAttribute(const Expr &e) {
    std::optional<Value> object = resolve(*e.operands[0]);
    if (!object || !object->is<std::shared_ptr<const lang::Module>>())
      return;
    const lang::Module &m = *object->get<std::shared_ptr<const lang::Module>>();
    if (!m.attribute(e.name))
      diag_.report(diag::noModuleAttribute, e.nameLoc ? e.nameLoc : e.loc, m.name, e.name);
  }

  void keywords(const Expr &call) {
    std::optional<Value> callee = resolve(*call.operands[0]);
    if (!callee)
      return;
    std::vector<std::string> names;
    std::string name;
    if (callee->is<const lang::Builtin *>()) {
      const lang::Builtin &b = *callee->get<const lang::Builtin *>();
      name = b.name;
      for (const lang::Signature::Param &p : lang::signatureOf(b).params) {
        if (p.keywords)
          return; // accepts any
        names.push_back(p.name);
      }
    } else if (callee->is<std::shared_ptr<const Function>>()) {
      const Function &f = *callee->get<std::shared_ptr<const Function>>();
      name = f.name;
      for (const syntax::Param &p : f.def->params)
        names.emplace_back(p.name);
      if (f.kind == Function::Kind::Plain)
        diag_.report(diag::plainFunction, call.loc, f.name).note(f.def->nameLoc, "defined here, without a decorator");
    } else {
      return;
    }
    for (const syntax::Keyword &k : call.keywords) {
      if (k.name.empty()) {
        diag_.report(diag::doubleStar, k.loc);
        continue;
      }
      if (std::find(names.begin(), names.end(), k.name) != names.end())
        continue;
      auto d = diag_.report(diag::unknownKeyword, k.loc, name, k.name);
      std::string near = nearestName(k.name, names);
      if (!near.empty())
        d.note({}, "did you mean `" + near + "`?");
    }
  }

  const Function &f_;
  bool strict_;
  DiagEngine &diag_;
  NameSet locals_;
  NameSet reported_;
};

} // namespace

void checkModule(const lang::Module &module, bool strict, DiagEngine &diag) {
  for (const auto &f : ModuleLoader::jitFunctions(module))
    Checker(*f, strict, diag).run();
  if (!module.tree)
    return;
  for (std::string_view name : assignedNames(module.tree->body)) {
    std::optional<Value> v = module.attribute(name);
    using Class = std::shared_ptr<const lang::RecordClass>;
    if (!v || !v->is<Class>() || !v->get<Class>()->aggregate)
      continue;
    for (const lang::Aggregate::Member &m : v->get<Class>()->aggregate->members) {
      using FunctionPtr = std::shared_ptr<const Function>;
      // Imported classes belong to their own file.
      if (m.value.is<FunctionPtr>() && m.value.get<FunctionPtr>()->kind == Function::Kind::Jit &&
          m.value.get<FunctionPtr>()->tree == module.tree)
        Checker(*m.value.get<FunctionPtr>(), strict, diag).run();
    }
  }
}

} // namespace tegula::sema
