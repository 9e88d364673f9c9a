// Expressions by precedence; the order of functions is the order of the grammar
// (docs.python.org/3.12/reference/grammar.html).
#include "syntax/ParserImpl.h"

namespace tegula::syntax {

bool Parser::tooDeep() {
  if (depth_ <= 200) return false;
  error(diag::tooDeep, here());
  return true;
}

Expr *Parser::starExpressions() {
  uint32_t begin = tok().begin;
  Expr *first = starOrNamed();
  if (!is(",")) return first;
  Expr *t = tree_.newExpr(ExprKind::Tuple, {});
  t->operands.push_back(first);
  while (eat(",")) {
    // A trailing comma ends the tuple before whatever can follow an expression.
    if (at(Tok::Newline) || at(Tok::End) || is(")") || is("]") || is("}") || is("=") || is(":") || is(";")) break;
    t->operands.push_back(starOrNamed());
    if (panicking_) break;
  }
  t->loc = since(begin);
  return t;
}

Expr *Parser::starOrNamed() {
  if (!is("*")) return namedExpression();
  uint32_t begin = tok().begin;
  ++pos_;
  Expr *e = tree_.newExpr(ExprKind::Starred, {});
  e->operands.push_back(binary(0));
  e->loc = since(begin);
  return e;
}

Expr *Parser::namedExpression() {
  uint32_t begin = tok().begin;
  if (atName() && is(":=", 1)) {
    Expr *e = tree_.newExpr(ExprKind::NamedExpr, {});
    e->name = text(tok());
    e->nameLoc = here();
    pos_ += 2;
    e->operands.push_back(expression());
    e->loc = since(begin);
    return e;
  }
  Expr *e = expression();
  if (inPattern_ && eat("as")) {
    Expr *n = tree_.newExpr(ExprKind::NamedExpr, {});
    n->name = name("pattern");
    n->operands.push_back(e);
    n->loc = since(begin);
    return n;
  }
  return e;
}

Expr *Parser::expression() {
  if (is("lambda")) return lambda();
  uint32_t begin = tok().begin;
  Expr *e = orTest();
  if (inPattern_ || !is("if")) return e;
  ++pos_;
  Expr *c = tree_.newExpr(ExprKind::IfExp, {});
  Expr *test = orTest();
  if (!expect("else")) return e;
  Depth depth(*this);
  if (tooDeep()) return e;
  c->operands = {test, e, expression()};
  c->loc = since(begin);
  return c;
}

Expr *Parser::lambda() {
  uint32_t begin = tok().begin;
  ++pos_;
  Depth depth(*this);
  if (tooDeep()) return errorExpr(here());
  Expr *e = tree_.newExpr(ExprKind::Lambda, {});
  e->params = parameters(":", false);
  expect(":");
  e->operands.push_back(expression());
  e->loc = since(begin);
  return e;
}

Expr *Parser::orTest() {
  uint32_t begin = tok().begin;
  Expr *e = andTest();
  if (!is("or")) return e;
  Expr *b = tree_.newExpr(ExprKind::BoolOp, {});
  b->operands.push_back(e);
  b->opLoc = here();
  while (eat("or")) b->operands.push_back(andTest());
  b->loc = since(begin);
  return b;
}

Expr *Parser::andTest() {
  uint32_t begin = tok().begin;
  Expr *e = notTest();
  if (!is("and")) return e;
  Expr *b = tree_.newExpr(ExprKind::BoolOp, {});
  b->isAnd = true;
  b->operands.push_back(e);
  b->opLoc = here();
  while (eat("and")) b->operands.push_back(notTest());
  b->loc = since(begin);
  return b;
}

Expr *Parser::notTest() {
  if (!is("not")) return comparison();
  Depth depth(*this);
  if (tooDeep()) return errorExpr(here());
  Expr *e = tree_.newExpr(ExprKind::Unary, {});
  uint32_t begin = tok().begin;
  e->unaryOp = UnaryOp::Not;
  e->opLoc = here();
  ++pos_;
  e->operands.push_back(notTest());
  e->loc = since(begin);
  return e;
}

Expr *Parser::comparison() {
  uint32_t begin = tok().begin;
  Expr *e = binary(0);
  Expr *c = nullptr;
  while (true) {
    static constexpr std::pair<std::string_view, CmpOp> table[] = {
        {"==", CmpOp::Eq}, {"!=", CmpOp::NotEq}, {"<", CmpOp::Lt},  {"<=", CmpOp::LtE},
        {">", CmpOp::Gt},  {">=", CmpOp::GtE},   {"is", CmpOp::Is}, {"in", CmpOp::In}};
    CmpOp op{};
    unsigned length = 0;
    for (auto [s, o] : table)
      if (is(s)) op = o, length = 1;
    if (is("is") && is("not", 1)) op = CmpOp::IsNot, length = 2;
    if (is("not") && is("in", 1)) op = CmpOp::NotIn, length = 2;
    if (!length) break;
    if (!c) {
      c = tree_.newExpr(ExprKind::Compare, {});
      c->operands.push_back(e);
      c->opLoc = Loc::cover(here(), loc(tok(length - 1)));
    }
    pos_ += length;
    c->cmpOps.push_back(op);
    c->operands.push_back(binary(0));
  }
  if (!c) return e;
  c->loc = since(begin);
  return c;
}

namespace {
struct BinaryRow {
  std::string_view text;
  BinaryOp op;
  unsigned precedence;
};
constexpr BinaryRow binaryTable[] = {
    {"|", BinaryOp::BitOr, 1},   {"^", BinaryOp::BitXor, 2},  {"&", BinaryOp::BitAnd, 3}, {"<<", BinaryOp::LShift, 4},
    {">>", BinaryOp::RShift, 4}, {"+", BinaryOp::Add, 5},     {"-", BinaryOp::Sub, 5},    {"*", BinaryOp::Mult, 6},
    {"/", BinaryOp::Div, 6},     {"//", BinaryOp::FloorDiv, 6}, {"%", BinaryOp::Mod, 6},  {"@", BinaryOp::MatMult, 6}};
} // namespace

Expr *Parser::newBinary(BinaryOp op, Expr *l, Expr *r, Loc opLoc) {
  Expr *e = tree_.newExpr(ExprKind::Binary, Loc::cover(l->loc, r->loc));
  e->binaryOp = op;
  e->operands = {l, r};
  e->opLoc = opLoc;
  return e;
}

Expr *Parser::binary(unsigned minPrecedence) {
  uint32_t begin = tok().begin;
  Expr *l = unary();
  while (at(Tok::Op)) {
    const BinaryRow *row = nullptr;
    for (auto &r : binaryTable)
      if (text(tok()) == r.text) row = &r;
    if (!row || row->precedence <= minPrecedence) break;
    Loc opLoc = here();
    ++pos_;
    Expr *r = binary(row->precedence);
    l = newBinary(row->op, l, r, opLoc);
    l->loc = since(begin);
    if (panicking_) break;
  }
  return l;
}

Expr *Parser::unary() {
  static constexpr std::pair<std::string_view, UnaryOp> table[] = {
      {"-", UnaryOp::Neg}, {"+", UnaryOp::Pos}, {"~", UnaryOp::Invert}};
  if (at(Tok::Op)) {
    for (auto [s, op] : table) {
      if (text(tok()) != s) continue;
      Depth depth(*this);
      if (tooDeep()) return errorExpr(here());
      uint32_t begin = tok().begin;
      Expr *e = tree_.newExpr(ExprKind::Unary, {});
      e->unaryOp = op;
      e->opLoc = here();
      ++pos_;
      e->operands.push_back(unary());
      e->loc = since(begin);
      return e;
    }
  }
  return power();
}

Expr *Parser::power() {
  uint32_t begin = tok().begin;
  Expr *e;
  if (is("await")) {
    ++pos_;
    e = tree_.newExpr(ExprKind::Await, {});
    e->operands.push_back(primary());
    e->loc = since(begin);
  } else {
    e = primary();
  }
  if (!is("**")) return e;
  Loc opLoc = here();
  ++pos_;
  Depth depth(*this);
  if (tooDeep()) return e;
  Expr *r = unary(); // right-associative, binds tighter than a unary operator on its left only
  e = newBinary(BinaryOp::Pow, e, r, opLoc);
  e->loc = since(begin);
  return e;
}

Expr *Parser::primary() {
  uint32_t begin = tok().begin;
  Expr *e = atom();
  while (!panicking_) {
    if (is(".")) {
      ++pos_;
      Expr *a = tree_.newExpr(ExprKind::Attribute, {});
      a->nameLoc = here();
      a->name = name("attribute");
      a->operands.push_back(e);
      a->loc = since(begin);
      e = a;
    } else if (is("(")) {
      Expr *c = tree_.newExpr(ExprKind::Call, {});
      c->operands.push_back(e);
      arguments(c);
      c->loc = since(begin);
      e = c;
    } else if (is("[")) {
      ++pos_;
      Depth depth(*this);
      if (tooDeep()) break;
      Expr *s = tree_.newExpr(ExprKind::Subscript, {});
      s->operands = {e, subscriptIndex()};
      expect("]");
      s->loc = since(begin);
      e = s;
    } else {
      break;
    }
  }
  return e;
}

void Parser::arguments(Expr *call) {
  ++pos_; // (
  Depth depth(*this);
  if (tooDeep()) return;
  bool sawKeyword = false, sawDoubleStar = false;
  while (!is(")") && !panicking_) {
    uint32_t begin = tok().begin;
    if (eat("**")) {
      call->keywords.push_back({{}, expression(), since(begin)});
      sawKeyword = sawDoubleStar = true;
    } else if (is("*")) {
      if (sawDoubleStar) error(diag::keywordBeforePositional, here());
      Expr *star = tree_.newExpr(ExprKind::Starred, {});
      ++pos_;
      star->operands.push_back(expression()); // wider than the stars of displays
      star->loc = since(begin);
      call->operands.push_back(star);
    } else if (atName() && is("=", 1)) {
      std::string_view key = text(tok());
      pos_ += 2;
      Expr *v = expression();
      if (inPattern_ && eat("as")) name("pattern");
      call->keywords.push_back({key, v, since(begin)});
      sawKeyword = true;
    } else {
      Expr *e = namedExpression();
      if (is("for") || is("async")) {
        Expr *g = tree_.newExpr(ExprKind::GeneratorExp, {});
        g->operands.push_back(e);
        comprehension(g);
        g->loc = since(begin);
        e = g;
      } else if (sawKeyword) {
        error(diag::keywordBeforePositional, e->loc);
      }
      call->operands.push_back(e);
    }
    if (!eat(",")) break;
  }
  expect(")");
}

Expr *Parser::subscriptIndex() {
  uint32_t begin = tok().begin;
  Expr *first = sliceItem();
  if (!is(",")) {
    if (first->kind != ExprKind::Starred) return first;
    Expr *t = tree_.newExpr(ExprKind::Tuple, first->loc);
    t->operands.push_back(first);
    return t;
  }
  Expr *t = tree_.newExpr(ExprKind::Tuple, {});
  t->operands.push_back(first);
  while (eat(",") && !is("]") && !panicking_) t->operands.push_back(sliceItem());
  t->loc = since(begin);
  return t;
}

Expr *Parser::sliceItem() {
  uint32_t begin = tok().begin;
  Expr *lower = nullptr;
  if (!is(":")) {
    lower = starOrNamed();
    if (!is(":")) return lower;
  }
  Expr *s = tree_.newExpr(ExprKind::Slice, {});
  s->operands = {lower, nullptr, nullptr};
  for (int part = 1; part <= 2 && eat(":"); ++part)
    if (!is(":") && !is("]") && !is(",")) s->operands[part] = expression();
  s->loc = since(begin);
  return s;
}

Expr *Parser::targetList() {
  uint32_t begin = tok().begin;
  auto one = [&]() -> Expr * {
    if (!is("*")) return binary(0);
    return starOrNamed();
  };
  Expr *first = one();
  if (!is(",")) return first;
  Expr *t = tree_.newExpr(ExprKind::Tuple, {});
  t->operands.push_back(first);
  while (eat(",") && !is("in") && !panicking_) t->operands.push_back(one());
  t->loc = since(begin);
  return t;
}

bool Parser::comprehension(Expr *e) {
  while ((is("for") || (is("async") && is("for", 1))) && !panicking_) {
    Comprehension c;
    c.isAsync = eat("async");
    ++pos_;
    c.target = targetList();
    checkTarget(c.target, "for");
    if (!expect("in")) return false;
    c.iter = orTest();
    // `in a if c else b` has no ternary here; a lambda or ternary stands in parentheses.
    while (eat("if"))
      c.conds.push_back(is("lambda") ? lambda() : atName() && is(":=", 1) ? namedExpression() : orTest());
    e->generators.push_back(std::move(c));
  }
  return true;
}

} // namespace tegula::syntax
