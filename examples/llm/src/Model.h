// One step of the decoder: rows of tokens go through all layers, and the next token is chosen for some of them.
//
// A row is a token of a sequence at a position. Rows of one sequence stand together in the order of their positions, so a step may hold the whole prompt of one
// sequence, the next 100 tokens of another one's, and one token each of 30 others (Orca's iteration-level scheduling, Yu et al., 2022; pages of the cache as in
// PagedAttention, Kwon et al., 2023). Everything that a step needs lies in buffers made once: a step allocates nothing, and launches the same kernels each time. Where the
// device records graphs, all launches of a step that only decodes are one graph for each number of sequences: what differs between two such steps lies in memory.
#pragma once
#include "PagedCache.h"
#include "Tiles.h"
#include "Weights.h"
#include <array>
#include <deque>
#include <map>

namespace llm {

/// How a sequence's next token is chosen. Temperature 0: the largest logit.
struct Sampling {
  float temperature = 0, topP = 1;
  int32_t topK = 0; // 0: all
  int32_t seed = 0;
};

/// Consecutive new tokens of one sequence in a step.
struct Span {
  std::vector<int32_t> tokens; // follows(i): what the step queued before chooses for its i-th output, which is not known yet
  int64_t line = 0;     // of the page table
  int64_t position = 0; // of the first token
  bool wantsToken = true; // false: more of the prompt comes in a later step
  Sampling sampling;
  int32_t step = 0; // tokens chosen so far, for the random numbers
};

/// The token that the step in front of this one chooses for its i-th span that wants one.
constexpr int32_t follows(int64_t i) { return int32_t(-1 - i); }

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
  /// The same in two parts: queue() starts a step, and take() waits for the oldest whose tokens were not taken. Where the device works beside the host, a step can
  /// be queued while the one before it runs, and continue its tokens by follows(); two at most are under way.
  Status queue(std::span<const Span> spans, PagedCache &pages);
  Result<std::vector<int32_t>> take();
  bool canQueueAhead() const { return device_.isQueued(); }
  /// The logits behind the tokens that the last step gave, [tokens, vocab].
  Result<std::vector<float>> logits() const;
  /// Graphs that were recorded so far.
  size_t graphs() const { return graphs_.size(); }
  /// Compiles every kernel that any step of up to `limits.sequences` sequences needs, so that no later one waits for the compiler. Uses pages that must all be free.
  Status warmUp();

