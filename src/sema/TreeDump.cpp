// `--emit tree`: the instantiated statements, each expression with its type or compile-time value.
#include "sema/Evaluator.h"
#include "syntax/Parser.h"

namespace tegula::sema {

/// Nodes are entered before their children, so this reserves a line, which endNode fills in.
size_t Evaluator::beginNode(const Expr &e) {
  tree_.push_back({++treeIndent_, syntax::print(e)});
  return tree_.size() - 1;
}

void Evaluator::endNode(size_t node, const Value &v) {
  --treeIndent_;
  if (node < tree_.size())
    tree_[node].text += " : " + std::string(v.isTensor() ? "" : "constexpr ") + describe(v);
}

namespace {

std::string head(const Stmt &s) {
  auto text = [](const Expr *e) { return e ? syntax::print(*e) : std::string(); };
  switch (s.kind) {
  case StmtKind::If: return "if " + text(s.value);
  case StmtKind::For: return "for " + text(s.targets[0]) + " in " + text(s.value);
  case StmtKind::While: return "while " + text(s.value);
  default: {
    std::string_view t = s.loc.text();
    return std::string(t.substr(0, t.find('\n')));
  }
  }
}

} // namespace

void Evaluator::dumpStmt(const Stmt &s) {
  std::string line = s.loc.file ? std::to_string(s.loc.file->lineCol(s.loc.begin).line) : "?";
  tree_.push_back({treeIndent_, line + ": " + head(s)});
}

std::string Evaluator::treeText() const {
  std::string out;
  for (const TreeLine &l : tree_)
    out += std::string(2 * l.indent, ' ') + l.text + "\n";
  return out;
}

} // namespace tegula::sema
