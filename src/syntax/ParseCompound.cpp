// Compound statements: everything that ends in a colon and owns a block.
#include "syntax/ParserImpl.h"
#include <unordered_set>
#include <utility>

namespace tegula::syntax {

Stmt *Parser::compound() {
  uint32_t begin = tok().begin;
  if (is("@")) return decorated();
  if (!at(Tok::Name)) return nullptr;
  if (is("if")) return ifStatement();
  if (is("for")) return forStatement(begin, false);
  if (is("while")) return whileStatement();
  if (is("try")) return tryStatement();
  if (is("with")) return withStatement(begin, false);
  if (is("def")) return functionDef({}, begin, false);
  if (is("class")) return classDef({}, begin);
  if (is("async")) {
    ++pos_;
    if (is("def")) return functionDef({}, begin, true);
    if (is("for")) return forStatement(begin, true);
    if (is("with")) return withStatement(begin, true);
    error(diag::expectedToken, here(), "def", describe(tok()));
    return nullptr;
  }
  if (startsMatch()) return matchStatement();
  return nullptr;
}

// `:` and then an indented block, or simple statements on the same line.
void Parser::block(std::vector<Stmt *> &out, const char *what) {
  if (panicking_) return;
  if (!eat(":")) {
    if (is("=")) error(diag::assignInCondition, here());
    else error(diag::expectedColon, here(), what);
    return;
  }
  if (!at(Tok::Newline)) return simpleLine(out);
  ++pos_;
  if (!at(Tok::Indent)) {
    // Reported without panic: the next line is a statement of its own.
    diag_.report(diag::expectedIndent, Loc{&tree_.file(), tok().begin, tok().begin + (tok().end > tok().begin)}, what);
    return;
  }
  ++pos_;
  statements(out);
  if (at(Tok::Dedent)) ++pos_;
}

/// A condition with its block.
Stmt *Parser::ifArm(bool elif) {
  uint32_t begin = tok().begin;
  ++pos_;
  Stmt *s = tree_.newStmt(StmtKind::If, {});
  s->isElif = elif;
  s->value = namedExpression();
  s->headLoc = since(begin);
  block(s->body, elif ? "`elif`" : "`if`");
  s->loc = since(begin);
  return s;
}

// Each `elif` is a level of the tree, though the parser has none for it. After the last one that may nest, the others
// are parsed for their own mistakes alone.
Stmt *Parser::ifStatement() {
  constexpr unsigned maxElifs = 500;
  unsigned outer = elifs_;
  std::vector<Stmt *> arms = {ifArm(false)};
  while (!panicking_ && is("elif")) {
    if (++elifs_ == maxElifs + 1) diag_.report(diag::manyElifs, here(), maxElifs);
    Stmt *arm = ifArm(true);
    if (elifs_ > maxElifs) continue;
    arms.back()->orelse.push_back(arm);
    arms.push_back(arm);
  }
  if (!panicking_ && eat("else")) {
    if (is("if")) error(diag::elseIf, since(tokens_[pos_ - 1].begin));
    block(arms.back()->orelse, "`else`");
  }
  for (Stmt *arm : arms) arm->loc = since(arm->loc.begin);
  elifs_ = outer;
  return arms[0];
}

Stmt *Parser::forStatement(uint32_t begin, bool async) {
  ++pos_;
  Stmt *s = tree_.newStmt(StmtKind::For, {});
  s->isAsync = async;
  Expr *target = targetList();
  checkTarget(target, "for");
  s->targets.push_back(target);
  expect("in");
  s->value = starExpressions();
  s->headLoc = since(begin);
  block(s->body, "`for`");
  if (!panicking_ && eat("else")) block(s->orelse, "`else`");
  s->loc = since(begin);
  return s;
}

Stmt *Parser::whileStatement() {
  uint32_t begin = tok().begin;
  ++pos_;
  Stmt *s = tree_.newStmt(StmtKind::While, {});
  s->value = namedExpression();
  s->headLoc = since(begin);
  block(s->body, "`while`");
  if (!panicking_ && eat("else")) block(s->orelse, "`else`");
  s->loc = since(begin);
  return s;
}

Stmt *Parser::tryStatement() {
  uint32_t begin = tok().begin;
  ++pos_;
  Stmt *s = tree_.newStmt(StmtKind::Try, {});
  s->headLoc = since(begin);
  block(s->body, "`try`");
  while (!panicking_ && eat("except")) {
    ExceptHandler h;
    bool star = eat("*");
    s->isTryStar |= star;
    if (star || !is(":")) {
      h.type = starExpressions();
      if (eat("as")) h.name = name("except");
    }
    block(h.body, "`except`");
    s->handlers.push_back(std::move(h));
  }
  bool handled = !s->handlers.empty();
  if (!panicking_ && handled && eat("else")) block(s->orelse, "`else`");
  if (!panicking_ && eat("finally")) block(s->finalbody, "`finally`");
  else if (!panicking_ && !handled) error(diag::tryAlone, Loc{&tree_.file(), begin, begin + 3});
  s->loc = since(begin);
  return s;
}

Stmt *Parser::withStatement(uint32_t begin, bool async) {
  ++pos_;
  Stmt *s = tree_.newStmt(StmtKind::With, {});
  s->isAsync = async;
  // `with (a as x, b as y):` — a parenthesis that closes right before the colon and holds an `as` or a comma at its
  // level.
  bool grouped = false;
  if (is("(")) {
    int nesting = 0;
    bool inner = false;
    for (unsigned i = 0; tok(i).kind != Tok::Newline && tok(i).kind != Tok::End; ++i) {
      if (tok(i).kind == Tok::Op && std::string_view("([{").find(text(tok(i))[0]) != std::string_view::npos) ++nesting;
      if (nesting == 1 && is("as", i)) inner = true;
      if (tok(i).kind == Tok::Op && std::string_view(")]}").find(text(tok(i))[0]) != std::string_view::npos &&
          --nesting == 0) {
        grouped = inner && is(":", i + 1);
        break;
      }
    }
  }
  if (grouped) ++pos_;
  do {
    if (grouped && is(")")) break;
    WithItem item;
    item.context = expression();
    if (eat("as")) {
      item.target = is("*") ? starOrNamed() : primary();
      checkTarget(item.target, "with");
    }
    s->items.push_back(item);
  } while (eat(",") && !panicking_);
  if (grouped) expect(")");
  s->headLoc = since(begin);
  block(s->body, "`with`");
  s->loc = since(begin);
  return s;
}

Stmt *Parser::decorated() {
  uint32_t begin = tok().begin;
  std::vector<Expr *> decorators;
  while (eat("@")) {
    decorators.push_back(namedExpression());
    if (panicking_) return nullptr;
    if (!at(Tok::Newline)) {
      error(diag::expectedStatementEnd, here(), describe(tok()));
      return nullptr;
    }
    ++pos_;
  }
  bool async = eat("async");
  if (is("def")) return functionDef(std::move(decorators), begin, async);
  if (is("class")) return classDef(std::move(decorators), begin);
  error(diag::expectedToken, here(), "def", describe(tok()));
  return nullptr;
}

void Parser::skipTypeParams() {
  if (!eat("[")) return;
  int nesting = 1;
  while (nesting && !at(Tok::Newline) && !at(Tok::End)) {
    if (is("[")) ++nesting;
    if (is("]")) --nesting;
    ++pos_;
  }
}

std::vector<Param> Parser::parameters(std::string_view close, bool annotations) {
  std::vector<Param> out;
  Param::Kind kind = Param::Kind::Normal;
  bool sawDefault = false, sawDoubleStar = false, sawSlash = false;
  std::unordered_set<std::string_view> names;
  while (!is(close) && !panicking_) {
    uint32_t begin = tok().begin;
    Param p;
    p.kind = kind;
    if (eat("/")) {
      if (out.empty() || kind != Param::Kind::Normal || std::exchange(sawSlash, true))
        error(diag::badParameter, since(begin),
              sawSlash && !out.empty() ? "a second `/`" : "`/` must follow a parameter");
      for (Param &q : out) q.kind = Param::Kind::PositionalOnly;
    } else if (is("*") && (is(",", 1) || is(close, 1))) {
      ++pos_;
      if (kind == Param::Kind::KeywordOnly) error(diag::badParameter, since(begin), "a second `*`");
      kind = Param::Kind::KeywordOnly;
    } else {
      if (sawDoubleStar) error(diag::badParameter, here(), "nothing may follow `**`");
      if (eat("**")) p.kind = Param::Kind::DoubleStar, sawDoubleStar = true;
      else if (eat("*")) p.kind = Param::Kind::Star, kind = Param::Kind::KeywordOnly;
      p.name = name("parameter");
      if (annotations && eat(":")) p.annotation = is("*") ? starOrNamed() : expression();
      if (eat("=")) {
        p.defaultValue = expression();
        sawDefault = true;
      } else if (sawDefault && p.kind == Param::Kind::Normal && !panicking_) {
        error(diag::badParameter, since(begin), "a parameter without default follows one with a default");
      }
      p.loc = since(begin);
      if (!p.name.empty() && !names.insert(p.name).second)
        error(diag::badParameter, p.loc, "`" + std::string(p.name) + "` appears twice");
      out.push_back(p);
    }
    if (!eat(",")) break;
  }
  return out;
}

Stmt *Parser::functionDef(std::vector<Expr *> decorators, uint32_t begin, bool async) {
  ++pos_; // def
  Stmt *s = tree_.newStmt(StmtKind::FunctionDef, {});
  s->isAsync = async;
  s->decorators = std::move(decorators);
  s->nameLoc = here();
  s->name = name("function");
  skipTypeParams();
  if (expect("(")) {
    s->params = parameters(")", true);
    expect(")");
  }
  if (eat("->")) s->extra = expression();
  s->headLoc = since(begin);
  block(s->body, "`def`");
  s->loc = since(begin);
  return s;
}

Stmt *Parser::classDef(std::vector<Expr *> decorators, uint32_t begin) {
  ++pos_; // class
  Stmt *s = tree_.newStmt(StmtKind::ClassDef, {});
  s->decorators = std::move(decorators);
  s->nameLoc = here();
  s->name = name("class");
  skipTypeParams();
  if (is("(")) {
    Expr *call = tree_.newExpr(ExprKind::Call, here());
    arguments(call);
    s->bases = call->operands;
    s->keywords = call->keywords;
  }
  s->headLoc = since(begin);
  block(s->body, "`class`");
  s->loc = since(begin);
  return s;
}

// `match` is a keyword only before a subject, a colon, and an indented `case`.
bool Parser::startsMatch() const {
  if (!is("match") || is("=", 1) || is(".", 1)) return false;
  unsigned i = 1;
  while (tok(i).kind != Tok::Newline && tok(i).kind != Tok::End) ++i;
  return i > 1 && is(":", i - 1) && tok(i + 1).kind == Tok::Indent && is("case", i + 2);
}

Stmt *Parser::matchStatement() {
  uint32_t begin = tok().begin;
  ++pos_;
  Stmt *s = tree_.newStmt(StmtKind::Match, {});
  s->value = starExpressions();
  s->headLoc = since(begin);
  expect(":");
  if (panicking_) return nullptr;
  pos_ += 2; // Newline, Indent
  while (is("case") && !panicking_) {
    ++pos_;
    MatchCase c;
    inPattern_ = true;
    c.pattern = starExpressions();
    inPattern_ = false;
    if (eat("if")) c.guard = namedExpression();
    block(c.body, "`case`");
    s->cases.push_back(std::move(c));
    while (at(Tok::Newline)) ++pos_;
  }
  inPattern_ = false;
  if (!panicking_) {
    if (at(Tok::Dedent)) ++pos_;
    else error(diag::expectedToken, here(), "case", describe(tok()));
  }
  s->loc = since(begin);
  return s;
}

} // namespace tegula::syntax
