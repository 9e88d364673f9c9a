// f-strings: literal text and replacement fields {expression=!conversion:spec}, nested as in Python 3.12 (PEP 701).
#include "syntax/ParserImpl.h"

namespace tegula::syntax {

void Parser::fstringPieces(const Token &t, Expr *out) {
  StringPrefix p = stringPrefix(tree_.file().text(), t.begin, t.end);
  uint32_t begin = t.begin + p.length + p.quote;
  uint32_t end = t.end >= begin + p.quote ? t.end - p.quote : begin;
  fieldParts(begin, end, p.raw, out->parts);
}

namespace {

// Where the parts of a replacement field end: the expression, then optionally `=`, `!r`, `:spec`.
struct FieldExtent {
  uint32_t exprEnd = 0;  // one past the expression's text (the `=` of {x=} excluded)
  bool debug = false;
  uint32_t conversion = 0; // offset of the letter, 0 if none
  uint32_t spec = 0;     // offset after the colon, 0 if none
  uint32_t end = 0;      // of the closing brace; 0 if missing
};

FieldExtent measure(std::string_view s, uint32_t at, uint32_t limit) {
  FieldExtent f;
  int nesting = 0;
  for (uint32_t i = at; i < limit;) {
    char c = s[i];
    StringPrefix p = stringPrefix(s, i, limit);
    bool wordBefore = i > at && (std::isalnum(static_cast<unsigned char>(s[i - 1])) || s[i - 1] == '_');
    if (p.quoteChar && !(p.length && wordBefore)) {
      bool closed;
      i = skipString(s, i, limit, closed);
      continue;
    }
    if (c == '#') { // a comment, up to the end of its line
      while (i < limit && s[i] != '\n' && s[i] != '\r') ++i;
      continue;
    }
    if (c == '(' || c == '[' || c == '{') ++nesting;
    if (c == ')' || c == ']') --nesting;
    if (c == '}' && nesting > 0) {
      --nesting;
      ++i;
      continue;
    }
    bool conversionMark = c == '!' && i + 1 < limit && s[i + 1] != '=';
    if (nesting == 0 && (c == '}' || c == ':' || conversionMark)) {
      f.exprEnd = i;
      break;
    }
    ++i;
  }
  if (!f.exprEnd) return f;
  uint32_t i = f.exprEnd;
  // {x=}: an `=` last, that is no part of ==, <=, >=, !=
  uint32_t last = f.exprEnd;
  while (last > at && s[last - 1] == ' ') --last;
  if (last > at + 1 && s[last - 1] == '=' && !std::string_view("=<>!").starts_with(s[last - 2]) &&
      std::string_view("=<>!").find(s[last - 2]) == std::string_view::npos) {
    f.debug = true;
    f.exprEnd = last - 1;
  }
  if (s[i] == '!') {
    f.conversion = i + 1;
    i += 2;
    while (i < limit && (s[i] == ' ' || s[i] == '\n' || s[i] == '\r' || s[i] == '\t')) ++i;
  }
  if (i < limit && s[i] == ':') {
    f.spec = ++i;
    for (int depth = 0; i < limit; ++i) {
      if (s[i] == '{') ++depth;
      if (s[i] == '}' && depth-- == 0) break;
    }
  }
  if (i < limit && s[i] == '}') f.end = i;
  return f;
}

} // namespace

void Parser::fieldParts(uint32_t begin, uint32_t end, bool raw, std::vector<FStringPart> &parts) {
  std::string_view s = tree_.file().text();
  Depth depth(*this);
  if (tooDeep()) return;
  std::string literal;
  auto flush = [&] {
    if (!literal.empty()) parts.push_back({literal, nullptr, 0, nullptr, {}});
    literal.clear();
  };
  uint32_t textBegin = begin;
  auto take = [&](uint32_t upTo) { literal += decodePiece(tree_.file(), textBegin, upTo, raw, false, diag_); };
  for (uint32_t i = begin; i < end;) {
    if (s[i] == '\\' && !raw && i + 2 < end && s[i + 1] == 'N' && s[i + 2] == '{') { // \N{NAME} is no field
      while (i < end && s[i] != '}') ++i;
      i += i < end;
    } else if (s[i] == '\\' && !raw) {
      i += 2;
    } else if ((s[i] == '{' || s[i] == '}') && i + 1 < end && s[i + 1] == s[i]) {
      take(i + 1);
      i += 2;
      textBegin = i;
    } else if (s[i] == '}') {
      error(diag::fstringBrace, Loc{&tree_.file(), i, i + 1});
      return;
    } else if (s[i] == '{') {
      take(i);
      flush();
      FieldExtent f = measure(s, i + 1, end);
      Loc l{&tree_.file(), i, f.end ? f.end + 1 : end};
      if (!f.end) return error(diag::fstringField, l, "it has no closing `}`");
      FStringPart part;
      DiagEngine found;
      auto tokens = lex(tree_.file(), i + 1, f.exprEnd, {.expression = true}, found);
      if (tokens.size() == 1) return error(diag::fstringField, l, "it holds no expression");
      Parser inner(tree_, std::move(tokens), found);
      inner.depth_ = depth_;
      part.value = inner.wholeExpression(true);
      panicking_ |= inner.failed();
      for (const Diagnostic &d : found.all()) diag_.emit(d);
      if (f.debug) part.debug = std::string(s.substr(i + 1, f.exprEnd + 1 - (i + 1)));
      if (f.conversion) {
        part.conversion = s[f.conversion];
        if (std::string_view("rsa").find(part.conversion) == std::string_view::npos)
          return error(diag::fstringField, l, "the conversion after `!` is r, s or a");
      }
      if (f.spec) {
        part.spec = tree_.newExpr(ExprKind::FString, Loc{&tree_.file(), f.spec, f.end});
        fieldParts(f.spec, f.end, raw, part.spec->parts);
      }
      parts.push_back(std::move(part));
      i = f.end + 1;
      textBegin = i;
    } else {
      ++i;
    }
  }
  if (textBegin < end) take(end);
  flush();
}

} // namespace tegula::syntax
