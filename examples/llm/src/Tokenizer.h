// Byte-pair encoding as in a Hugging Face tokenizer.json: text to tokens and back. Two families: of bytes (GPT-2, Llama 3, Qwen, ...), and of characters with bytes for those that have no token
// (SentencePiece's: Llama 2, Mistral, Mixtral).
//
// A text is cut at the added tokens; each piece is normalized, cut into words by the file's expressions, and pairs of neighbours in a word are merged in the order of the file's list (Sennrich
// et al., 2016; Radford et al., 2019).
#pragma once
#include "Status.h"
#include <memory>
#include <span>
#include <vector>

namespace llm {

class Tokenizer {
public:
  /// What the file asks for and is not known here (another model than BPE, other normalizers or pre-tokenizers) is an error that names it.
  static Result<Tokenizer> open(const std::string &path);

  /// UTF-8 in; bytes that are not UTF-8 are taken as they are, as one word. With the tokens that the file puts around every text (a beginning, mostly), unless it begins or ends with them itself.
  std::vector<int32_t> encode(const std::string &text) const;
  /// The bytes of a token; a token may end within a character. Empty for unknown numbers.
  std::string bytes(int32_t token) const;
  std::string decode(std::span<const int32_t> tokens) const;
  /// One more than the largest number of a token.
  int64_t size() const;

private:
  struct Tables;
  std::shared_ptr<const Tables> tables_;
};

} // namespace llm
