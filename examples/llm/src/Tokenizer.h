// Byte-level byte-pair encoding as in a Hugging Face tokenizer.json (GPT-2, Llama 3, Qwen, ...): text to tokens and back.
//
// A text is cut at the special tokens, then into words by the file's regular expression; each byte of a word becomes a printable character, and pairs of neighbours are
// merged in the order of the file's list (Sennrich et al., 2016; Radford et al., 2019).
#pragma once
#include "Status.h"
#include <memory>
#include <span>
#include <vector>

namespace llm {

class Tokenizer {
public:
  /// What the file asks for and is not known here (another model than BPE, normalizers, other pre-tokenizers) is an error that names it.
  static Result<Tokenizer> open(const std::string &path);

  /// UTF-8 in; bytes that are not UTF-8 are taken as they are, as one word.
  std::vector<int32_t> encode(const std::string &text) const;
  /// The bytes of a token; a token may end within a character. Empty for unknown numbers.
  std::string bytes(int32_t token) const;
  std::string decode(std::span<const int32_t> tokens) const;
  /// The number of a token by its text in the file, -1 if there is none.
  int32_t find(const std::string &token) const;
  /// One more than the largest number of a token.
  int64_t size() const;

private:
  struct Tables;
  std::shared_ptr<const Tables> tables_;
};

} // namespace llm
