// Unicode's canonical composition (NFC, Unicode Standard Annex 15), which some tokenizers ask for in front of their words.
#pragma once
#include <string>
#include <string_view>

namespace llm {

/// The code point at text[at], and how many bytes it has; 0 bytes: no UTF-8 begins there.
struct CodePoint {
  char32_t value;
  size_t bytes;
};
CodePoint codePointAt(std::string_view text, size_t at);

/// Bytes of the text in front of a last character that has begun and whose other bytes are yet to come.
size_t withoutUnfinished(std::string_view text);

/// UTF-8 to UTF-8. Bytes that are not UTF-8 stay as they are.
std::string composed(std::string_view text);

} // namespace llm
