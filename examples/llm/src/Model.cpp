#include "Model.h"
#include <cmath>

namespace llm {

namespace {

/// Lines of a tile of experts' rows for a step of that many rows.
int64_t expertTile(const Device &d, int64_t rows) { return d.isGpu() || rows > 8 ? 16 : 4; }
int64_t expertSlots(int64_t tile, int64_t choices, int64_t experts) { return cdiv(choices + experts * (tile - 1), tile) * tile; }
constexpr int64_t block = 1024; // of kernels that go along a row

} // namespace

std::string Model::Memory::text() const {
  return readableBytes(uint64_t(total())) + " (weights " + readableBytes(uint64_t(weights)) + ", KV cache " + readableBytes(uint64_t(cache)) + ", working memory " + readableBytes(uint64_t(work)) + ")";
}

Model::Memory Model::expectedMemory(const Config &c, Precision p, const Limits &l, const Device &device) {
  Memory m;
  int64_t element = p == Precision::Fp32 ? 4 : 2, activation = p == Precision::Fp32 || !device.isGpu() ? 4 : 2;
  int64_t tokens = l.cacheTokens ? l.cacheTokens : l.sequences * l.context;
  m.weights = expectedWeightBytes(c, p);
  m.cache = 2 * c.layers * cdiv(tokens, pageTokens) * pageTokens * c.kvHeads * c.headDim * element;
  int64_t row = 8 * c.hidden + activation * (c.hidden + 2 * c.heads * c.headDim) + 4 * c.qkvRows() + (8 + activation) * c.intermediate + 3 * std::max(c.hidden, c.intermediate);
  if (c.experts) row += c.expertsPerToken * (12 * c.intermediate + 4 * c.hidden);
  m.work = l.rows * row + l.sequences * 4 * c.vocab + l.context * c.headDim * 4;
  return m;
}

Status Model::checkMemory(const Config &c, Precision p, const Limits &l, const Device &device) {
  Memory m = expectedMemory(c, p, l, device);
  uint64_t there = device.availableBytes();
  if (uint64_t(m.total()) <= there) return {};
  return fail(TEGULA_OUT_OF_RESOURCES, "the model takes " + m.text() + ", but device " + device.name() + " has " + readableBytes(there) +
                                           "; a smaller --context or --batch makes the cache smaller, --precision int4 the weights");
}

PagedCache Model::makePages() const {
  int64_t perLine = cdiv(limits_.context, pageTokens);
  return PagedCache(limits_.sequences, perLine, cdiv(limits_.cacheTokens ? limits_.cacheTokens : limits_.sequences * perLine * pageTokens, pageTokens));
}

Result<Model> Model::create(Weights weights, const Limits &limits, const Kernels &kernels, const Device &device) {
  Model m;
  m.weights_ = std::move(weights);
  m.limits_ = limits;
  m.kernels_ = kernels;
  m.device_ = device;
  const Config &c = m.weights_.config;
  bool fp32 = m.weights_.precision == Precision::Fp32;
  // CPUs widen every operand of a product to fp32 or cut it into bytes, so nothing is gained from rounding activations before.
  m.activation_ = fp32 || !device.isGpu() ? TEGULA_FP32 : TEGULA_BF16;
  m.cacheType_ = fp32 ? TEGULA_FP32 : TEGULA_BF16;
  int64_t group = c.heads / c.kvHeads;
  m.prefillQueries_ = std::max<int64_t>(1, (device.isGpu() ? 64 : 128) / nextPowerOf2(group));

  int64_t rows = limits.rows, n = limits.sequences, wide = std::max({c.hidden, c.intermediate, c.heads * c.headDim});
  int64_t choices = rows * c.expertsPerToken, slots = c.experts ? expertSlots(16, choices, c.experts) : 0;
  PagedCache pages = m.makePages();
  struct Row {
    Buffer *to;
    TegulaDtype dtype;
    int64_t count;
  };
  std::vector<Row> table = {{&m.tokens_, TEGULA_INT32, rows},
                            {&m.positions_, TEGULA_INT32, rows},
                            {&m.lines_, TEGULA_INT32, rows},
                            {&m.wanted_, TEGULA_INT32, n},
                            {&m.tiles_, TEGULA_INT32, 4 * rows},
                            {&m.table_, TEGULA_INT32, int64_t(pages.table().size())},
                            {&m.temperatures_, TEGULA_FP32, n},
                            {&m.topPs_, TEGULA_FP32, n},
                            {&m.topKs_, TEGULA_INT32, n},
                            {&m.seeds_, TEGULA_INT32, n},
                            {&m.steps_, TEGULA_INT32, n},
                            {&m.stream_, TEGULA_FP32, rows * c.hidden},
                            {&m.delta_, TEGULA_FP32, rows * c.hidden},
                            {&m.normed_, m.activation_, rows * c.hidden},
                            {&m.qkv_, TEGULA_FP32, rows * c.qkvRows()},
                            {&m.queries_, m.cacheType_, rows * c.heads * c.headDim},
                            {&m.attended_, m.activation_, rows * c.heads * c.headDim},
                            {&m.gateUp_, TEGULA_FP32, rows * 2 * c.intermediate * (c.experts ? c.expertsPerToken : 1)},
                            {&m.hidden_, m.activation_, rows * c.intermediate * (c.experts ? c.expertsPerToken : 1)},
                            {&m.last_, TEGULA_FP32, n * c.hidden},
                            {&m.lastDelta_, TEGULA_FP32, n * c.hidden},
                            {&m.logits_, TEGULA_FP32, n * c.vocab},
                            {&m.chosen_, TEGULA_INT32, n}};
  if (m.weights_.output.bits && !device.isGpu()) {
    table.push_back({&m.parts_, TEGULA_INT8, rows * 2 * wide});
    table.push_back({&m.partScales_, TEGULA_FP32, rows * wide / quantGroup});
    table.push_back({&m.partSums_, TEGULA_INT32, rows * wide / quantGroup});
  }
  if (c.experts) {
    table.push_back({&m.routes_, TEGULA_FP32, rows * c.experts});
    table.push_back({&m.expertOf_, TEGULA_INT32, choices});
    table.push_back({&m.expertWeights_, TEGULA_FP32, choices});
    table.push_back({&m.order_, TEGULA_INT32, slots});
    table.push_back({&m.tileExperts_, TEGULA_INT32, slots});
    table.push_back({&m.expertParts_, TEGULA_FP32, choices * c.hidden});
  }
  m.keys_.resize(size_t(c.layers));
  m.values_.resize(size_t(c.layers));
  for (int64_t i = 0; i < c.layers; ++i)
    for (auto *side : {&m.keys_, &m.values_}) table.push_back({&(*side)[size_t(i)], m.cacheType_, pages.pages() * pageTokens * c.kvHeads * c.headDim});
  for (const Row &r : table) {
    Result<Buffer> b = device.allocate(r.dtype, r.count);
    if (!b) return b.status();
    *r.to = *b;
  }
  // Angles in double: in fp32 those of position 10,000 are off by 1e-3.
  int64_t half = c.headDim / 2;
  std::vector<float> cosines(size_t(limits.context * half)), sines(cosines.size());
  for (int64_t p = 0; p < limits.context; ++p)
    for (int64_t i = 0; i < half; ++i) {
      double angle = double(p) * std::pow(double(c.ropeTheta), -double(i) / double(half));
      cosines[size_t(p * half + i)] = float(std::cos(angle)), sines[size_t(p * half + i)] = float(std::sin(angle));
    }
  for (auto [values, to] : {std::pair(&cosines, &m.cosines_), std::pair(&sines, &m.sines_)}) {
    Result<Buffer> b = device.allocate(TEGULA_FP32, int64_t(values->size()));
    if (!b) return b.status();
    *to = *b;
    if (Status s = device.upload(*to, values->data(), to->bytes); !s) return s;
  }
  return m;
}

/// Writes the rows of the spans, their tiles (those of one query first) and what choosing needs to the device.
Status Model::prepare(std::span<const Span> spans, PagedCache &pages) {
  std::vector<int32_t> tokens, positions, lines, wanted, decode, prefill, topKs, seeds, steps;
  std::vector<float> temperatures, topPs;
  in_ = {};
  for (const Span &s : spans) {
    int64_t count = int64_t(s.tokens.size()), first = int64_t(tokens.size());
    if (s.position + count > limits_.context) return invalid("a sequence would have " + std::to_string(s.position + count) + " tokens; the context is " + std::to_string(limits_.context));
    for (int64_t i = 0; i < count; ++i) {
      int32_t token = s.tokens[size_t(i)];
      if (token < 0 || token >= config().vocab) return invalid("token " + std::to_string(token) + " is not in the vocabulary of " + std::to_string(config().vocab));
      tokens.push_back(token);
      positions.push_back(int32_t(s.position + i));
      lines.push_back(int32_t(s.line));
    }
    auto &tiles = count == 1 ? decode : prefill;
    for (int64_t i = 0; i < count; i += prefillQueries_)
      tiles.insert(tiles.end(), {int32_t(first + i), int32_t(std::min(prefillQueries_, count - i)), int32_t(s.position + i), int32_t(s.line)});
    if (!s.wantsToken) continue;
    wanted.push_back(int32_t(tokens.size()) - 1);
    temperatures.push_back(s.sampling.temperature);
    topPs.push_back(s.sampling.topP);
    topKs.push_back(int32_t(std::min<int64_t>(s.sampling.topK, config().vocab)));
    seeds.push_back(s.sampling.seed);
    steps.push_back(s.step);
    in_.sampled |= s.sampling.temperature > 0;
  }
  in_.rows = int64_t(tokens.size());
  in_.outputs = int64_t(wanted.size());
  in_.decodeTiles = int64_t(decode.size() / 4), in_.prefillTiles = int64_t(prefill.size() / 4);
  if (in_.rows == 0 || in_.rows > limits_.rows || in_.outputs > limits_.sequences)
    return invalid("a step of " + std::to_string(in_.rows) + " tokens of " + std::to_string(spans.size()) + " sequences; the limits are " + std::to_string(limits_.rows) + " and " + std::to_string(limits_.sequences));
  decode.insert(decode.end(), prefill.begin(), prefill.end());
  auto put = [&](const Buffer &to, const auto &v) { return device_.upload(to, v.data(), int64_t(v.size() * sizeof(v[0]))); };
  Status s = put(tokens_, tokens);
  if (s) s = put(positions_, positions);
  if (s) s = put(lines_, lines);
  if (s) s = put(wanted_, wanted);
  if (s) s = put(tiles_, decode);
  if (s && pages.changed()) s = put(table_, pages.table());
  if (s) s = put(temperatures_, temperatures);
  if (s) s = put(topPs_, topPs);
  if (s) s = put(topKs_, topKs);
  if (s) s = put(seeds_, seeds);
  if (s) s = put(steps_, steps);
  return s;
}

/// out[row, column ...] = x[row] @ m.T; the kernel and its tiles by the form of the weights, the device and the number of rows.
Status Model::product(const Matrix &m, const Buffer &x, const Buffer &out, int64_t rows, int64_t stride, int64_t column) {
  tegula::Arg to = out.arg(column);
  const Buffer &w = m.deviceValues;
  int64_t n = m.outputs, k = m.inputs;
  bool gpu = device_.isGpu();
  if (m.bits && !gpu) {
    int64_t bm = std::min<int64_t>(nextPowerOf2(rows), 32);
    Status s = device_.launch(kernels_.splitActivations, {rows, k / quantGroup}, {x, parts_, partScales_, partSums_, k, quantGroup});
    if (s) s = device_.launch(kernels_.integerMatmul, {cdiv(rows, bm), cdiv(n, quantBlock)}, {parts_, partScales_, partSums_, w, m.deviceScales, to, rows, n, k, stride, quantGroup, m.bits, bm});
    return s;
  }
  // CPUs pack a tile of weights for each tile of rows, so tall tiles pay; GPUs want many tiles.
  int64_t bm = rows <= 16 ? 16 : rows <= 32 ? 32 : rows <= 64 || gpu ? 64 : 128;
  if (m.bits) return device_.launch(kernels_.widenedMatmul, {cdiv(rows, bm), cdiv(n, quantBlock)}, {x, w, m.deviceScales, to, rows, n, k, stride, quantGroup, m.bits, bm});
  if (rows <= 4) return device_.launch(kernels_.gemv, {rows, cdiv(n, 8)}, {x, w, to, rows, n, k, stride, 8, gpu ? 256 : 64});
  return device_.launch(kernels_.matmul, {cdiv(rows, bm), cdiv(n, 64)}, {x, w, to, rows, n, k, stride, bm, 64, gpu ? 64 : 128});
}

/// normed = norm(stream), delta added to the stream before if `add`.
Status Model::norm(const Buffer &weight, bool add) {
  return device_.launch(kernels_.rmsNorm, {in_.rows}, {stream_, delta_, weight, normed_, config().hidden, config().normEps, int(add), nextPowerOf2(config().hidden)});
}

Status Model::attention(int64_t layer) {
  const Config &c = config();
  int64_t group = c.heads / c.kvHeads, i = layer;
  struct Part {
    int64_t first, tiles, queries;
  };
  for (Part p : {Part{0, in_.decodeTiles, 1}, Part{in_.decodeTiles, in_.prefillTiles, prefillQueries_}}) {
    if (!p.tiles) continue;
    int64_t bm = std::max<int64_t>(nextPowerOf2(p.queries * group), device_.isGpu() ? 16 : 1);
    Status s = device_.launch(kernels_.attention, {p.tiles, c.kvHeads},
                              {queries_, keys_[size_t(i)], values_[size_t(i)], attended_, tiles_.arg(4 * p.first), table_, cdiv(limits_.context, pageTokens), 1 / std::sqrt(float(c.headDim)), c.heads,
                               c.kvHeads, c.headDim, pageTokens, p.queries, bm, 64});
    if (!s) return s;
  }
  return {};
}

Status Model::layer(int64_t index, bool first) {
  const Config &c = config();
  const LayerWeights &l = weights_.layers[size_t(index)];
  int64_t rows = in_.rows, q = c.heads * c.headDim, kv = c.kvHeads * c.headDim;
  Status s = norm(l.deviceAttentionNorm, !first);
  if (s) s = product(l.q, normed_, qkv_, rows, c.qkvRows());
  if (s) s = product(l.k, normed_, qkv_, rows, c.qkvRows(), q);
  if (s) s = product(l.v, normed_, qkv_, rows, c.qkvRows(), q + kv);
  if (s)
    s = device_.launch(kernels_.ropeAppend, {rows, c.heads + 2 * c.kvHeads},
                       {qkv_, queries_, keys_[size_t(index)], values_[size_t(index)], cosines_, sines_, positions_, lines_, table_, cdiv(limits_.context, pageTokens), c.heads, c.kvHeads, c.headDim, pageTokens}, 1);
  if (s) s = attention(index);
  if (s) s = product(l.o, attended_, delta_, rows, c.hidden);
  if (s) s = norm(l.deviceFeedForwardNorm, true);
  if (!s) return s;
  if (c.experts) return experts(l);
  s = product(l.gate, normed_, gateUp_, rows, 2 * c.intermediate);
  if (s) s = product(l.up, normed_, gateUp_, rows, 2 * c.intermediate, c.intermediate);
  if (s) s = device_.launch(kernels_.swiglu, {rows, cdiv(c.intermediate, block)}, {gateUp_, hidden_, c.intermediate, block});
  if (s) s = product(l.down, hidden_, delta_, rows, c.hidden);
  return s;
}

Status Model::experts(const LayerWeights &l) {
  const Config &c = config();
  int64_t rows = in_.rows, each = c.expertsPerToken, choices = rows * each, tile = expertTile(device_, rows), slots = expertSlots(tile, choices, c.experts);
  Status s = product(l.router, normed_, routes_, rows, c.experts);
  if (s) s = device_.launch(kernels_.moeGate, {rows}, {routes_, expertOf_, expertWeights_, c.experts, each, nextPowerOf2(c.experts)}, 1);
  if (s) s = device_.launch(kernels_.moeAlign, {1}, {expertOf_, order_, tileExperts_, choices, c.experts, slots, tile, 256});
  auto grouped = [&](const Matrix &m, const Buffer &x, const Buffer &out, int64_t column, int64_t stride, int64_t ofRow) {
    int64_t n = m.outputs / c.experts;
    return device_.launch(kernels_.groupedMatmul, {slots / tile, cdiv(n, 64)}, {x, m.deviceValues, out.arg(column), order_, tileExperts_, n, m.inputs, stride, ofRow, tile, 64, 64});
  };
  if (s) s = grouped(l.expertGate, normed_, gateUp_, 0, 2 * c.intermediate, each);
  if (s) s = grouped(l.expertUp, normed_, gateUp_, c.intermediate, 2 * c.intermediate, each);
  if (s) s = device_.launch(kernels_.swiglu, {choices, cdiv(c.intermediate, block)}, {gateUp_, hidden_, c.intermediate, block});
  if (s) s = grouped(l.expertDown, hidden_, expertParts_, 0, c.hidden, 1);
  if (s) s = device_.launch(kernels_.moeCombine, {rows, cdiv(c.hidden, block)}, {expertParts_, expertWeights_, delta_, c.hidden, each, block});
  return s;
}

/// The rows that want a token through the last norm and the output matrix, and the choice.
Status Model::choose() {
  const Config &c = config();
  int64_t n = in_.outputs;
  Status s = device_.launch(kernels_.gatherRows, {n, cdiv(c.hidden, block)}, {wanted_, stream_, last_, c.hidden, block});
  if (s) s = device_.launch(kernels_.gatherRows, {n, cdiv(c.hidden, block)}, {wanted_, delta_, lastDelta_, c.hidden, block});
  if (s) s = device_.launch(kernels_.rmsNorm, {n}, {last_, lastDelta_, weights_.deviceFinalNorm, normed_, c.hidden, c.normEps, 1, nextPowerOf2(c.hidden)});
  if (s) s = product(weights_.output, normed_, logits_, n, c.vocab);
  if (!s) return s;
  if (!in_.sampled) return device_.launch(kernels_.argmax, {n}, {logits_, chosen_, c.vocab, block});
  return device_.launch(kernels_.sample, {n}, {logits_, chosen_, temperatures_, topKs_, topPs_, seeds_, steps_, c.vocab, block});
}

Result<std::vector<int32_t>> Model::step(std::span<const Span> spans, PagedCache &pages) {
  Status s = prepare(spans, pages);
  if (s) s = device_.launch(kernels_.embedding, {in_.rows, cdiv(config().hidden, block)}, {tokens_, weights_.deviceEmbedding, stream_, config().hidden, block});
  for (int64_t i = 0; s && i < config().layers; ++i) s = layer(i, i == 0);
  std::vector<int32_t> chosen(size_t(in_.outputs));
  if (s && !chosen.empty()) s = choose();
  if (s) s = device_.download(chosen.data(), chosen_, int64_t(chosen.size() * sizeof(int32_t)));
  if (!s) return s;
  return chosen;
}

Result<std::vector<float>> Model::logits() const {
  std::vector<float> all(size_t(in_.outputs * config().vocab));
  if (Status s = device_.download(all.data(), logits_, int64_t(all.size() * sizeof(float))); !s) return s;
  return all;
}

Status Model::warmUp() {
  PagedCache pages = makePages();
  // `total` new tokens of `sequences` sequences at least, of more if one would be longer than the context.
  auto run = [&](int64_t sequences, int64_t total, float temperature) {
    std::vector<Span> spans;
    int64_t each = std::min(cdiv(total, sequences), limits_.context);
    for (; total > 0 && int64_t(spans.size()) < limits_.sequences; total -= each) {
      Span s;
      s.tokens.assign(size_t(std::min(each, total)), 0);
      s.line = int64_t(spans.size());
      s.sampling.temperature = temperature;
      spans.push_back(std::move(s));
    }
    return step(spans, pages).status();
  };
  // A line of the table is all zeros now: every sequence writes to page 0, whose contents nobody uses.
  Status s = run(1, 1, 1);
  for (int64_t n = 1; s && n < 2 * limits_.sequences; n *= 2) s = run(std::min(n, limits_.sequences), std::min(n, limits_.sequences), 0);
  for (int64_t n = 2; s && n < 2 * limits_.rows; n *= 2) s = run(1, std::min(n, limits_.rows), 0);
  return s;
}

} // namespace llm
