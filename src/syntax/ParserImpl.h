// The parser's state, shared by its files: ParseStmt.cpp, ParseCompound.cpp, ParseExpr.cpp, ParseAtom.cpp,
// ParseFString.cpp. Not for other layers.
#pragma once
#include "syntax/Diagnostics.h"
#include "syntax/Lexer.h"
#include "syntax/Parser.h"

namespace tegula::syntax {

class Parser {
public:
  /// `diag` holds the lexer's errors in `tokens`: a statement with such an error gets no second one.
  Parser(Tree &tree, std::vector<Token> tokens, DiagEngine &diag);

  void module();
  /// One expression (with commas) up to the end of the tokens.
  Expr *wholeExpression(bool allowStar);
  bool failed() const { return panicking_; }

private:
  // ---- tokens
  const Token &tok(unsigned ahead = 0) const { return tokens_[std::min(pos_ + ahead, tokens_.size() - 1)]; }
  std::string_view text(const Token &t) const { return tree_.file().text().substr(t.begin, t.end - t.begin); }
  bool is(std::string_view op, unsigned ahead = 0) const {
    const Token &t = tok(ahead);
    return (t.kind == Tok::Op || t.kind == Tok::Name) && text(t) == op;
  }
  bool eat(std::string_view op) { return is(op) && (++pos_, true); }
  bool at(Tok k) const { return tok().kind == k; }
  Loc loc(const Token &t) const { return {&tree_.file(), t.begin, t.end}; }
  Loc here() const { return loc(tok()); }
  /// From `begin` to the end of the last token taken.
  Loc since(uint32_t begin) const {
    return {&tree_.file(), begin, pos_ ? std::max(tokens_[pos_ - 1].end, begin) : begin};
  }
  std::string describe(const Token &t) const;
  static bool isKeyword(std::string_view s);
  bool atName() const { return at(Tok::Name) && !isKeyword(text(tok())); }

  // ---- errors: the first one of a statement is reported, further ones are suppressed until the statement's end
  template <typename... Args> void error(const DiagKind &kind, Loc l, Args &&...args) {
    if (!panicking_ && !reportedByLexer()) diag_.report(kind, l, std::forward<Args>(args)...);
    panicking_ = true;
  }
  /// Whether the lexer reported an error between the start of the statement and the next token.
  bool reportedByLexer() const;
  bool expect(std::string_view op);
  Expr *errorExpr(Loc l) { return tree_.newExpr(ExprKind::Error, l); }
  void synchronize();
  std::string_view name(const char *);
  struct Depth {
    explicit Depth(Parser &p) : p(p) { ++p.depth_; }
    ~Depth() { --p.depth_; }
    Parser &p;
  };
  bool tooDeep();

  // ---- statements
  void statements(std::vector<Stmt *> &out);
  void statement(std::vector<Stmt *> &out);
  void simpleLine(std::vector<Stmt *> &out);
  Stmt *simple();
  Stmt *expressionStatement();
  Stmt *keywordStatement(StmtKind kind);
  Stmt *importStatement();
  Stmt *compound();
  void block(std::vector<Stmt *> &out, const char *what);
  Stmt *ifStatement();
  Stmt *ifArm(bool elif);
  Stmt *forStatement(uint32_t begin, bool async);
  Stmt *whileStatement();
  Stmt *tryStatement();
  Stmt *withStatement(uint32_t begin, bool async);
  Stmt *functionDef(std::vector<Expr *> decorators, uint32_t begin, bool async);
  Stmt *classDef(std::vector<Expr *> decorators, uint32_t begin);
  Stmt *decorated();
  bool startsMatch() const;
  Stmt *matchStatement();
  void skipTypeParams();
  std::vector<Param> parameters(std::string_view close, bool annotations);
  std::string_view dottedName();
  bool checkTarget(Expr *e, const char *what);

  // ---- expressions, loosest first
  Expr *starExpressions();              // with commas and stars: a tuple
  Expr *starOrNamed();
  Expr *namedExpression();              // x := e
  Expr *expression();                   // ternary, lambda
  Expr *lambda();
  Expr *orTest();
  Expr *andTest();
  Expr *notTest();
  Expr *comparison();
  Expr *binary(unsigned minPrecedence); // | ^ & shifts + - * / // % @
  Expr *unary();
  Expr *power();
  Expr *primary();
  Expr *atom();
  bool foreignOperator();
  Expr *number();
  Expr *strings();
  void fstringPieces(const Token &t, Expr *out);
  void fieldParts(uint32_t begin, uint32_t end, bool raw, std::vector<FStringPart> &parts);
  Expr *parenthesis();
  Expr *list();
  void elements(Expr *e, ExprKind comprehensionKind, std::string_view close);
  Expr *braces();
  Expr *yieldExpression();
  void arguments(Expr *call);
  Expr *subscriptIndex();
  Expr *sliceItem();
  bool comprehension(Expr *e);
  Expr *targetList(); // of for and comprehensions
  Expr *newBinary(BinaryOp op, Expr *l, Expr *r, Loc opLoc);

  Tree &tree_;
  std::vector<Token> tokens_;
  DiagEngine &diag_;
  size_t pos_ = 0;
  unsigned depth_ = 0;
  unsigned elifs_ = 0; // of the `if`s around the next token: how deep they nest in the tree
  bool panicking_ = false;
  bool inPattern_ = false;
  uint32_t statementBegin_ = 0;
  std::vector<uint32_t> lexErrors_; // ascending
};

/// Replaces expressions too deep for recursion by Error nodes, with a diagnostic (Nesting.cpp).
void boundHeight(Tree &tree, DiagEngine &diag);

} // namespace tegula::syntax
