// Bounds the height of expression trees.
//
// The parser bounds its own recursion, but chains such as a.b.c... and a + b + ... are parsed by loops and still make
// trees that are as high as the chain is long. Everything after the parser walks trees by recursion, so higher ones are
// replaced by Error nodes here.
#include "syntax/Diagnostics.h"
#include "syntax/ParserImpl.h"

namespace tegula::syntax {
namespace {

// Deeper than any real program; shallow enough for a thread's stack in the walk with the largest frames.
constexpr unsigned maxHeight = 500;

class NestingCheck {
public:
  NestingCheck(Tree &tree, DiagEngine &diag) : tree_(tree), diag_(diag) {}

  // Statements nest at most as deeply as the parser allows.
  void body(std::vector<Stmt *> &stmts) {
    for (Stmt *s : stmts) stmt(*s);
  }

private:
  struct Item {
    const Expr *expr;
    unsigned level;
  };

  void stmt(Stmt &s) {
    for (Expr *&e : s.targets) root(e);
    root(s.value);
    root(s.extra);
    for (Expr *&e : s.decorators) root(e);
    for (Expr *&e : s.bases) root(e);
    for (Keyword &k : s.keywords) root(k.value);
    for (Param &p : s.params) root(p.annotation), root(p.defaultValue);
    for (WithItem &i : s.items) root(i.context), root(i.target);
    for (ExceptHandler &h : s.handlers) root(h.type), body(h.body);
    for (MatchCase &c : s.cases) root(c.pattern), root(c.guard), body(c.body);
    body(s.body);
    body(s.orelse);
    body(s.finalbody);
  }

  // Walks with a stack of its own.
  void root(Expr *&top) {
    if (!top) return;
    work_.assign(1, {top, 1});
    while (!work_.empty()) {
      auto [e, level] = work_.back();
      work_.pop_back();
      if (level > maxHeight) {
        diag_.report(diag::longChain, Loc{top->loc.file, top->loc.begin, top->loc.begin + 1}, maxHeight);
        top = tree_.newExpr(ExprKind::Error, top->loc);
        return;
      }
      auto push = [&, level = level](const Expr *child) {
        if (child) work_.push_back({child, level + 1});
      };
      for (const Expr *o : e->operands) push(o);
      for (const Keyword &k : e->keywords) push(k.value);
      for (const FStringPart &p : e->parts) push(p.value), push(p.spec);
      for (const Param &p : e->params) push(p.annotation), push(p.defaultValue);
      for (const Comprehension &c : e->generators) {
        push(c.target), push(c.iter);
        for (const Expr *i : c.conds) push(i);
      }
    }
  }

  Tree &tree_;
  DiagEngine &diag_;
  std::vector<Item> work_;
};

} // namespace

void boundHeight(Tree &tree, DiagEngine &diag) { NestingCheck(tree, diag).body(tree.body); }

} // namespace tegula::syntax