  const Config &config() const { return weights_.config; }
  const Weights &weights() const { return weights_; }
  const Limits &limits() const { return limits_; }
  const Device &device() const { return device_; }
  Device &device() { return device_; }
  PagedCache makePages() const;

private:
  /// Rows of the step and the tables of attention, which lie on the device in sections of `each` elements from `base` on.
  struct Inputs {
    int64_t rows = 0, outputs = 0, decodeTiles = 0, prefillTiles = 0, base = 0, each = 0;
    bool sampled = false, isLong = false; // isLong: the keys of a sequence are shared among programs
  };
  /// A section for each row, and one for each sequence: both fit in `each`. Tiles are four numbers.
  enum Section { Tokens, Positions, Lines, Wanted, TopKs, Seeds, Steps, Temperatures, TopPs, Tiles, sectionEnd = Tiles + 4 };
  Buffer section(Section s) const;
  Status prepare(std::span<const Span> spans, PagedCache &pages);
  /// Every launch of the step that was prepared, through the first `layers` layers.
  Status forward(int64_t layers);
  Status layer(int64_t index);
  Status fusedLayer(int64_t index);
  Status rotate(int64_t layer);
  Status attention(int64_t layer);
  Status decodeAttention(int64_t layer);
  std::array<Buffer, 3> headParts(int64_t layer) const;
  /// Tokens that attention sees; 0: all.
  int64_t window() const { return config().window < limits_.context ? config().window : 0; }
  int64_t splitsOf(int64_t tiles) const;
  Launch decodeLaunch(int64_t tiles, int64_t splits) const;
  Status experts(const LayerWeights &l);
  Status splitActivations(const Buffer &x, int64_t rows, int64_t inputs);
  /// Whether a product of so many rows reads its quantized weights for each of them, by widenedGemv().
  bool hasFewRows(const Matrix &m, int64_t rows) const { return m.bits && device_.isGpu() && rows <= (m.experts > 1 ? 4 : 2); }
  /// Or has a kernel of its own for tensor cores, sharedMatmul().
  bool hasSomeRows(const Matrix &m, int64_t rows) const;
  /// So many results, `apart` elements from one to the next, whose sum is meant.
  struct Parts {
    int64_t parts = 0, apart = 0;
  };
  Parts partsOf(const Matrix &m, int64_t rows) const;
  Status sharedMatmul(const Matrix &m, const Matrix *up, const Buffer &x, const Buffer &out, int64_t rows, int64_t stride, bool parts);
  Status widenedGemv(const Matrix &m, const Matrix *up, const Buffer &x, const Buffer &out, int64_t rows, int64_t outputs, int64_t stride, int64_t ofRow);
  Status choose();
  Status product(const Matrix &m, const Buffer &x, const Buffer &out, int64_t rows, int64_t stride, int64_t column = 0, const Matrix *before = nullptr, bool parts = false);
  Status norm(const Buffer &weight);
  Status normedProduct(const Buffer &norm, const Buffer &w, int64_t outputs, const Buffer &out, Product product);
  Status addedProduct(const Buffer &x, const Buffer &w, int64_t inputs);
  /// Whether kernels of the step start early: where it only decodes, they are so short that starting them takes a part of the time.
  bool early() const { return fused_ && in_.prefillTiles == 0; }
  Launch normLaunch(bool early) const { return {config().hidden <= 1024 || !device_.isGpu() ? 4 : 8, 3, early}; }
  Status rowProduct(const Buffer &x, const Buffer *norm, const Buffer &w, const Buffer &out, int64_t outputs, int64_t inputs, Product product);
  Status tiledProduct(const Buffer &x, const Buffer &w, const Buffer &out, int64_t rows, int64_t outputs, int64_t inputs, Product product, bool early);
  /// Of the products of a step of so many rows; empty on CPUs, whose kernels have forms for powers of two.
  std::vector<Tiling> tilings(int64_t rows) const;
  bool canDequantize(const Matrix &m) const;
  Status dequantize(const Matrix &m);

  Weights weights_;
  Limits limits_;
  Kernels kernels_;
  Device device_;
  Inputs in_;
  Parts pending_;         // what is in delta_ and not in the residual stream yet; the next norm adds it
  Parts qkvParts_{1, 0};  // of qkv_, which attention adds
  TegulaDtype activation_ = TEGULA_FP32, cacheType_ = TEGULA_FP32;
  bool fused_ = false; // dense 16-bit weights on a GPU: products with norms, activations and the residual in them
  int64_t prefillQueries_ = 16; // of a tile of attention
  // A step and the one queued behind it have sides of their own of what the host fills and reads.
  struct Queued {
    int side;
    int64_t outputs;
  };
  int side_ = 0;
  std::deque<Queued> waiting_; // to be taken
  int64_t chosenBefore_ = 0; // outputs of the step queued last
  std::vector<int32_t> staging_[2]; // of inputs_, and of table_ behind it
  Buffer inputs_, table_;
  std::map<std::tuple<int64_t, bool, bool, int>, tegula::Graph> graphs_; // by the number of sequences, whether one is sampled, whether one is long, and the side
  Buffer cosines_, sines_;
  std::vector<Buffer> keys_, values_; // by layer: [pages, pageTokens, kvHeads, headDim]
  Buffer stream_, rounded_, delta_, normed_, dequantized_, qkv_, queries_, attended_, gateUp_, hidden_, last_, logits_, chosen_[2], tops_, places_;
  Buffer attentionParts_, attentionSums_;
  Buffer parts_, partScales_, partSums_; // of activations for quantized weights on CPUs
  Buffer routes_, expertOf_, expertWeights_, order_, tileExperts_, expertParts_;
};

} // namespace llm
