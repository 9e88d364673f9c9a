// From text to tokens: indentation, implicit line joining, all literals of Python 3.12
// (docs.python.org/3.12/reference/lexical_analysis.html).
#pragma once
#include "support/Diag.h"
#include <vector>

namespace tegula::syntax {

enum class Tok : uint8_t { Name, Number, String, FString, Op, Newline, Indent, Dedent, End };

struct Token {
  Tok kind;
  uint32_t begin, end; // bytes in the file; empty for Indent, Dedent, End
};

struct LexOptions {
  /// Inside brackets from the start: no Newline, Indent or Dedent (replacement fields of f-strings, single
  /// expressions).
  bool expression = false;
};

/// Tokens of file.text()[begin, end). Always ends with End; errors are reported and the lexer continues.
std::vector<Token> lex(const SourceFile &file, uint32_t begin, uint32_t end, LexOptions options, DiagEngine &diag);

/// Checks that the text is UTF-8 without NUL bytes; reports the first place that is not.
bool checkEncoding(const SourceFile &file, DiagEngine &diag);

/// One past the closing quote of the string literal that begins at `at` (prefix included), nested replacement fields of
/// f-strings skipped. `closed`: whether there is a closing quote.
uint32_t skipString(std::string_view text, uint32_t at, uint32_t end, bool &closed);

/// Decoded value of a String token (prefix and quotes removed, escapes resolved; bytes literals too).
std::string decodeString(const SourceFile &file, Token t, DiagEngine &diag);
/// The same for a piece of literal text inside an f-string.
std::string decodePiece(const SourceFile &file, uint32_t begin, uint32_t end, bool raw, bool bytes, DiagEngine &diag);

struct StringPrefix {
  bool raw = false, bytes = false, format = false;
  unsigned length = 0;     // of the prefix
  unsigned quote = 1;      // 1 or 3
  char quoteChar = '"';
};
/// Prefix and quotes of a literal; `length` 0 and quoteChar 0 if none begins here.
StringPrefix stringPrefix(std::string_view text, uint32_t at, uint32_t end);

} // namespace tegula::syntax
