// Properties of a function that follow from its text alone: names it assigns, names it reads, whether it returns.
#pragma once
#include "syntax/Ast.h"
#include <functional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace tegula::sema {

using Stmts = std::span<syntax::Stmt *const>;

/// A set of names in order of first appearance.
class NameSet {
public:
  bool insert(std::string_view n);
  bool contains(std::string_view n) const;
  auto begin() const { return names_.begin(); }
  auto end() const { return names_.end(); }
  bool empty() const { return names_.empty(); }

private:
  std::vector<std::string_view> names_;
  std::unordered_set<std::string_view> index_; // of all names once there are many
};

/// Names bound by the statements, at any depth: assignments, loop targets, walrus, comprehension variables, imports,
/// `with ... as`.
NameSet assignedNames(Stmts body);
/// Names bound by anything but the target of a `for` (a `for` target is never carried around an outer loop).
NameSet reassignedNames(Stmts body);
void addAssigned(const syntax::Expr &e, NameSet &out);
/// The names that the statement itself binds, without nested statements.
void addAssigned(const syntax::Stmt &s, NameSet &out);
/// Ways out of the body of a loop other than its end: `break` and `continue` of the loop itself, `return` at any depth.
struct Exits {
  bool leaves = false, returns = false;
};
Exits exitsOf(Stmts body);

/// Does a `yield` of its own make it a generator?
bool isGenerator(const syntax::Stmt &def);

/// Calls `fn` for every expression below `e` (e first).
void walk(const syntax::Expr &e, const std::function<void(const syntax::Expr &)> &fn);
/// Calls `fn` for every statement in `body` and below it.
void walk(Stmts body, const std::function<void(const syntax::Stmt &)> &fn);
/// The expressions directly in a statement (not those of nested statements).
std::vector<const syntax::Expr *> expressionsOf(const syntax::Stmt &s);
/// Those of them that are not names bound by the statement.
std::vector<const syntax::Expr *> readBy(const syntax::Stmt &s);

/// The last identifier of a dotted name or of the callee of a call: `triton.jit`, `jit(...)` -> "jit"; else empty.
std::string_view lastName(const syntax::Expr *e);
/// Is the annotation `tl.constexpr` (also as a string)?
bool isConstexprAnnotation(const syntax::Expr *e);

/// The candidate nearest to `name`; empty if none is near enough.
std::string nearestName(std::string_view name, const std::vector<std::string> &candidates);

/// How kernels spell what NumPy and PyTorch call `name`; empty if unknown.
std::string_view kernelSpelling(std::string_view name);

} // namespace tegula::sema
