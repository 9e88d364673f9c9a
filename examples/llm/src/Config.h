// The shape of a Llama-style decoder: what config.json of a model says, or what the command line asks for.
#pragma once
#include "Status.h"
#include <cstdint>
#include <string>

namespace llm {

/// How weights of matrix products are kept. Norms, router and (with int8 and int4) the embedding stay in bf16 or fp32.
enum class Precision { Fp32, Bf16, Int8, Int4 };
Result<Precision> parsePrecision(const std::string &text);
const char *precisionName(Precision p);

/// Sizes are counts of elements. Heads of `headDim` elements; `heads` queries share `kvHeads` keys and values, heads / kvHeads each.
struct Config {
  int64_t vocab = 512, hidden = 256, intermediate = 704, layers = 4, heads = 8, kvHeads = 4, headDim = 32;
  int64_t experts = 0, expertsPerToken = 2; // 0: a dense feed-forward network
  int64_t window = 0; // a token attends to the last so many, itself among them; 0: to all
  float normEps = 1e-5f, ropeTheta = 10000.0f;
  bool tiedEmbedding = false; // the output matrix is the embedding
  int64_t eos = -1;           // the token that ends a text; -1: none

  int64_t qkvRows() const { return (heads + 2 * kvHeads) * headDim; }
  /// Parameters of the whole model.
  int64_t parameters() const;
  /// What the kernels ask for: divisibility and powers of two. The error names the field.
  Status check() const;
};

/// Named shapes: "tiny" (2 M parameters), "moe" (tiny with 4 experts), "1b", "8b" (shapes of Llama 3.2 1B and 3.1 8B).
Result<Config> namedConfig(const std::string &name);
/// A Hugging Face config.json of a Llama, Mistral or Mixtral model.
Result<Config> readConfig(const std::string &path);

} // namespace llm
