// Modules, simple statements, recovery, and the public entry points.
#include "syntax/ParserImpl.h"
#include <algorithm>

namespace tegula::syntax {

Parser::Parser(Tree &tree, std::vector<Token> tokens, DiagEngine &diag)
    : tree_(tree), tokens_(std::move(tokens)), diag_(diag) {
  for (const Diagnostic &d : diag.all()) lexErrors_.push_back(d.loc.begin);
  std::sort(lexErrors_.begin(), lexErrors_.end());
  statementBegin_ = tokens_.front().begin;
}

bool Parser::reportedByLexer() const {
  auto first = std::lower_bound(lexErrors_.begin(), lexErrors_.end(), statementBegin_);
  return first != lexErrors_.end() && *first <= tok().end;
}

bool Parser::isKeyword(std::string_view s) {
  static constexpr std::string_view keywords[] = {
      "False", "None", "True", "and", "as", "assert", "async", "await", "break",
      "class", "continue", "def", "del", "elif", "else", "except", "finally", "for",
      "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not",
      "or", "pass", "raise", "return", "try", "while", "with", "yield"};
  return std::find(std::begin(keywords), std::end(keywords), s) != std::end(keywords);
}

std::string Parser::describe(const Token &t) const {
  switch (t.kind) {
  case Tok::Newline: return "the end of the line";
  case Tok::Indent: return "an indentation";
  case Tok::Dedent: return "the end of the block";
  case Tok::End: return "the end of the text";
  case Tok::String:
  case Tok::FString: return "a string";
  case Tok::Number: return "the number `" + std::string(text(t)) + "`";
  default: return (isKeyword(text(t)) ? "the keyword `" : "`") + std::string(text(t)) + "`";
  }
}

bool Parser::expect(std::string_view op) {
  if (eat(op)) return true;
  if (op == ")" && is("=")) error(diag::assignInCondition, here());
  else error(diag::expectedToken, here(), op, describe(tok()));
  return false;
}

std::string_view Parser::name(const char *) {
  if (atName()) return text(tokens_[pos_++]);
  error(diag::expectedName, here(), describe(tok()));
  return {};
}

// Skips to the statement's border: past the next Newline at this block level, and past the block it opens, if any.
void Parser::synchronize() {
  panicking_ = false;
  int depth = 0;
  while (!at(Tok::End)) {
    Tok k = tok().kind;
    if (k == Tok::Indent) ++depth;
    if (k == Tok::Dedent && depth-- == 0) return;
    ++pos_;
    if (depth == 0 && (k == Tok::Newline || k == Tok::Dedent) && !at(Tok::Indent)) return;
  }
}

void Parser::module() {
  while (!at(Tok::End)) {
    if (at(Tok::Indent)) {
      diag_.report(diag::unexpectedIndent, Loc{&tree_.file(), tok().begin, tok().begin + 1});
      ++pos_;
      continue;
    }
    if (at(Tok::Dedent) || at(Tok::Newline)) {
      ++pos_;
      continue;
    }
    statement(tree_.body);
  }
}

void Parser::statements(std::vector<Stmt *> &out) {
  while (!at(Tok::Dedent) && !at(Tok::End)) {
    if (at(Tok::Indent)) {
      diag_.report(diag::unexpectedIndent, Loc{&tree_.file(), tok().begin, tok().begin + 1});
      ++pos_;
      statements(out);
      if (at(Tok::Dedent)) ++pos_;
      continue;
    }
    if (at(Tok::Newline)) {
      ++pos_;
      continue;
    }
    statement(out);
  }
}

void Parser::statement(std::vector<Stmt *> &out) {
  Depth depth(*this);
  uint32_t begin = statementBegin_ = tok().begin;
  size_t before = pos_;
  if (!tooDeep()) {
    if (Stmt *s = compound()) out.push_back(s);
    else if (!panicking_) simpleLine(out);
  }
  if (!panicking_) return;
  if (pos_ == before) ++pos_;
  out.push_back(tree_.newStmt(StmtKind::Error, since(begin)));
  synchronize();
}

void Parser::simpleLine(std::vector<Stmt *> &out) {
  while (true) {
    Stmt *s = simple();
    if (s) out.push_back(s);
    if (panicking_) return;
    if (eat(";")) {
      if (at(Tok::Newline) || at(Tok::End)) break;
      continue;
    }
    break;
  }
  if (at(Tok::Newline)) {
    ++pos_;
  } else if (!at(Tok::End) && !at(Tok::Dedent)) {
    Stmt *last = out.empty() ? nullptr : out.back();
    bool print =
        last && last->kind == StmtKind::Expr && last->value->kind == ExprKind::Name && last->value->name == "print";
    if (print) error(diag::printStatement, last->loc);
    else error(diag::expectedStatementEnd, here(), describe(tok()));
  }
}

Stmt *Parser::simple() {
  static constexpr std::pair<std::string_view, StmtKind> table[] = {
      {"pass", StmtKind::Pass},         {"break", StmtKind::Break},    {"continue", StmtKind::Continue},
      {"return", StmtKind::Return},     {"raise", StmtKind::Raise},    {"global", StmtKind::Global},
      {"nonlocal", StmtKind::Nonlocal}, {"del", StmtKind::Delete},     {"assert", StmtKind::Assert},
      {"import", StmtKind::Import},     {"from", StmtKind::ImportFrom}};
  if (at(Tok::Name)) {
    for (auto [word, kind] : table) {
      if (text(tok()) != word) continue;
      if (kind == StmtKind::Import || kind == StmtKind::ImportFrom) return importStatement();
      return keywordStatement(kind);
    }
    // `type X = ...` (soft keyword)
    if (is("type") && tok(1).kind == Tok::Name && !isKeyword(text(tok(1))) && (is("=", 2) || is("[", 2))) {
      uint32_t begin = tok().begin;
      ++pos_;
      Stmt *s = tree_.newStmt(StmtKind::TypeAlias, {});
      s->nameLoc = here();
      s->name = name("type");
      skipTypeParams();
      expect("=");
      s->value = expression();
      s->loc = since(begin);
      return s;
    }
  }
  return expressionStatement();
}

Stmt *Parser::keywordStatement(StmtKind kind) {
  uint32_t begin = tok().begin;
  ++pos_;
  Stmt *s = tree_.newStmt(kind, {});
  bool ends = at(Tok::Newline) || at(Tok::End) || is(";");
  switch (kind) {
  case StmtKind::Return:
    if (!ends) s->value = starExpressions();
    break;
  case StmtKind::Raise:
    if (!ends) s->value = expression();
    if (s->value && eat("from")) s->extra = expression();
    break;
  case StmtKind::Assert:
    s->value = expression();
    if (eat(",")) s->extra = expression();
    break;
  case StmtKind::Delete: {
    Expr *e = starExpressions();
    checkTarget(e, "del");
    if (e->kind == ExprKind::Tuple && !e->parenthesized) s->targets = e->operands;
    else s->targets.push_back(e);
    break;
  }
  case StmtKind::Global:
  case StmtKind::Nonlocal:
    do {
      Loc l = here();
      s->names.push_back({name("name"), {}, l});
    } while (eat(",") && !panicking_);
    break;
  default:
    break;
  }
  s->loc = since(begin);
  return s;
}

std::string_view Parser::dottedName() {
  uint32_t begin = tok().begin;
  name("module");
  while (is(".") && !panicking_) {
    ++pos_;
    name("module");
  }
  std::string_view raw = since(begin).text();
  if (raw.find_first_of(" \t\\\n") == std::string_view::npos) return raw;
  std::string clean;
  for (char c : raw)
    if (!std::isspace(static_cast<unsigned char>(c)) && c != '\\') clean += c;
  return tree_.intern(clean);
}

Stmt *Parser::importStatement() {
  uint32_t begin = tok().begin;
  bool from = is("from");
  ++pos_;
  Stmt *s = tree_.newStmt(from ? StmtKind::ImportFrom : StmtKind::Import, {});
  auto alias = [&](std::string_view n, Loc l) {
    Alias a{n, {}, l};
    if (eat("as")) a.asName = name("alias");
    s->names.push_back(a);
  };
  if (!from) {
    do {
      Loc l = here();
      std::string_view n = dottedName();
      alias(n, l);
    } while (eat(",") && !panicking_);
  } else {
    while (is(".") || is("...")) {
      s->level += is(".") ? 1 : 3;
      ++pos_;
    }
    if (!is("import") || !s->level) s->module = dottedName();
    expect("import");
    if (is("*")) {
      s->names.push_back({"*", {}, here()});
      ++pos_;
    } else {
      bool paren = eat("(");
      do {
        if (paren && is(")")) break;
        Loc l = here();
        std::string_view n = name("import");
        alias(n, l);
      } while (eat(",") && !panicking_);
      if (paren) expect(")");
    }
  }
  s->loc = since(begin);
  return s;
}

bool Parser::checkTarget(Expr *e, const char *what) {
  switch (e->kind) {
  case ExprKind::Name:
  case ExprKind::Attribute:
  case ExprKind::Subscript:
  case ExprKind::Error:
    return true;
  case ExprKind::Starred:
    return checkTarget(e->operands[0], what);
  case ExprKind::Tuple:
  case ExprKind::List:
    for (Expr *x : e->operands)
      if (!checkTarget(x, what)) return false;
    return true;
  default: {
    const char *kind = e->kind == ExprKind::Call ? "a call"
                       : e->kind == ExprKind::True || e->kind == ExprKind::False || e->kind == ExprKind::None
                           ? "a constant"
                       : e->kind == ExprKind::Compare ? "a comparison"
                                                      : "an expression";
    if (e->kind >= ExprKind::Int && e->kind <= ExprKind::FString) kind = "a literal";
    error(diag::cannotAssign, e->loc, kind);
    return false;
  }
  }
}

Stmt *Parser::expressionStatement() {
  uint32_t begin = tok().begin;
  auto value = [&] { return is("yield") ? yieldExpression() : starExpressions(); };
  Expr *e = value();
  if (panicking_) return nullptr;
  if (e->kind == ExprKind::NamedExpr && !e->parenthesized) error(diag::bareWalrus, e->loc);
  Stmt *s = tree_.newStmt(StmtKind::Expr, {});
  if (eat(":")) { // x: T [= v]
    s->kind = StmtKind::AnnAssign;
    if (e->kind == ExprKind::Tuple || e->kind == ExprKind::List)
      error(diag::annotatedTarget, e->loc, e->kind == ExprKind::List ? "a list" : "a tuple");
    else checkTarget(e, "annotation");
    s->targets.push_back(e);
    s->extra = expression();
    if (eat("=")) s->value = value();
  } else if (is("=")) {
    s->kind = StmtKind::Assign;
    s->opLoc = here();
    while (eat("=")) {
      if (!checkTarget(e, "assignment")) return nullptr;
      s->targets.push_back(e);
      e = value();
      if (e->kind == ExprKind::NamedExpr && !e->parenthesized) error(diag::bareWalrus, e->loc);
      if (panicking_) return nullptr;
    }
    s->value = e;
  } else if (at(Tok::Op) && text(tok()).size() >= 2 && text(tok()).back() == '=' && !is("==") && !is("!=") &&
             !is("<=") && !is(">=") && !is(":=")) {
    static constexpr std::pair<std::string_view, BinaryOp> table[] = {
        {"+=", BinaryOp::Add},     {"-=", BinaryOp::Sub},       {"*=", BinaryOp::Mult},   {"@=", BinaryOp::MatMult},
        {"/=", BinaryOp::Div},     {"//=", BinaryOp::FloorDiv}, {"%=", BinaryOp::Mod},    {"**=", BinaryOp::Pow},
        {"<<=", BinaryOp::LShift}, {">>=", BinaryOp::RShift},   {"&=", BinaryOp::BitAnd}, {"|=", BinaryOp::BitOr},
        {"^=", BinaryOp::BitXor}};
    s->kind = StmtKind::AugAssign;
    for (auto [t, op] : table)
      if (is(t)) s->binaryOp = op;
    s->opLoc = here();
    checkTarget(e, "assignment");
    ++pos_;
    s->targets.push_back(e);
    s->value = value();
  } else {
    s->value = e;
  }
  s->loc = since(begin);
  return s;
}

Expr *Parser::wholeExpression(bool allowStar) {
  Expr *e = is("yield") ? yieldExpression() : allowStar ? starExpressions() : namedExpression();
  if (!at(Tok::End)) error(diag::expectedStatementEnd, here(), describe(tok()));
  return e;
}

namespace {

// Messages of the lexer, the parser and the height check in the order of the text.
void emitInOrder(const DiagEngine &from, DiagEngine &to) {
  std::vector<std::pair<uint32_t, size_t>> order;
  for (const Diagnostic &d : from.all()) order.emplace_back(d.loc.begin, order.size());
  std::sort(order.begin(), order.end());
  for (auto [begin, i] : order) to.emit(from.all()[i]);
}

} // namespace

std::shared_ptr<const Tree> parse(std::shared_ptr<const SourceFile> file, DiagEngine &diag) {
  auto tree = std::make_shared<Tree>(file);
  if (!checkEncoding(*file, diag)) return tree;
  uint32_t size = static_cast<uint32_t>(file->text().size());
  DiagEngine found;
  std::vector<Token> tokens = lex(*file, 0, size, {}, found);
  Parser(*tree, std::move(tokens), found).module();
  boundHeight(*tree, found);
  emitInOrder(found, diag);
  return tree;
}

std::shared_ptr<const Tree> parseExpression(std::shared_ptr<const SourceFile> file, DiagEngine &diag) {
  auto tree = std::make_shared<Tree>(file);
  if (!checkEncoding(*file, diag)) return nullptr;
  uint32_t size = static_cast<uint32_t>(file->text().size());
  DiagEngine found;
  std::vector<Token> tokens = lex(*file, 0, size, {.expression = true}, found);
  Parser parser(*tree, std::move(tokens), found);
  Expr *e = parser.wholeExpression(false);
  Stmt *s = tree->newStmt(StmtKind::Expr, e->loc);
  s->value = e;
  tree->body.push_back(s);
  boundHeight(*tree, found);
  emitInOrder(found, diag);
  return found.hasErrors() || parser.failed() ? nullptr : tree;
}

} // namespace tegula::syntax
