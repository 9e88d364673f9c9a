// Walks over trees, and nearest names for suggestions.
#include "sema/Syntactic.h"
#include "support/Text.h"
#include <algorithm>

namespace tegula::sema {

using syntax::Expr;
using syntax::ExprKind;
using syntax::Stmt;
using syntax::StmtKind;

/// Up to this number of names, a linear search is faster.
static constexpr size_t fewNames = 16;

bool NameSet::insert(std::string_view n) {
  if (contains(n))
    return false;
  names_.push_back(n);
  if (names_.size() == fewNames + 1)
    index_.insert(names_.begin(), names_.end());
  else if (names_.size() > fewNames)
    index_.insert(n);
  return true;
}

bool NameSet::contains(std::string_view n) const {
  return index_.empty() ? std::find(names_.begin(), names_.end(), n) != names_.end() : index_.contains(n);
}

void walk(const Expr &e, const std::function<void(const Expr &)> &fn) {
  fn(e);
  for (const Expr *o : e.operands)
    if (o)
      walk(*o, fn);
  for (const syntax::Keyword &k : e.keywords)
    if (k.value)
      walk(*k.value, fn);
  for (const syntax::Comprehension &g : e.generators) {
    if (g.target)
      walk(*g.target, fn);
    if (g.iter)
      walk(*g.iter, fn);
    for (const Expr *c : g.conds)
      walk(*c, fn);
  }
  for (const syntax::FStringPart &p : e.parts) {
    if (p.value)
      walk(*p.value, fn);
    if (p.spec)
      walk(*p.spec, fn);
  }
}

void walk(Stmts body, const std::function<void(const Stmt &)> &fn) {
  for (const Stmt *s : body) {
    fn(*s);
    walk(s->body, fn);
    walk(s->orelse, fn);
    walk(s->finalbody, fn);
    for (const syntax::ExceptHandler &h : s->handlers)
      walk(h.body, fn);
    for (const syntax::MatchCase &c : s->cases)
      walk(c.body, fn);
  }
}

std::vector<const Expr *> expressionsOf(const Stmt &s) {
  std::vector<const Expr *> out(s.targets.begin(), s.targets.end());
  auto add = [&](const Expr *e) {
    if (e)
      out.push_back(e);
  };
  add(s.value);
  // An annotation does not name a value of the kernel.
  if (s.kind != StmtKind::AnnAssign && s.kind != StmtKind::FunctionDef)
    add(s.extra);
  for (const syntax::WithItem &w : s.items) {
    add(w.context);
    add(w.target);
  }
  for (const syntax::MatchCase &c : s.cases) {
    add(c.pattern);
    add(c.guard);
  }
  return out;
}

bool isGenerator(const Stmt &def) {
  std::function<bool(Stmts)> yields = [&](Stmts body) {
    for (const Stmt *s : body) {
      if (s->kind == StmtKind::FunctionDef)
        continue;
      bool found = false;
      for (const Expr *e : expressionsOf(*s))
        walk(*e, [&](const Expr &x) { found |= x.kind == ExprKind::Yield || x.kind == ExprKind::YieldFrom; });
      found = found || yields(s->body) || yields(s->orelse) || yields(s->finalbody);
      for (const syntax::ExceptHandler &h : s->handlers)
        found = found || yields(h.body);
      for (const syntax::MatchCase &c : s->cases)
        found = found || yields(c.body);
      if (found)
        return true;
    }
    return false;
  };
  return yields(def.body);
}

namespace {

void addTarget(const Expr *t, NameSet &out) {
  if (!t)
    return;
  if (t->kind == ExprKind::Name)
    out.insert(t->name);
  else if (t->kind == ExprKind::Tuple || t->kind == ExprKind::List || t->kind == ExprKind::Starred)
    for (const Expr *o : t->operands)
      addTarget(o, out);
}

/// The names that a pattern of `match` binds: those that are not a class or the object of an attribute.
void addCaptured(const Expr &pattern, NameSet &out) {
  if (pattern.kind == ExprKind::Name && pattern.name != "_")
    out.insert(pattern.name);
  if (pattern.kind == ExprKind::NamedExpr)
    out.insert(pattern.name);
  if (pattern.kind == ExprKind::Attribute)
    return;
  for (size_t i = pattern.kind == ExprKind::Call; i < pattern.operands.size(); ++i)
    if (pattern.operands[i])
      addCaptured(*pattern.operands[i], out);
}

NameSet collect(Stmts body, bool withLoopTargets) {
  NameSet out;
  walk(body, [&](const Stmt &s) {
    if (s.kind != StmtKind::For || withLoopTargets)
      addAssigned(s, out);
    for (const Expr *e : expressionsOf(s))
      addAssigned(*e, out);
  });
  return out;
}

bool isTargetOfNames(const Expr *e) {
  return e->kind == ExprKind::Name || e->kind == ExprKind::Tuple || e->kind == ExprKind::List ||
         e->kind == ExprKind::Starred;
}

} // namespace

void addAssigned(const Stmt &s, NameSet &out) {
  switch (s.kind) {
  case StmtKind::Assign:
  case StmtKind::AugAssign:
  case StmtKind::AnnAssign:
  case StmtKind::For:
    for (const Expr *t : s.targets)
      addTarget(t, out);
    break;
  case StmtKind::With:
    for (const syntax::WithItem &w : s.items)
      addTarget(w.target, out);
    break;
  case StmtKind::Match:
    for (const syntax::MatchCase &c : s.cases)
      addCaptured(*c.pattern, out);
    break;
  case StmtKind::FunctionDef:
  case StmtKind::ClassDef:
    out.insert(s.name);
    break;
  case StmtKind::Import:
  case StmtKind::ImportFrom:
    for (const syntax::Alias &a : s.names)
      out.insert(a.asName.empty() ? a.name.substr(0, a.name.find('.')) : a.asName);
    break;
  default:
    break;
  }
}

std::vector<const Expr *> readBy(const Stmt &s) {
  std::vector<const Expr *> out = expressionsOf(s);
  if (s.kind == StmtKind::AugAssign)
    return out;
  auto isTarget = [&](const Expr *e) {
    bool of = std::find(s.targets.begin(), s.targets.end(), e) != s.targets.end();
    for (const syntax::WithItem &w : s.items)
      of |= w.target == e;
    return of && isTargetOfNames(e);
  };
  std::erase_if(out, isTarget);
  return out;
}

void addAssigned(const Expr &e, NameSet &out) {
  walk(e, [&](const Expr &x) {
    if (x.kind == ExprKind::NamedExpr)
      out.insert(x.name);
    for (const syntax::Comprehension &g : x.generators)
      addTarget(g.target, out);
  });
}

NameSet assignedNames(Stmts body) { return collect(body, true); }
NameSet reassignedNames(Stmts body) { return collect(body, false); }

Exits exitsOf(Stmts body) {
  Exits out;
  for (const Stmt *s : body) {
    out.leaves |= s->kind == StmtKind::Break || s->kind == StmtKind::Continue;
    out.returns |= s->kind == StmtKind::Return;
    bool isLoop = s->kind == StmtKind::For || s->kind == StmtKind::While;
    Exits inner = exitsOf(s->body), after = exitsOf(s->orelse);
    out.leaves |= (inner.leaves && !isLoop) || after.leaves;
    out.returns |= inner.returns || after.returns;
  }
  return out;
}

std::string_view lastName(const Expr *e) {
  if (!e)
    return {};
  if (e->kind == ExprKind::Call)
    return lastName(e->operands[0]);
  return e->kind == ExprKind::Name || e->kind == ExprKind::Attribute ? e->name : std::string_view();
}

bool isConstexprAnnotation(const Expr *e) {
  if (!e)
    return false;
  if (e->kind == ExprKind::Str)
    return e->text == "constexpr" || e->text.ends_with(".constexpr");
  return e->kind != ExprKind::Call && lastName(e) == "constexpr";
}

std::string nearestName(std::string_view name, const std::vector<std::string> &candidates) {
  // A single letter is close to every other one.
  if (name.size() < 2)
    return {};
  std::vector<std::string_view> views(candidates.begin(), candidates.end());
  return std::string(nearest(name, views));
}

std::string_view kernelSpelling(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> spellings[] = {
      {"all", "tl.min(x.to(tl.int32), axis)"},
      {"any", "tl.max(x.to(tl.int32), axis)"},
      {"bmm", "tl.dot(a, b)"},
      {"clip", "tl.clamp(x, min, max)"},
      {"concat", "tl.cat(a, b, can_reorder=True) or tl.join(a, b)"},
      {"concatenate", "tl.cat(a, b, can_reorder=True) or tl.join(a, b)"},
      {"empty", "tl.zeros(shape, dtype)"},
      {"inf", "float(\"inf\")"},
      {"matmul", "tl.dot(a, b)"},
      {"mean", "tl.sum(x, axis) / n"},
      {"mm", "tl.dot(a, b)"},
      {"nan", "float(\"nan\")"},
      {"ones", "tl.full(shape, 1, dtype)"},
      {"relu", "tl.maximum(x, 0)"},
      {"sign", "tl.where(x > 0, 1, tl.where(x < 0, -1, 0))"},
      {"square", "x * x"},
      {"stack", "tl.join(a, b)"},
      {"transpose", "tl.trans(x)"},
      {"var", "tl.sum((x - mean) * (x - mean), axis) / n"},
  };
  for (auto &[known, here] : spellings)
    if (known == name)
      return here;
  return {};
}

} // namespace tegula::sema
