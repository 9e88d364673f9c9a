// One pass over the bytes with an indentation stack and a bracket stack.
#include "syntax/Lexer.h"
#include "syntax/Diagnostics.h"
#include <cstring>

namespace tegula::syntax {
namespace {

bool isNameStart(unsigned char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isNameChar(unsigned char c) { return isNameStart(c) || isDigit(static_cast<char>(c)); }

// Longest first.
constexpr std::string_view operators[] = {"**=", "//=", ">>=", "<<=", "...", "!=", "->", ":=", "==", "<=", ">=", "**",
                                          "//", "<<", ">>", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "@=",
                                          "+", "-", "*", "/", "%", "@", "&", "|", "^", "~", "<", ">",
                                          "(", ")", "[", "]", "{", "}", ",", ":", ".", ";", "=", "!"};

// As many as are shown.
constexpr unsigned maxErrors = 100;

class Lexer {
public:
  Lexer(const SourceFile &file, uint32_t begin, uint32_t end, LexOptions options, DiagEngine &diag)
      : file_(file), s_(file.text()), pos_(begin), end_(end), options_(options), diag_(diag) {}

  std::vector<Token> run() {
    if (!options_.expression && pos_ == 0 && s_.substr(0, 3) == "\xef\xbb\xbf") pos_ = 3; // byte order mark
    bool lineStart = !options_.expression;
    while (true) {
      // Where so much is wrong the rest is not looked at: a literal that is not closed is searched to the end of the
      // text.
      if (diag_.errorCount() > maxErrors) {
        pos_ = end_;
        brackets_.clear();
        break;
      }
      if (lineStart && brackets_.empty()) indentation();
      lineStart = false;
      skipBlanks();
      if (pos_ >= end_) break;
      char c = s_[pos_];
      if (c == '\n' || c == '\r') {
        uint32_t at = pos_;
        pos_ += c == '\r' && pos_ + 1 < end_ && s_[pos_ + 1] == '\n' ? 2 : 1;
        if (!brackets_.empty() || options_.expression) continue;
        if (!tokens_.empty() && tokens_.back().kind != Tok::Newline && tokens_.back().kind != Tok::Indent &&
            tokens_.back().kind != Tok::Dedent)
          tokens_.push_back({Tok::Newline, at, pos_});
        lineStart = true;
        continue;
      }
      if (statementInBracket()) {
        lineStart = true;
        continue;
      }
      token(c);
    }
    finish();
    return std::move(tokens_);
  }

private:
  struct Indentation {
    uint32_t columns;   // tabs to 8
    uint32_t altColumns; // tabs to 1: both orders must agree, else tabs and spaces are mixed
  };

  Loc loc(uint32_t b, uint32_t e) const { return {&file_, b, e}; }

  // Measures the indentation of the next line that holds a token; emits Indent and Dedents.
  void indentation() {
    while (true) {
      uint32_t columns = 0, alt = 0, start = pos_;
      while (pos_ < end_ && (s_[pos_] == ' ' || s_[pos_] == '\t' || s_[pos_] == '\f')) {
        if (s_[pos_] == ' ') ++columns, ++alt;
        else if (s_[pos_] == '\t') columns = (columns / 8 + 1) * 8, ++alt;
        else columns = alt = 0;
        ++pos_;
      }
      if (pos_ >= end_) return;
      if (s_[pos_] == '#') skipComment();
      if (pos_ < end_ && (s_[pos_] == '\n' || s_[pos_] == '\r')) { // blank line
        pos_ += s_[pos_] == '\r' && pos_ + 1 < end_ && s_[pos_ + 1] == '\n' ? 2 : 1;
        continue;
      }
      if (pos_ >= end_) return;
      change({columns, alt}, start);
      return;
    }
  }

  void change(Indentation now, uint32_t lineBegin) {
    Indentation top = indents_.back();
    auto mixed = [&](Indentation a, Indentation b) {
      return (a.columns < b.columns) != (a.altColumns < b.altColumns) ||
             (a.columns == b.columns) != (a.altColumns == b.altColumns);
    };
    if (mixed(now, top) && now.columns >= top.columns) diag_.report(diag::inconsistentTabs, loc(lineBegin, pos_));
    if (now.columns > top.columns) {
      indents_.push_back(now);
      tokens_.push_back({Tok::Indent, pos_, pos_});
      return;
    }
    while (now.columns < indents_.back().columns) {
      indents_.pop_back();
      tokens_.push_back({Tok::Dedent, pos_, pos_});
    }
    if (now.columns != indents_.back().columns) {
      diag_.report(diag::badDedent, loc(pos_, pos_ + 1));
      indents_.push_back(now); // goes on as if the block began here; the parser sees no Indent
      indents_.pop_back();
    }
  }

  void skipComment() {
    while (pos_ < end_ && s_[pos_] != '\n' && s_[pos_] != '\r') ++pos_;
  }

  void skipBlanks() {
    while (pos_ < end_) {
      char c = s_[pos_];
      if (c == ' ' || c == '\t' || c == '\f') {
        ++pos_;
      } else if (c == '#') {
        skipComment();
      } else if (c == '\\') {
        uint32_t next = pos_ + 1;
        if (next < end_ && s_[next] == '\r') ++next;
        if (next < end_ && s_[next] == '\n') {
          pos_ = next + 1;
        } else if (next == pos_ + 2) {
          pos_ = next;
        } else {
          diag_.report(diag::backslash, loc(pos_, pos_ + 1));
          ++pos_;
        }
      } else {
        return;
      }
    }
  }

  void token(char c) {
    uint32_t begin = pos_;
    StringPrefix p = stringPrefix(s_, pos_, end_);
    if (p.quoteChar) {
      bool closed;
      pos_ = skipString(s_, pos_, end_, closed);
      if (!closed) {
        diag_.report(diag::unterminatedString, loc(begin, begin + p.length + p.quote),
                     std::string(p.quote, p.quoteChar));
        // A field of an f-string may span lines, but one that is never closed should not swallow the rest of the file.
        if (p.quote == 1)
          pos_ = std::min(pos_, static_cast<uint32_t>(std::min<size_t>(s_.find_first_of("\r\n", begin), end_)));
      }
      tokens_.push_back({p.format && closed ? Tok::FString : Tok::String, begin, pos_});
      return;
    }
    if (isNameStart(static_cast<unsigned char>(c))) {
      while (pos_ < end_ && isNameChar(static_cast<unsigned char>(s_[pos_]))) ++pos_;
      tokens_.push_back({Tok::Name, begin, pos_});
      return;
    }
    if (isDigit(c) || (c == '.' && pos_ + 1 < end_ && isDigit(s_[pos_ + 1]))) return number();
    for (std::string_view op : operators) {
      if (s_.substr(pos_, std::min<size_t>(op.size(), end_ - pos_)) != op) continue;
      pos_ += static_cast<uint32_t>(op.size());
      bracket(op[0], begin, op.size());
      tokens_.push_back({Tok::Op, begin, pos_});
      return;
    }
    ++pos_;
    char shown[8];
    std::snprintf(shown, sizeof shown, static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? "\\x%02x" : "%c",
                  static_cast<unsigned char>(c));
    diag_.report(diag::unexpectedCharacter, loc(begin, pos_), shown);
  }

  // A line inside brackets that begins with a keyword no expression can hold: the bracket was never closed. Goes back
  // to the start of the line, outside all brackets; the empty Newline tells the parser that the mistake was reported.
  bool statementInBracket() {
    if (brackets_.empty() || options_.expression || !isNameStart(static_cast<unsigned char>(s_[pos_]))) return false;
    uint32_t start = pos_ - file_.byteColumn(pos_);
    // Only blanks may stand before it: tokens end before the line, and comments and continuations end lines.
    if (!tokens_.empty() && tokens_.back().end > start) return false;
    uint32_t e = pos_;
    while (e < end_ && isNameChar(static_cast<unsigned char>(s_[e]))) ++e;
    std::string_view word = s_.substr(pos_, e - pos_);
    bool statement = false;
    for (std::string_view k : {"def", "class", "return", "import", "while", "with", "try", "raise", "pass", "break",
                               "continue", "del", "global", "nonlocal", "assert"})
      statement |= word == k;
    // `return = 1` inside a call is a keyword argument gone wrong, but still no statement.
    if (!statement || s_.substr(e, 1) == "=") return false;
    diag_.report(diag::unclosedBracket, loc(brackets_.front(), brackets_.front() + 1),
                 std::string(1, s_[brackets_.front()]));
    brackets_.clear();
    pos_ = start;
    tokens_.push_back({Tok::Newline, start, start});
    return true;
  }

  void bracket(char c, uint32_t at, size_t size) {
    if (size != 1) return;
    if (c == '(' || c == '[' || c == '{') brackets_.push_back(at);
    if (c != ')' && c != ']' && c != '}') return;
    if (brackets_.empty()) {
      if (!options_.expression) diag_.report(diag::unmatchedBracket, loc(at, at + 1), std::string(1, c));
      return;
    }
    char open = s_[brackets_.back()];
    if ((open == '(') != (c == ')') || (open == '[') != (c == ']'))
      diag_.report(diag::mismatchedBracket, loc(at, at + 1), std::string(1, c), std::string(1, open))
          .note(loc(brackets_.back(), brackets_.back() + 1), "opened here");
    brackets_.pop_back();
  }

  void number() {
    uint32_t begin = pos_;
    bool ok = true;
    auto digits = [&](auto valid) { // one or more digits, single underscores between them
      bool any = false, lastUnderscore = false;
      while (pos_ < end_ && (valid(s_[pos_]) || (s_[pos_] == '_' && !lastUnderscore && any))) {
        lastUnderscore = s_[pos_++] == '_';
        any = true;
      }
      return any && !lastUnderscore;
    };
    char next = pos_ + 1 < end_ ? static_cast<char>(s_[pos_ + 1] | 0x20) : 0;
    if (s_[pos_] == '0' && (next == 'x' || next == 'o' || next == 'b')) {
      pos_ += 2;
      if (pos_ < end_ && s_[pos_] == '_') ++pos_;
      if (next == 'x') ok = digits([](char c) { return isDigit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); });
      else if (next == 'o') ok = digits([](char c) { return c >= '0' && c <= '7'; });
      else ok = digits([](char c) { return c == '0' || c == '1'; });
    } else {
      bool floating = false;
      if (s_[pos_] != '.') ok = digits(isDigit);
      if (pos_ < end_ && s_[pos_] == '.') {
        floating = true;
        ++pos_;
        if (pos_ < end_ && isDigit(s_[pos_])) ok &= digits(isDigit);
      }
      if (pos_ < end_ && (s_[pos_] | 0x20) == 'e') {
        uint32_t save = pos_++;
        if (pos_ < end_ && (s_[pos_] == '+' || s_[pos_] == '-')) ++pos_;
        if (pos_ < end_ && isDigit(s_[pos_])) floating = true, ok &= digits(isDigit);
        else pos_ = save;
      }
      bool imaginary = pos_ < end_ && (s_[pos_] | 0x20) == 'j';
      if (imaginary) ++pos_;
      // 012 is not an int in Python 3; 00 is.
      if (!floating && !imaginary && s_[begin] == '0')
        for (uint32_t i = begin; i < pos_; ++i) ok &= s_[i] == '0' || s_[i] == '_';
    }
    // `1if x` is legal Python; any other suffix of a number is an error.
    if (pos_ < end_ && isNameChar(static_cast<unsigned char>(s_[pos_]))) {
      uint32_t e = pos_;
      while (e < end_ && isNameChar(static_cast<unsigned char>(s_[e]))) ++e;
      std::string_view word = s_.substr(pos_, e - pos_);
      bool keyword = false;
      for (std::string_view k : {"and", "else", "for", "if", "in", "is", "or", "not"}) keyword |= word == k;
      if (!keyword) ok = false, pos_ = e;
    }
    if (!ok) diag_.report(diag::badNumber, loc(begin, pos_), s_.substr(begin, pos_ - begin));
    tokens_.push_back({Tok::Number, begin, pos_});
  }

  void finish() {
    for (uint32_t open : brackets_) {
      if (options_.expression) break;
      diag_.report(diag::unclosedBracket, loc(open, open + 1), std::string(1, s_[open]));
      break; // the outermost is the one to look at
    }
    if (!options_.expression) {
      if (!tokens_.empty() && tokens_.back().kind != Tok::Newline && tokens_.back().kind != Tok::Dedent)
        tokens_.push_back({Tok::Newline, end_, end_});
      for (; indents_.size() > 1; indents_.pop_back()) tokens_.push_back({Tok::Dedent, end_, end_});
    }
    tokens_.push_back({Tok::End, end_, end_});
  }

  const SourceFile &file_;
  std::string_view s_;
  uint32_t pos_, end_;
  LexOptions options_;
  DiagEngine &diag_;
  std::vector<Token> tokens_;
  std::vector<Indentation> indents_{{0, 0}};
  std::vector<uint32_t> brackets_;
};

} // namespace

std::vector<Token> lex(const SourceFile &file, uint32_t begin, uint32_t end, LexOptions options, DiagEngine &diag) {
  return Lexer(file, begin, end, options, diag).run();
}

bool checkEncoding(const SourceFile &file, DiagEngine &diag) {
  std::string_view s = file.text();
  for (uint32_t i = 0; i < s.size();) {
    unsigned char c = static_cast<unsigned char>(s[i]);
    if (c == 0) {
      diag.report(diag::nulByte, Loc{&file, i, i + 1});
      return false;
    }
    unsigned n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    bool ok = n != 0 && i + n <= s.size();
    for (unsigned k = 1; ok && k < n; ++k) ok = (static_cast<unsigned char>(s[i + k]) & 0xc0) == 0x80;
    if (ok && n == 3) { // overlong forms and surrogates
      unsigned char d = static_cast<unsigned char>(s[i + 1]);
      ok = !(c == 0xe0 && d < 0xa0) && !(c == 0xed && d >= 0xa0);
    }
    if (!ok) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "0x%02x", c);
      diag.report(diag::notUtf8, Loc{&file, i, i + 1}, hex);
      return false;
    }
    i += n;
  }
  return true;
}

} // namespace tegula::syntax
