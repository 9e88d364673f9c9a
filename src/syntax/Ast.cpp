// Storage of trees and the spellings of operators.
#include "syntax/Ast.h"
#include <deque>

namespace tegula::syntax {

struct Tree::Storage {
  std::deque<Expr> exprs;
  std::deque<Stmt> stmts;
  std::deque<std::string> strings;
};

Tree::Tree(std::shared_ptr<const SourceFile> file) : file_(std::move(file)), storage_(std::make_unique<Storage>()) {}
Tree::~Tree() = default;

Expr *Tree::newExpr(ExprKind k, Loc loc) {
  Expr &e = storage_->exprs.emplace_back();
  e.kind = k;
  e.loc = loc;
  return &e;
}

Stmt *Tree::newStmt(StmtKind k, Loc loc) {
  Stmt &s = storage_->stmts.emplace_back();
  s.kind = k;
  s.loc = loc;
  return &s;
}

std::string_view Tree::intern(std::string_view s) { return storage_->strings.emplace_back(s); }

const char *spelling(UnaryOp op) {
  static const char *names[] = {"-", "+", "~", "not"};
  return names[static_cast<int>(op)];
}
const char *spelling(BinaryOp op) {
  static const char *names[] = {"+", "-", "*", "@", "/", "//", "%", "**", "<<", ">>", "&", "|", "^"};
  return names[static_cast<int>(op)];
}
const char *spelling(CmpOp op) {
  static const char *names[] = {"==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in"};
  return names[static_cast<int>(op)];
}

} // namespace tegula::syntax
