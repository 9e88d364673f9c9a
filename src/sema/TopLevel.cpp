// Binds the names of a module file's top level, without running any of it.
//
// Interprets definitions, imports and assignments of compile-time objects; everything else gives opaque names, which
// are an error only if a kernel uses them. So a kernel in a file full of host code compiles.
#include "sema/Evaluator.h"
#include "sema/FileScope.h"

namespace tegula::sema {

using lang::Function;
using lang::Module;
using lang::OpaqueValue;
using lang::RecordClass;

namespace {

constexpr uint64_t unknownId = 1, importId = 2;
Value opaque(std::string name, uint64_t id = unknownId) {
  return Value(std::make_shared<const OpaqueValue>(OpaqueValue{std::move(name), id}));
}

/// Binds the statements of one file's top level.
class TopLevel {
public:
  TopLevel(FileScope &scope, std::string folder, FindFile load)
      : scope_(scope), folder_(std::move(folder)), load_(std::move(load)), builder_(scratch_),
        evaluator_(builder_, ignored_, options_) {
    // Calls that create operations (`x = tl.program_id(0)`) create them here, and their result is not a compile-time
    // value.
    builder_.setBlock(scratch_.createFunction("host", {}, {}, {})->block());
  }

  void run(Stmts body) {
    for (const Stmt *s : body)
      statement(*s);
  }

private:
  void statement(const Stmt &s) {
    switch (s.kind) {
    case StmtKind::Import: return import(s);
    case StmtKind::ImportFrom: return importFrom(s);
    case StmtKind::FunctionDef: return function(s);
    case StmtKind::ClassDef: return classDef(s);
    case StmtKind::Assign:
      for (const Expr *t : s.targets)
        if (t->kind == ExprKind::Name)
          assign(t->name, *s.value, t->loc);
        else
          hide(*t);
      return;
    case StmtKind::AnnAssign:
      if (s.value && s.targets[0]->kind == ExprKind::Name)
        assign(s.targets[0]->name, *s.value, s.targets[0]->loc);
      return;
    case StmtKind::Try:
      run(s.body);
      return run(s.orelse);
    case StmtKind::With: return run(s.body);
    case StmtKind::If: return branch(s);
    default:
      for (std::string_view n : assignedNames(Stmts(&self(s), 1)))
        if (!scope_.lookup(n))
          scope_.bind(n, {opaque(std::string(n)), false, s.loc});
    }
  }
  Stmt *const &self(const Stmt &s) {
    self_ = const_cast<Stmt *>(&s);
    return self_;
  }

  void hide(const Expr &target) {
    walk(target, [&](const Expr &e) {
      if (e.kind == ExprKind::Name)
        scope_.bind(e.name, {opaque(std::string(e.name)), false, e.loc});
    });
  }

  /// A compile-time condition selects an arm; otherwise both arms may bind their names, and the first binding counts.
  void branch(const Stmt &s) {
    Value c = evaluator_.evaluateHost(*s.value, scope_);
    if (!c.isError() && c.isConstexpr())
      return run(lang::constexprTruth(c) ? s.body : s.orelse);
    bool isMain = s.value->kind == ExprKind::Compare && lastName(s.value->operands[0]) == "__name__";
    if (isMain)
      return;
    run(s.orelse);
    run(s.body);
  }

  std::shared_ptr<const Module> findModule(const std::string &dotted, uint32_t level, Loc loc) {
    if (level == 0)
      if (std::shared_ptr<const Module> m = builtinModule(dotted))
        return m;
    std::string path = folder_;
    for (uint32_t i = 1; i < level; ++i)
      path += "../";
    for (char c : dotted)
      path += c == '.' ? '/' : c;
    return load_(path, loc);
  }

  Value moduleValue(const std::string &dotted, uint32_t level, Loc loc) {
    std::shared_ptr<const Module> m = findModule(dotted, level, loc);
    if (!m)
      return opaque(dotted, importId);
    if (m->tree)
      scope_.imports.push_back(m);
    return Value(m);
  }

  void import(const Stmt &s) {
    for (const syntax::Alias &a : s.names) {
      std::string dotted(a.name);
      // `import a.b` binds a; `import a.b as c` binds a.b.
      if (a.asName.empty())
        dotted = dotted.substr(0, dotted.find('.'));
      Value v = moduleValue(dotted, 0, a.loc);
      bool known = v.is<std::shared_ptr<const Module>>();
      scope_.bind(a.asName.empty() ? std::string_view(dotted) : a.asName, {v, known, a.loc});
    }
  }

