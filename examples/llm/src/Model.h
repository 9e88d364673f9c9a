// One step of the decoder: rows of tokens go through all layers, and the next token is chosen for some of them.
//
// A row is a token of a sequence at a position. Rows of one sequence stand together in the order of their positions, so a step may hold the whole prompt of one
// sequence, the next 100 tokens of another one's, and one token each of 30 others (Orca's iteration-level scheduling, Yu et al., 2022; pages of the cache as in
// PagedAttention, Kwon et al., 2023). Everything that a step needs lies in buffers made once: a step allocates nothing, and launches the same kernels each time.
#pragma once
#include "PagedCache.h"
#include "Weights.h"

namespace llm {

/// How a sequence's next token is chosen. Temperature 0: the largest logit.
struct Sampling {
  float temperature = 0, topP = 1;
  int32_t topK = 0; // 0: all
  int32_t seed = 0;
};

/// Consecutive new tokens of one sequence in a step.
struct Span {
  std::vector<int32_t> tokens;
  int64_t line = 0;     // of the page table
  int64_t position = 0; // of the first token
  bool wantsToken = true; // false: more of the prompt comes in a later step
  Sampling sampling;
  int32_t step = 0; // tokens chosen so far, for the random numbers
};

class Model {
public:
  struct Limits {
    int64_t sequences = 1;  // at the same time
    int64_t context = 2048; // tokens of a sequence, prompt and answer
    int64_t rows = 256;     // of a step
    int64_t cacheTokens = 0; // in all; 0: sequences * context
  };
  /// What a model of this shape takes in bytes, by part, for a message before anything is loaded.
  struct Memory {
    int64_t weights = 0, cache = 0, work = 0;
    int64_t total() const { return weights + cache + work; }
    std::string text() const;
  };
  static Memory expectedMemory(const Config &config, Precision precision, const Limits &limits, const Device &device);
  /// TEGULA_OUT_OF_RESOURCES, with the amounts, if it does not fit.
  static Status checkMemory(const Config &config, Precision precision, const Limits &limits, const Device &device);

  static Result<Model> create(Weights weights, const Limits &limits, const Kernels &kernels, const Device &device);

  /// Runs the spans, `limits.rows` tokens at most, and gives the next token of each span that wants one, in order.
  Result<std::vector<int32_t>> step(std::span<const Span> spans, PagedCache &pages);
  /// The logits behind the tokens that the last step gave, [tokens, vocab].
  Result<std::vector<float>> logits() const;
  /// Compiles every kernel that any step of up to `limits.sequences` sequences needs, so that no later one waits for the compiler. Uses pages that must all be free.
  Status warmUp();

  const Config &config() const { return weights_.config; }
  const Weights &weights() const { return weights_; }
  const Limits &limits() const { return limits_; }
  const Device &device() const { return device_; }
  Device &device() { return device_; }
  PagedCache makePages() const;

private:
  /// Rows of the step and the tables of attention, on the device.
  struct Inputs {
    int64_t rows = 0, outputs = 0, decodeTiles = 0, prefillTiles = 0;
    bool sampled = false;
  };
  Status prepare(std::span<const Span> spans, PagedCache &pages);
  Status layer(int64_t index, bool first);
  Status attention(int64_t layer);
  Status experts(const LayerWeights &l);
  Status choose();
  Status product(const Matrix &m, const Buffer &x, const Buffer &out, int64_t rows, int64_t stride, int64_t column = 0);
  Status norm(const Buffer &weight, bool add);
  Status rowKernel(const tegula::Function &f, int64_t rows, int64_t n, const Buffer &from, const Buffer &to);

  Weights weights_;
  Limits limits_;
  Kernels kernels_;
  Device device_;
  Inputs in_;
  TegulaDtype activation_ = TEGULA_FP32, cacheType_ = TEGULA_FP32;
  int64_t prefillQueries_ = 16; // of a tile of attention
  // int32: [tokens, positions, lines] of rows, rows that want a token, tiles (of four), page table, sampling parameters.
  Buffer tokens_, positions_, lines_, wanted_, tiles_, table_, temperatures_, topPs_, topKs_, seeds_, steps_;
  Buffer cosines_, sines_;
  std::vector<Buffer> keys_, values_; // by layer: [pages, pageTokens, kvHeads, headDim]
  Buffer stream_, delta_, normed_, qkv_, queries_, attended_, gateUp_, hidden_, last_, lastDelta_, logits_, chosen_;
  Buffer parts_, partScales_, partSums_; // of activations for quantized weights on CPUs
  Buffer routes_, expertOf_, expertWeights_, order_, tileExperts_, expertParts_;
};

} // namespace llm
