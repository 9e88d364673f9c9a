// Atoms: names, literals, brackets.
#include "syntax/ParserImpl.h"

namespace tegula::syntax {

Expr *Parser::atom() {
  const Token &t = tok();
  Loc l = here();
  switch (t.kind) {
  case Tok::Number:
    return number();
  case Tok::String:
  case Tok::FString:
    return strings();
  case Tok::Name: {
    std::string_view s = text(t);
    static constexpr std::pair<std::string_view, ExprKind> constants[] = {
        {"True", ExprKind::True}, {"False", ExprKind::False}, {"None", ExprKind::None}};
    for (auto [word, kind] : constants)
      if (s == word) {
        ++pos_;
        return tree_.newExpr(kind, l);
      }
    if (isKeyword(s)) break;
    ++pos_;
    Expr *e = tree_.newExpr(ExprKind::Name, l);
    e->name = s;
    return e;
  }
  case Tok::Op:
    if (is("(")) return parenthesis();
    if (is("[")) return list();
    if (is("{")) return braces();
    if (is("...")) {
      ++pos_;
      return tree_.newExpr(ExprKind::Ellipsis, l);
    }
    break;
  default:
    break;
  }
  if (!foreignOperator()) error(diag::expectedExpression, l, describe(t));
  return errorExpr(l);
}

// Where an operand is missing: operators that people bring along from C.
bool Parser::foreignOperator() {
  struct Row {
    std::string_view text, instead;
  };
  static constexpr Row rows[] = {{"&&", "`and`"}, {"||", "`or`"}, {"!", "`not`"}, {"++", "`+= 1`"}, {"--", "`-= 1`"}};
  std::string_view source = tree_.file().text();
  // x && y and !x stop at their last character, x++ after it.
  uint32_t end = at(Tok::Op) ? tok().end : pos_ ? tokens_[pos_ - 1].end : 0;
  for (auto [text, instead] : rows) {
    bool behind = text == "++" || text == "--";
    if (behind == at(Tok::Op) || end < text.size() || source.substr(end - text.size(), text.size()) != text) continue;
    error(diag::foreignOperator, Loc{&tree_.file(), static_cast<uint32_t>(end - text.size()), end}, text, instead);
    return true;
  }
  return false;
}

Expr *Parser::number() {
  std::string_view s = text(tok());
  bool based = s.size() > 1 && s[0] == '0' && (s[1] | 0x20) >= 'a' &&
               ((s[1] | 0x20) == 'x' || (s[1] | 0x20) == 'o' || (s[1] | 0x20) == 'b');
  bool imaginary = !based && (s.back() | 0x20) == 'j';
  bool floating = !based && s.find_first_of(".eE") != std::string_view::npos;
  Expr *e = tree_.newExpr(imaginary ? ExprKind::Imaginary : floating ? ExprKind::Float : ExprKind::Int, here());
  for (char c : s)
    if (c != '_') e->text += c;
  if (imaginary) e->text.pop_back();
  if (based) e->text[1] = static_cast<char>(e->text[1] | 0x20);
  ++pos_;
  return e;
}

// Adjacent literals are one; an f-string anywhere makes the whole an f-string.
Expr *Parser::strings() {
  uint32_t begin = tok().begin;
  bool format = false, bytes = false, text = false;
  for (unsigned i = 0; tok(i).kind == Tok::String || tok(i).kind == Tok::FString; ++i)
    format |= tok(i).kind == Tok::FString;
  Expr *e = tree_.newExpr(format ? ExprKind::FString : ExprKind::Str, {});
  while (at(Tok::String) || at(Tok::FString)) {
    const Token &t = tok();
    if (t.kind == Tok::FString) {
      fstringPieces(t, e);
    } else {
      std::string value = decodeString(tree_.file(), t, diag_);
      bool isBytes = stringPrefix(tree_.file().text(), t.begin, t.end).bytes;
      (isBytes ? bytes : text) = true;
      if (!format) e->text += value;
      else if (!e->parts.empty() && !e->parts.back().value) e->parts.back().text += value;
      else e->parts.push_back({value, nullptr, 0, nullptr, {}});
    }
    ++pos_;
  }
  e->loc = since(begin);
  if (bytes && (format || text)) error(diag::mixedBytes, e->loc);
  if (bytes) e->kind = ExprKind::Bytes;
  return e;
}

Expr *Parser::parenthesis() {
  uint32_t begin = tok().begin;
  ++pos_;
  Depth depth(*this);
  if (tooDeep()) return errorExpr(here());
  Expr *e;
  if (is(")")) {
    e = tree_.newExpr(ExprKind::Tuple, {});
  } else if (is("yield")) {
    e = yieldExpression();
  } else {
    e = starExpressions();
    if (is("for") || (is("async") && is("for", 1))) {
      Expr *g = tree_.newExpr(ExprKind::GeneratorExp, {});
      g->operands.push_back(e);
      comprehension(g);
      e = g;
    } else if (is("=")) {
      error(diag::assignInCondition, here());
    }
  }
  expect(")");
  e->parenthesized = true;
  // The parentheses belong to a tuple; other expressions keep their own range (carets under the operand, not the
  // bracket).
  if (e->kind == ExprKind::Tuple || e->kind == ExprKind::GeneratorExp) e->loc = since(begin);
  return e;
}

Expr *Parser::list() {
  uint32_t begin = tok().begin;
  ++pos_;
  Depth depth(*this);
  if (tooDeep()) return errorExpr(here());
  Expr *e = tree_.newExpr(ExprKind::List, {});
  elements(e, ExprKind::ListComp, "]");
  e->loc = since(begin);
  return e;
}

// The rest of a list or set display up to its closing bracket; a comprehension changes the kind.
void Parser::elements(Expr *e, ExprKind comprehensionKind, std::string_view close) {
  bool comma = true;
  if (!e->operands.empty()) { // the first element was read already
    if (is("for") || (is("async") && is("for", 1))) {
      e->kind = comprehensionKind;
      comprehension(e);
    }
    comma = e->kind != comprehensionKind && eat(",");
  }
  while (comma && !is(close) && !panicking_) {
    e->operands.push_back(starOrNamed());
    if (e->operands.size() == 1 && (is("for") || (is("async") && is("for", 1)))) {
      e->kind = comprehensionKind;
      comprehension(e);
      break;
    }
    comma = eat(",");
  }
  expect(close);
}

// {} and {k: v} and {**d} are dicts, {a, b} is a set: the first element decides, and is read once.
Expr *Parser::braces() {
  uint32_t begin = tok().begin;
  ++pos_;
  Depth depth(*this);
  if (tooDeep()) return errorExpr(here());
  Expr *d = tree_.newExpr(ExprKind::Dict, {});
  bool comma = true;
  if (!is("}") && !is("**")) {
    Expr *first = starOrNamed();
    d->operands.push_back(first);
    if (!is(":")) {
      d->kind = ExprKind::Set;
      if (!panicking_) elements(d, ExprKind::SetComp, "}");
      d->loc = since(begin);
      return d;
    }
    ++pos_;
    d->operands.push_back(inPattern_ ? namedExpression() : expression());
    if (is("for") || (is("async") && is("for", 1))) {
      d->kind = ExprKind::DictComp;
      comprehension(d);
    }
    comma = eat(",");
  }
  while (comma && !is("}") && !panicking_) {
    if (eat("**")) {
      d->operands.push_back(nullptr);
      d->operands.push_back(binary(0));
    } else {
      d->operands.push_back(expression());
      if (!expect(":")) break;
      d->operands.push_back(inPattern_ ? namedExpression() : expression());
    }
    comma = eat(",");
  }
  expect("}");
  d->loc = since(begin);
  return d;
}

Expr *Parser::yieldExpression() {
  uint32_t begin = tok().begin;
  ++pos_;
  Depth depth(*this);
  if (tooDeep()) return errorExpr(here());
  Expr *e = tree_.newExpr(ExprKind::Yield, {});
  if (eat("from")) {
    e->kind = ExprKind::YieldFrom;
    e->operands.push_back(expression());
  } else if (!at(Tok::Newline) && !at(Tok::End) && !is(")") && !is("]") && !is("}") && !is("=") && !is(";")) {
    e->operands.push_back(starExpressions());
  }
  e->loc = since(begin);
  return e;
}

} // namespace tegula::syntax