  void importFrom(const Stmt &s) {
    std::string from(s.module);
    std::shared_ptr<const Module> m = from.empty() ? nullptr : findModule(from, s.level, s.loc);
    if (m && m->tree)
      scope_.imports.push_back(m);
    for (const syntax::Alias &a : s.names) {
      if (a.name == "*") {
        if (m && m->tree)
          for (std::string_view n : assignedNames(m->tree->body))
            if (auto b = m->scope->lookup(n); b && !n.starts_with("_"))
              scope_.bind(n, *b);
        if (m && !m->tree)
          for (const std::string &n : m->scope->publicNames())
            if (auto b = m->scope->lookup(n))
              scope_.bind(n, *b);
        continue;
      }
      std::string_view as = a.asName.empty() ? a.name : a.asName;
      std::optional<lang::Scope::Binding> b = m ? m->scope->lookup(a.name) : std::nullopt;
      if (!b && (m == nullptr || m->tree == nullptr)) {
        Value sub = moduleValue((from.empty() ? "" : from + ".") + std::string(a.name), s.level, a.loc);
        if (sub.is<std::shared_ptr<const Module>>())
          b = lang::Scope::Binding{sub, true, a.loc};
      }
      if (!b)
        b = lang::Scope::Binding{opaque((from.empty() ? "" : from + ".") + std::string(a.name), importId), false,
                                 a.loc};
      scope_.bind(as, *b);
    }
  }

  void function(const Stmt &s) {
    Function::Kind kind = Function::Kind::Plain;
    for (const Expr *d : s.decorators)
      kind = decoratedKind(*d).value_or(kind);
    scope_.bindFunction(s.name, &s, kind, defaultsOf(s));
  }

  std::optional<Function::Kind> decoratedKind(const Expr &decorator) {
    std::string_view name = decoratorName(decorator);
    if (name == "jit")
      return Function::Kind::Jit;
    if (name == "constexpr_function" || name == "constexpr")
      return Function::Kind::Constexpr;
    return name == "builtin" || name == "extern" ? std::optional(Function::Kind::Builtin) : std::nullopt;
  }

  std::vector<Value> defaultsOf(const Stmt &function) {
    std::vector<Value> defaults;
    for (const syntax::Param &p : function.params)
      defaults.push_back(p.defaultValue ? evaluator_.evaluateHost(*p.defaultValue, scope_) : Value::error());
    return defaults;
  }

  /// The last part of the name that the decorator is bound to (`from triton import jit as kernel`), else of its text.
  std::string_view decoratorName(const Expr &d) {
    const Expr &callee = d.kind == ExprKind::Call ? *d.operands[0] : d;
    std::string_view written = lastName(&callee);
    if (callee.kind != ExprKind::Name)
      return written;
    std::optional<lang::Scope::Binding> b = scope_.lookup(callee.name);
    if (!b || !b->value.is<std::shared_ptr<const OpaqueValue>>())
      return written;
    decorator_ = b->value.get<std::shared_ptr<const OpaqueValue>>()->name;
    return std::string_view(decorator_).substr(decorator_.rfind('.') + 1);
  }

  void classDef(const Stmt &s) {
    bool isNamedTuple = false;
    for (const Expr *b : s.bases)
      isNamedTuple |= lastName(b) == "NamedTuple";
    for (const Expr *d : s.decorators)
      if (std::string_view name = decoratorName(*d); name == "aggregate" || name == "_aggregate")
        return aggregate(s);
    if (!isNamedTuple)
      return scope_.bind(s.name, {opaque(std::string(s.name)), false, s.nameLoc});
    RecordClass c;
    c.name = std::string(s.name);
    for (const Stmt *f : s.body)
      if (f->kind == StmtKind::AnnAssign && f->targets[0]->kind == ExprKind::Name) {
        c.fields.emplace_back(f->targets[0]->name);
        if (f->value)
          c.defaults.push_back(evaluator_.evaluateHost(*f->value, scope_));
      }
    scope_.bind(s.name, {Value(std::make_shared<const RecordClass>(std::move(c))), true, s.nameLoc});
  }

  void aggregate(const Stmt &s) {
    using Role = lang::Aggregate::Member::Role;
    FileScope::ClassDef c;
    c.def = &s;
    c.bases.assign(s.bases.begin(), s.bases.end());
    for (const Stmt *b : s.body) {
      const Expr *target = b->targets.empty() ? nullptr : b->targets[0];
      if (b->kind == StmtKind::AnnAssign && target->kind == ExprKind::Name) {
        c.fields.emplace_back(std::string(target->name), b->extra);
        c.defaults.push_back(b->value ? evaluator_.evaluateHost(*b->value, scope_) : Value::error());
      } else if (b->kind == StmtKind::Assign && target->kind == ExprKind::Name) {
        Value v = evaluator_.evaluateHost(*b->value, scope_);
        if (!v.isError())
          c.constants.emplace_back(std::string(target->name), v);
      } else if (b->kind == StmtKind::FunctionDef) {
        FileScope::MethodDef m{b, Function::Kind::Builtin, Role::Plain, defaultsOf(*b)};
        for (const Expr *d : b->decorators) {
          m.kind = decoratedKind(*d).value_or(m.kind);
          std::string_view name = decoratorName(*d);
          m.role = name == "staticmethod"  ? Role::Static
                   : name == "classmethod" ? Role::Class
                   : name == "property"    ? Role::Property
                                           : m.role;
        }
        c.methods.push_back(std::move(m));
      }
    }
    scope_.bindClass(s.name, std::move(c));
  }

