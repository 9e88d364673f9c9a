// String literals: prefixes, where a literal ends (f-strings nest in 3.12), and escapes.
#include "syntax/Diagnostics.h"
#include "syntax/Lexer.h"

namespace tegula::syntax {

StringPrefix stringPrefix(std::string_view s, uint32_t at, uint32_t end) {
  StringPrefix p;
  p.quoteChar = 0;
  uint32_t i = at;
  bool seenU = false;
  for (; i < end && i < at + 3; ++i) {
    char c = static_cast<char>(s[i] | 0x20);
    if (c == 'r' && !p.raw && !seenU) p.raw = true;
    else if (c == 'b' && !p.bytes && !p.format && !seenU) p.bytes = true;
    else if (c == 'f' && !p.format && !p.bytes && !seenU) p.format = true;
    else if (c == 'u' && i == at) seenU = true;
    else break;
  }
  if (i >= end || (s[i] != '"' && s[i] != '\'')) return {false, false, false, 0, 1, 0};
  p.length = i - at;
  p.quoteChar = s[i];
  p.quote = i + 2 < end && s[i + 1] == s[i] && s[i + 2] == s[i] ? 3 : 1;
  return p;
}

namespace {

// f-strings inside replacement fields of f-strings; deeper ones count as not closed.
constexpr unsigned maxStringDepth = 100;

uint32_t skipNested(std::string_view s, uint32_t at, uint32_t end, unsigned depth, bool &closed);

// One past the `}` of the replacement field whose `{` is at `at`; `end` if there is none.
uint32_t skipField(std::string_view s, uint32_t at, uint32_t end, unsigned depth, const StringPrefix &outer) {
  int nesting = 0;
  bool spec = false; // after the colon at depth 0: literal text with nested fields
  for (uint32_t i = at + 1; i < end;) {
    char c = s[i];
    if (c == '\n' && outer.quote == 1 && spec) return end;
    // the field is not closed
    if (spec && c == outer.quoteChar && (outer.quote == 1 || s.substr(i, 3) == std::string(3, c))) return i;
    if (!spec) {
      StringPrefix p = stringPrefix(s, i, end);
      bool wordBefore = i > at + 1 && (std::isalnum(static_cast<unsigned char>(s[i - 1])) || s[i - 1] == '_');
      if (p.quoteChar && !(p.length && wordBefore)) {
        bool closed;
        i = skipNested(s, i, end, depth + 1, closed);
        if (!closed) return end;
        continue;
      }
      if (c == '#') { // a comment, up to the end of its line
        while (i < end && s[i] != '\n' && s[i] != '\r') ++i;
        continue;
      }
      if (c == '(' || c == '[' || c == '{') ++nesting;
      else if (c == ')' || c == ']') --nesting;
      else if (c == '}') {
        if (nesting <= 0) return i + 1;
        --nesting;
      } else if (c == ':' && nesting == 0) spec = true;
    } else {
      if (c == '{') {
        if (depth > maxStringDepth) return end;
        i = skipField(s, i, end, depth + 1, outer);
        continue;
      }
      if (c == '}') return i + 1;
    }
    ++i;
  }
  return end;
}

uint32_t skipNested(std::string_view s, uint32_t at, uint32_t end, unsigned depth, bool &closed) {
  StringPrefix p = stringPrefix(s, at, end);
  uint32_t i = at + p.length + p.quote;
  closed = false;
  if (depth > maxStringDepth) return end;
  while (i < end) {
    char c = s[i];
    if (c == '\\') {
      i += i + 2 < end && s[i + 1] == '\r' && s[i + 2] == '\n' ? 3 : 2;
      continue;
    }
    if (c == '\n' && p.quote == 1) return i;
    if (c == p.quoteChar && (p.quote == 1 || (i + 2 < end && s[i + 1] == c && s[i + 2] == c))) {
      closed = true;
      return i + p.quote;
    }
    if (p.format && c == '{') {
      if (i + 1 < end && s[i + 1] == '{') {
        i += 2;
        continue;
      }
      i = skipField(s, i, end, depth + 1, p);
      continue;
    }
    ++i;
  }
  return std::min(i, end);
}

void appendUtf8(std::string &out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

int hexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

constexpr std::pair<char, char> simpleEscapes[] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'a', '\a'}, {'b', '\b'},
                                                   {'f', '\f'}, {'v', '\v'}, {'\\', '\\'}, {'\'', '\''}, {'"', '"'}};

} // namespace

uint32_t skipString(std::string_view s, uint32_t at, uint32_t end, bool &closed) {
  return skipNested(s, at, end, 0, closed);
}

std::string decodePiece(const SourceFile &file, uint32_t begin, uint32_t end, bool raw, bool bytes, DiagEngine &diag) {
  std::string_view s = file.text();
  std::string out;
  for (uint32_t i = begin; i < end;) {
    char c = s[i];
    if (c == '\r') { // line ends inside strings are \n
      out += '\n';
      i += i + 1 < end && s[i + 1] == '\n' ? 2 : 1;
      continue;
    }
    if (c != '\\' || raw || i + 1 >= end) {
      out += c;
      ++i;
      continue;
    }
    char e = s[i + 1];
    if (e == '\n' || e == '\r') {
      i += e == '\r' && i + 2 < end && s[i + 2] == '\n' ? 3 : 2;
      continue;
    }
    bool found = false;
    for (auto [from, to] : simpleEscapes)
      if (e == from) out += to, found = true;
    if (found) {
      i += 2;
      continue;
    }
    if (e >= '0' && e <= '7') {
      uint32_t v = 0, k = i + 1;
      for (; k < end && k < i + 4 && s[k] >= '0' && s[k] <= '7'; ++k) v = v * 8 + (s[k] - '0');
      if (bytes) out += static_cast<char>(v);
      else appendUtf8(out, v);
      i = k;
      continue;
    }
    unsigned digits = e == 'x' ? 2 : e == 'u' && !bytes ? 4 : e == 'U' && !bytes ? 8 : 0;
    if (digits) {
      uint32_t v = 0, k = i + 2;
      for (; k < end && k < i + 2 + digits && hexValue(s[k]) >= 0; ++k) v = v * 16 + hexValue(s[k]);
      if (k != i + 2 + digits || v > 0x10ffff) {
        diag.report(diag::badEscape, Loc{&file, i, k}, s.substr(i, k - i));
      } else if (bytes) {
        out += static_cast<char>(v);
      } else {
        appendUtf8(out, v);
      }
      i = k;
      continue;
    }
    // \N{NAME} and unknown escapes stay as written.
    out += c;
    out += e;
    i += 2;
  }
  return out;
}

std::string decodeString(const SourceFile &file, Token t, DiagEngine &diag) {
  StringPrefix p = stringPrefix(file.text(), t.begin, t.end);
  uint32_t begin = t.begin + p.length + p.quote;
  uint32_t end = t.end >= begin + p.quote ? t.end - p.quote : begin;
  return decodePiece(file, begin, end, p.raw, p.bytes, diag);
}

} // namespace tegula::syntax
