// The shape of a Llama-style decoder: what config.json of a model says, or what the command line asks for.
#pragma once
#include "Status.h"
#include <cstdint>
#include <string>
#include <vector>

namespace llm {

/// How weights of matrix products are kept. Norms, router and (with int8 and int4) the embedding stay in bf16 or fp32.
enum class Precision { Fp32, Bf16, Int8, Int4 };
Result<Precision> parsePrecision(const std::string &text);
const char *precisionName(Precision p);
inline bool isQuantized(Precision p) { return p == Precision::Int8 || p == Precision::Int4; }

/// How a model turns positions beyond those that it was first trained for (transformers' modeling_rope_utils.py): slow angles are divided by `factor`, all of them (linear), or those that turn
/// less than `low` times in `original` positions, with a transition up to `high` times (llama3), or over a range of angles that beta_fast and beta_slow give (yarn; Peng et al., 2023).
struct RopeScaling {
  enum class Kind { None, Linear, Llama3, Yarn } kind = Kind::None;
  double factor = 1, low = 1, high = 4, original = 8192; // Yarn: `low` is beta_slow, `high` beta_fast
  double attention = 1; // of cosines and sines
};

/// Sizes are counts of elements. Heads of `headDim` elements; `heads` queries share `kvHeads` keys and values, heads / kvHeads each.
struct Config {
  int64_t vocab = 512, hidden = 256, intermediate = 704, layers = 4, heads = 8, kvHeads = 4, headDim = 32;
  int64_t experts = 0, expertsPerToken = 2; // 0: a dense feed-forward network
  int64_t positions = 0; // that the model was made for, with the scaling of positions; 0: the file does not say
  int64_t window = 0; // a token attends to the last so many, itself among them; 0: to all
  float normEps = 1e-5f, ropeTheta = 10000.0f;
  RopeScaling rope;
  bool tiedEmbedding = false; // the output matrix is the embedding
  bool qkvBias = false;       // queries, keys and values have biases (Qwen2)
  bool headNorms = false;     // each head of queries and keys is normalized before it is turned (Qwen3)
  std::vector<int32_t> eos;   // tokens that end a text

  /// The angle between one position and the next of the i-th of headDim / 2 pairs.
  double angle(int64_t i) const;
  int64_t qkvRows() const { return (heads + 2 * kvHeads) * headDim; }
  /// Parameters of the whole model.
  int64_t parameters() const;
  /// What the kernels ask for: divisibility and powers of two. The error names the field.
  Status check() const;
};

/// Named shapes: "tiny" (2 M parameters), "moe" (tiny with 4 experts), "1b", "8b" (shapes of Llama 3.2 1B and 3.1 8B).
Result<Config> namedConfig(const std::string &name);
/// config.json of a Hugging Face folder with a Llama, Mistral, Mixtral, Qwen2 or Qwen3 model; the tokens that end a text are those of generation_config.json where it names them. What would be
/// computed wrong is TEGULA_UNSUPPORTED, by the key's name.
Result<Config> readConfig(const std::string &folder);

} // namespace llm