  /// namedtuple("P", ["x", "y"]) or namedtuple("P", "x y").
  std::optional<Value> namedtuple(const Expr &call) {
    if (call.operands.size() < 3 || call.operands[1]->kind != ExprKind::Str)
      return std::nullopt;
    RecordClass c;
    c.name = call.operands[1]->text;
    const Expr &fields = *call.operands[2];
    if (fields.kind == ExprKind::Str) {
      std::string word;
      for (char ch : fields.text + " ")
        if (ch != ' ' && ch != ',')
          word += ch;
        else if (!word.empty())
          c.fields.push_back(std::exchange(word, {}));
    } else if (fields.kind == ExprKind::List || fields.kind == ExprKind::Tuple) {
      for (const Expr *f : fields.operands)
        c.fields.push_back(f->text);
    } else {
      return std::nullopt;
    }
    for (const syntax::Keyword &k : call.keywords)
      if (k.name == "defaults")
        for (const Expr *d : k.value->operands)
          c.defaults.push_back(evaluator_.evaluateHost(*d, scope_));
    return Value(std::make_shared<const RecordClass>(std::move(c)));
  }

  void assign(std::string_view name, const Expr &e, Loc loc) {
    if (e.kind == ExprKind::Call) {
      std::string_view callee = lastName(&e);
      if (callee == "namedtuple")
        if (std::optional<Value> v = namedtuple(e))
          return scope_.bind(name, {*v, true, loc});
      bool wraps = callee == "jit" && e.operands.size() == 2 && e.operands[1]->kind == ExprKind::Name;
      if (wraps && scope_.functionDef(e.operands[1]->name)) {
        scope_.setJit(e.operands[1]->name);
        if (name != e.operands[1]->name)
          scope_.bindAlias(name, e.operands[1]->name);
        return;
      }
      if (callee == "constexpr" && e.operands.size() == 2) {
        Value v = evaluator_.evaluateHost(*e.operands[1], scope_);
        return scope_.bind(name, {v.isError() ? opaque(std::string(e.loc.text())) : v, !v.isError(), loc});
      }
    }
    if (e.kind == ExprKind::Name && (scope_.functionDef(e.name) || scope_.isClass(e.name)))
      return scope_.bindAlias(name, e.name);
    Value v = evaluator_.evaluateHost(e, scope_);
    bool allowed = v.isDtype() || v.is<const lang::Builtin *>() || v.is<std::shared_ptr<const Function>>() ||
                   v.is<std::shared_ptr<const Module>>() || v.is<std::shared_ptr<const RecordClass>>() ||
                   v.is<std::shared_ptr<const lang::TypeValue>>() || v.isRecord();
    scope_.bind(name, {v.isError() ? opaque(std::string(name)) : v, allowed, loc});
  }

  FileScope &scope_;
  std::string folder_;
  FindFile load_;
  std::string decorator_;
  Stmt *self_ = nullptr;
  ir::Module scratch_;
  ir::Builder builder_;
  DiagEngine ignored_;
  Options options_;
  Evaluator evaluator_;
};

} // namespace

void bindTopLevel(FileScope &scope, std::string folder, const FindFile &load) {
  TopLevel(scope, std::move(folder), load).run(scope.tree->body);
}

bool isHostImport(const Value &v) {
  return v.is<std::shared_ptr<const OpaqueValue>>() && v.get<std::shared_ptr<const OpaqueValue>>()->id == importId;
}

Value Evaluator::evaluateHost(const Expr &e, const lang::Scope &scope) {
  // A file's statements share a budget, so that many expensive ones cost no more than one.
  constexpr uint64_t stepsPerStatement = 64;
  if (hostSteps_ > options_.maxSteps + stepsPerStatement * ++hostCalls_)
    return Value::error();
  Frame frame;
  frame.scope = &scope;
  frame.python = frame.moduleLevel = true;
  FrameScope current(*this, frame);
  stackBase_ = nullptr;
  steps_ = 0;
  aborted_ = false;
  Value v = eval(e);
  hostSteps_ += steps_;
  return v.isConstexpr() ? v : Value::error();
}

} // namespace tegula::sema
