#include "Model.h"
#include <algorithm>
#include <bit>
#include <cmath>

namespace llm {

namespace {

/// Lines of a tile of experts' rows for a step of that many rows. CPUs read quantized weights once for each tile, from a cache but the first time, and compute lines of padding as well;
/// one row has an expert once.
int64_t expertTile(const Device &d, const Config &c, bool quantized, int64_t rows) {
  if (d.isGpu() || (!quantized && rows > 8)) return 16;
  if (!quantized) return 4;
  int64_t choices = rows * c.expertsPerToken;
  return rows == 1 ? 1 : choices <= 2 * c.experts ? 2 : choices <= 16 * c.experts ? 4 : 8;
}
int64_t expertSlots(int64_t tile, int64_t choices, int64_t experts) { return cdiv(choices + experts * (tile - 1), tile) * tile; }
constexpr int64_t block = 1024; // of kernels that go along a row
constexpr int64_t longContext = 512; // tokens of a sequence from which on programs share its keys

/// A multiple of 16 elements, so that what begins there is aligned.
int64_t aligned(int64_t n) { return cdiv(n, 16) * 16; }

constexpr int64_t argmaxParts = 64; // programs that look for the largest logit of a row on a GPU

} // namespace

std::string Model::Memory::text() const {
  return readableBytes(uint64_t(total())) + " (weights " + readableBytes(uint64_t(weights)) + ", KV cache " + readableBytes(uint64_t(cache)) + ", working memory " + readableBytes(uint64_t(work)) + ")";
}

/// Rows of all parts of a product with quantized weights in a step of so many rows, or of fewer.
static int64_t partRows(Precision p, int64_t rows, const Device &device) {
  return isQuantized(p) && device.isGpu() ? SharedTiling::mostParts * std::clamp<int64_t>(nextPowerOf2(rows), 16, SharedTiling::mostRows) : 0;
}

/// Elements of the widest matrix that steps of more rows than shared_matmul takes multiply by: its weights are dequantized before the product. Products of experts take them as they are.
static int64_t dequantizedElements(const Config &c, Precision p, int64_t rows, const Device &device) {
  if (!isQuantized(p) || !device.isGpu() || rows <= SharedTiling::mostRows) return 0;
  return c.hidden * std::max({c.qkvRows(), c.heads * c.headDim, c.experts ? 0 : 2 * c.intermediate});
}

/// Rows of what products leave for the norms behind them to add, where weights are dense.
static int64_t mostDeltas(const Config &c, int64_t rows, const Device &device) {
  return std::max(Tiling::mostPartRows(rows, c.hidden, c.heads * c.headDim, device.cores()), Tiling::mostPartRows(rows, c.hidden, c.intermediate, device.cores()));
}

Model::Memory Model::expectedMemory(const Config &c, Precision p, const Limits &l, const Device &device) {
  Memory m;
  int64_t element = p == Precision::Fp32 ? 4 : 2, activation = p == Precision::Fp32 || !device.isGpu() ? 4 : 2;
  int64_t tokens = l.cacheTokens ? l.cacheTokens : l.sequences * l.context;
  m.weights = expectedWeightBytes(c, p);
  m.cache = 2 * c.layers * cdiv(tokens, pageTokens) * pageTokens * c.kvHeads * c.headDim * element;
  bool fused = device.isGpu() && p == Precision::Bf16 && !c.experts;
  int64_t row = 4 * c.hidden + activation * (c.hidden + 2 * c.heads * c.headDim) + ((fused ? 0 : 8) + activation) * c.intermediate + 3 * std::max(c.hidden, c.intermediate);
  if (c.experts) row += c.expertsPerToken * (15 * c.intermediate + 4 * c.hidden);
  int64_t shared = std::max(l.rows, partRows(p, l.rows, device)), deltas = fused ? activation * mostDeltas(c, l.rows, device) : 4 * shared;
  m.work = l.rows * row + deltas * c.hidden + activation * dequantizedElements(c, p, l.rows, device) + (fused ? activation * l.rows : 4 * shared) * c.qkvRows() + l.sequences * 4 * c.vocab + l.context * c.headDim * 4;
  return m;
}

Status Model::checkMemory(const Config &c, Precision p, const Limits &l, const Device &device) {
  Memory m = expectedMemory(c, p, l, device);
  Result<uint64_t> there = device.availableBytes();
  if (!there) return there.status();
  if (uint64_t(m.total()) <= *there) return {};
  return fail(TEGULA_OUT_OF_RESOURCES, "the model takes " + m.text() + ", but device " + device.name() + " has " + readableBytes(*there) +
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
  m.prefillQueries_ = std::max<int64_t>(1, (device.isGpu() && fp32 ? 64 : 128) / nextPowerOf2(group));
  m.fused_ = device.isGpu() && m.weights_.precision == Precision::Bf16 && !c.experts;

  int64_t rows = limits.rows, n = limits.sequences, wide = std::max({c.hidden, c.intermediate, c.heads * c.headDim});
  int64_t choices = rows * c.expertsPerToken, slots = c.experts ? expertSlots(16, choices, c.experts) : 0;
  int64_t shared = partRows(m.weights_.precision, rows, device);
  PagedCache pages = m.makePages();
  struct Row {
    Buffer *to;
    TegulaDtype dtype;
    int64_t count;
  };
  // Steps of few rows have sections of their own size, so that little is copied.
  for (std::vector<int32_t> &s : m.staging_) s.resize(size_t(sectionEnd * (aligned(n) + aligned(rows)) + int64_t(pages.table().size())));
  int64_t parts = 0;
  for (int64_t tiles = 1; tiles <= n; ++tiles)
    if (int64_t splits = m.splitsOf(tiles); splits > 1) parts = std::max(parts, splits * tiles * c.heads);
  std::vector<Row> table = {{&m.inputs_, TEGULA_INT32, sectionEnd * (aligned(n) + aligned(rows))},
                            {&m.table_, TEGULA_INT32, int64_t(pages.table().size())},
                            {&m.stream_, TEGULA_FP32, rows * c.hidden},
                            {&m.rounded_, m.activation_, c.hidden},
                            {&m.delta_, m.fused_ ? m.activation_ : TegulaDtype(TEGULA_FP32), (m.fused_ ? mostDeltas(c, rows, device) : std::max(rows, shared)) * c.hidden},
                            {&m.dequantized_, m.activation_, dequantizedElements(c, m.weights_.precision, rows, device)},
                            {&m.normed_, m.activation_, rows * c.hidden},
                            {&m.qkv_, m.fused_ ? m.activation_ : TegulaDtype(TEGULA_FP32), std::max(rows, shared) * c.qkvRows()},
                            {&m.queries_, m.cacheType_, rows * c.heads * c.headDim},
                            {&m.attended_, m.activation_, rows * c.heads * c.headDim},
                            {&m.gateUp_, TEGULA_FP32, m.fused_ ? 0 : rows * 2 * c.intermediate * (c.experts ? c.expertsPerToken : 1)},
                            {&m.hidden_, m.activation_, rows * c.intermediate * (c.experts ? c.expertsPerToken : 1)},
                            {&m.last_, TEGULA_FP32, n * c.hidden},
                            {&m.logits_, TEGULA_FP32, n * c.vocab},
                            {&m.chosen_[0], TEGULA_INT32, n},
                            {&m.chosen_[1], TEGULA_INT32, n},
                            {&m.tops_, TEGULA_FP32, n * argmaxParts},
                            {&m.places_, TEGULA_INT32, n * argmaxParts},
                            {&m.attentionParts_, TEGULA_FP32, parts * c.headDim},
                            {&m.attentionSums_, TEGULA_FP32, parts * 2}};
  if (m.weights_.output.bits && !device.isGpu()) {
    int64_t most = std::max(rows * wide, choices * c.intermediate);
    table.push_back({&m.parts_, TEGULA_INT8, 2 * most});
    table.push_back({&m.partScales_, TEGULA_FP32, most / quantGroup});
    table.push_back({&m.partSums_, TEGULA_INT32, most / quantGroup});
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
    Result<Buffer> b = device.allocate(r.dtype, std::max<int64_t>(r.count, 1));
    if (!b) return b.status();
    *r.to = *b;
  }
  // Angles in double: in fp32 those of position 10,000 are off by 1e-3.
  int64_t half = c.headDim / 2;
  std::vector<double> angles;
  for (int64_t i = 0; i < half; ++i) angles.push_back(c.angle(i));
  std::vector<float> cosines(size_t(limits.context * half)), sines(cosines.size());
  for (int64_t p = 0; p < limits.context; ++p)
    for (int64_t i = 0; i < half; ++i) {
      double angle = double(p) * angles[size_t(i)];
      cosines[size_t(p * half + i)] = float(std::cos(angle) * c.rope.attention), sines[size_t(p * half + i)] = float(std::sin(angle) * c.rope.attention);
    }
  for (auto [values, to] : {std::pair(&cosines, &m.cosines_), std::pair(&sines, &m.sines_)}) {
    Result<Buffer> b = device.allocate(TEGULA_FP32, int64_t(values->size()));
    if (!b) return b.status();
    *to = *b;
    if (Status s = device.upload(*to, values->data(), to->bytes); !s) return s;
  }
  return m;
}

Buffer Model::section(Section s) const {
  return inputs_.part(in_.base + s * in_.each, s == Tiles ? 4 * in_.each : in_.each, s == Temperatures || s == TopPs ? TEGULA_FP32 : TEGULA_INT32);
}

/// Writes the rows of the spans, their tiles (those of one query first) and what choosing needs to the device.
Status Model::prepare(std::span<const Span> spans, PagedCache &pages) {
  int64_t rows = 0, outputs = 0;
  for (const Span &s : spans) rows += int64_t(s.tokens.size()), outputs += s.wantsToken;
  if (rows == 0 || rows > limits_.rows || outputs > limits_.sequences)
    return invalid("a step of " + std::to_string(rows) + " tokens of " + std::to_string(spans.size()) + " sequences; the limits are " + std::to_string(limits_.rows) + " and " + std::to_string(limits_.sequences));
  in_ = {};
  in_.rows = rows, in_.outputs = outputs;
  int64_t few = aligned(limits_.sequences);
  in_.each = rows <= few ? few : aligned(limits_.rows);
  in_.base = rows <= few ? 0 : sectionEnd * few;
  std::vector<int32_t> &staging = staging_[side_];
  int32_t *to = staging.data() + in_.base;
  auto at = [&](Section s, int64_t i) -> int32_t & { return to[s * in_.each + i]; };
  std::vector<int32_t> decode, prefill;
  int64_t row = 0, wanted = 0;
  for (const Span &s : spans) {
    int64_t count = int64_t(s.tokens.size());
    if (s.position + count > limits_.context) return invalid("a sequence would have " + std::to_string(s.position + count) + " tokens; the context is " + std::to_string(limits_.context));
    auto &tiles = count == 1 ? decode : prefill;
    for (int64_t i = 0; i < count; i += prefillQueries_)
      tiles.insert(tiles.end(), {int32_t(row + i), int32_t(std::min(prefillQueries_, count - i)), int32_t(s.position + i), int32_t(s.line)});
    for (int64_t i = 0; i < count; ++i, ++row) {
      int32_t token = s.tokens[size_t(i)];
      if (token < -int32_t(chosenBefore_) || token >= config().vocab) return invalid("token " + std::to_string(token) + " is not in the vocabulary of " + std::to_string(config().vocab));
      at(Tokens, row) = token, at(Positions, row) = int32_t(s.position + i), at(Lines, row) = int32_t(s.line);
    }
    if (!s.wantsToken) continue;
    in_.isLong |= (window() ? std::min(s.position + 1, window()) : s.position + 1) > longContext;
    at(Wanted, wanted) = int32_t(row) - 1;
    at(TopKs, wanted) = int32_t(std::min<int64_t>(s.sampling.topK, config().vocab));
    at(Seeds, wanted) = s.sampling.seed, at(Steps, wanted) = s.step;
    at(Temperatures, wanted) = std::bit_cast<int32_t>(s.sampling.temperature), at(TopPs, wanted) = std::bit_cast<int32_t>(s.sampling.topP);
    in_.sampled |= s.sampling.temperature > 0;
    ++wanted;
  }
  in_.decodeTiles = int64_t(decode.size() / 4), in_.prefillTiles = int64_t(prefill.size() / 4);
  std::ranges::copy(prefill, std::ranges::copy(decode, to + Tiles * in_.each).out);
  Status s = device_.queueUpload(inputs_.part(in_.base, sectionEnd * in_.each), to, sectionEnd * in_.each * int64_t(sizeof(int32_t)));
  if (!s || !pages.changed()) return s;
  int32_t *table = staging.data() + (staging.size() - pages.table().size());
  std::ranges::copy(pages.table(), table);
  return device_.queueUpload(table_, table, table_.bytes);
}

/// x [rows, inputs] in two bytes, for products of quantized weights on CPUs.
Status Model::splitActivations(const Buffer &x, int64_t rows, int64_t inputs) {
  return device_.launch(kernels_.splitActivations, {rows, inputs / quantGroup}, {x, parts_, partScales_, partSums_, inputs, quantGroup});
}

/// Few rows of quantized weights on a GPU: out[row] = x[row] @ m.T, or silu(x @ m.T) * (x @ up.T). ofRow > 0: row is a choice of an expert, and has x[row / ofRow].
Status Model::widenedGemv(const Matrix &m, const Matrix *up, const Buffer &x, const Buffer &out, int64_t rows, int64_t outputs, int64_t stride, int64_t ofRow) {
  // A program reads lines of 16 outputs, or of 8 where there would be few programs, for all rows; a thread has two times 16 bytes of a matrix under way, one where its sums take the registers.
  constexpr int64_t warps = 4;
  int64_t bm = ofRow ? 1 : nextPowerOf2(rows), columns = cdiv(rows, bm) * outputs < 48 * device_.cores() ? 8 : 16, lines = quantGroup * m.bits / 32;
  int64_t groups = divisor(m.inputs / quantGroup, std::max<int64_t>(1, (up && bm >= 4 ? 4 : 8) * 32 * warps / columns / lines));
  const Matrix &other = up ? *up : m;
  return device_.launch(kernels_.widenedGemv, {cdiv(rows, bm), cdiv(outputs, columns)},
                        {x, m.deviceValues, m.deviceScales, other.deviceValues, other.deviceScales, out, ofRow ? expertOf_ : chosen_[0], rows, outputs, m.inputs, stride, int(up != nullptr), ofRow, quantGroup, m.bits, bm,
                         groups * lines, columns},
                        {int32_t(warps)});
}

bool Model::hasSomeRows(const Matrix &m, int64_t rows) const { return m.bits && device_.isGpu() && rows <= SharedTiling::mostRows; }

/// Parts of a product with m that another kernel adds.
Model::Parts Model::partsOf(const Matrix &m, int64_t rows) const {
  if (hasFewRows(m, rows) || !hasSomeRows(m, rows)) return {1, 0};
  SharedTiling t = SharedTiling::of(rows, m.outputs, m.inputs, m.bits, false, true, device_.cores());
  return {t.parts, t.bm * m.outputs};
}

/// Some rows of quantized weights on a GPU, by tensor cores: out[row] = x[row] @ m.T, or silu(x @ m.T) * (x @ up.T). `parts`: as partsOf() says, out has more than one result, whose sum it is.
Status Model::sharedMatmul(const Matrix &m, const Matrix *up, const Buffer &x, const Buffer &out, int64_t rows, int64_t stride, bool parts) {
  SharedTiling t = SharedTiling::of(rows, m.outputs, m.inputs, m.bits, up != nullptr, parts, device_.cores());
  const Matrix &other = up ? *up : m;
  return device_.launch(kernels_.sharedMatmul, {cdiv(rows, t.bm), cdiv(m.outputs, t.columns), t.parts},
                        {x, m.deviceValues, m.deviceScales, other.deviceValues, other.deviceScales, out, rows, m.outputs, m.inputs, stride, t.bm, int(up != nullptr), t.parts, quantGroup, m.bits, t.bm, t.step, t.columns},
                        t.how);
}

/// out[row, column ...] = x[row] @ m.T; the kernel and its tiles by the form of the weights, the device and the number of rows. `before`: the matrix that x was multiplied with last.
Status Model::product(const Matrix &m, const Buffer &x, const Buffer &out, int64_t rows, int64_t stride, int64_t column, const Matrix *before, bool parts) {
  tegula::Arg to = out.arg(column);
  const Buffer &w = m.deviceValues;
  int64_t n = m.outputs, k = m.inputs;
  bool gpu = device_.isGpu();
  if (m.bits && !gpu) {
    int64_t bm = std::min<int64_t>(nextPowerOf2(rows), 32);
    Status s = before && before->bits ? Status() : splitActivations(x, rows, k);
    if (s) s = device_.launch(kernels_.integerMatmul, {cdiv(rows, bm), cdiv(n, quantBlock)}, {parts_, partScales_, partSums_, w, m.deviceScales, to, rows, n, k, stride, quantGroup, m.bits, bm});
    return s;
  }
  // CPUs pack a tile of weights for each tile of rows, so tall tiles pay; GPUs want many tiles.
  if (!m.bits && gpu && x.dtype == TEGULA_BF16 && w.dtype == TEGULA_BF16 && stride == n && n % 4 == 0) return tiledProduct(x, w, out, rows, n, k, Product::Plain, false);
  int64_t bm = rows <= 16 ? 16 : rows <= 32 ? 32 : rows <= 64 || gpu ? 64 : 128;
  Buffer from = out.part(column, out.bytes / tegula_dtype_bytes(out.dtype) - column);
  if (hasFewRows(m, rows)) return widenedGemv(m, nullptr, x, from, rows, n, stride, 0);
  if (hasSomeRows(m, rows)) return sharedMatmul(m, nullptr, x, from, rows, stride, parts);
  if (m.bits && stride == n && canDequantize(m)) {
    Status s = dequantize(m);
    return s ? tiledProduct(x, dequantized_, out, rows, n, k, Product::Plain, false) : s;
  }
  if (m.bits) return device_.launch(kernels_.widenedMatmul, {cdiv(rows, bm), cdiv(n, quantBlock)}, {x, w, m.deviceScales, to, rows, n, k, stride, quantGroup, m.bits, bm});
  if (rows == 1 || (gpu && rows <= 4)) return device_.launch(kernels_.gemv, {rows, cdiv(n, 8)}, {x, w, to, rows, n, k, stride, 8, gpu ? 256 : nextPowerOf2(k), int(!gpu)});
  // On CPUs few rows want long and narrow panels of weights, which are packed once for all of them.
  int64_t bn = !gpu && rows <= 16 ? 32 : 64, bk = gpu ? 64 : std::min<int64_t>(nextPowerOf2(k), rows <= 4 ? 256 : rows <= 16 ? 512 : 128);
  if (!gpu && rows <= 16) bm = nextPowerOf2(rows);
  return device_.launch(kernels_.matmul, {cdiv(rows, bm), cdiv(n, bn)}, {x, w, to, rows, n, k, stride, bm, bn, bk});
}

/// out = x @ w.T by tiles, or silu(gate) * up of it, or out += x @ w.T.
Status Model::tiledProduct(const Buffer &x, const Buffer &w, const Buffer &out, int64_t rows, int64_t outputs, int64_t inputs, Product product, bool early) {
  Tiling t = Tiling::of(rows, outputs, inputs, product, device_.cores());
  int64_t parts = std::max<int64_t>(t.parts, 1), tiles = t.tilesOf(rows, outputs) * parts, programs = rows > 256 ? std::min(tiles, device_.cores() / t.how.blocks) : tiles;
  int64_t height = parts > 1 ? parts * t.linesOf(rows) : rows;
  t.how.early = early;
  return device_.launch(kernels_.tiledMatmul, {programs},
                        {x, w, out, rows, outputs, inputs, outputs, height, int(t.parts == 0), int(product == Product::Paired), int(early), parts, t.bm, t.bn, t.bk, t.lines, t.ahead, t.more, t.low}, t.how);
}

/// Whether a step's rows go through dequantized weights of m (whose rows TMA stores can have as they are).
bool Model::canDequantize(const Matrix &m) const { return m.bits && device_.isGpu() && m.outputs % 8 == 0 && m.outputs * m.inputs * tegula_dtype_bytes(activation_) <= dequantized_.bytes; }

/// The weights of m in the type of the activations, for a product of many rows.
Status Model::dequantize(const Matrix &m) {
  return device_.launch(kernels_.dequantizeWeights, {cdiv(m.outputs, quantBlock), m.inputs / quantGroup}, {m.deviceValues, m.deviceScales, dequantized_, m.outputs, m.inputs, quantGroup, m.bits});
}

/// A product of one row, of norm(x) if there is a norm. Added: to the residual stream, in fp32 and rounded for the next product.
Status Model::rowProduct(const Buffer &x, const Buffer *norm, const Buffer &w, const Buffer &out, int64_t outputs, int64_t inputs, Product product) {
  RowTiling t = RowTiling::of(outputs, inputs, product);
  return device_.launch(kernels_.gemvFused, {cdiv(outputs, t.bn)},
                        {x, norm ? *norm : x, w, out, rounded_, outputs, inputs, config().normEps, int(norm != nullptr), int(product == Product::Added), int(product == Product::Paired), 1, t.bn, t.bk, t.ahead}, t.how);
}

/// out = norm(stream) @ w.T of the step's rows, or silu(gate) * up of it.
Status Model::normedProduct(const Buffer &norm, const Buffer &w, int64_t outputs, const Buffer &out, Product product) {
  if (in_.rows == 1) return rowProduct(rounded_, &norm, w, out, outputs, config().hidden, product);
  Status s = this->norm(norm);
  return s ? tiledProduct(normed_, w, out, in_.rows, outputs, config().hidden, product, early()) : s;
}

/// stream += x @ w.T, now or by the next norm.
Status Model::addedProduct(const Buffer &x, const Buffer &w, int64_t inputs) {
  if (in_.rows == 1) return rowProduct(x, nullptr, w, stream_, config().hidden, inputs, Product::Added);
  Tiling t = Tiling::of(in_.rows, config().hidden, inputs, Product::Added, device_.cores());
  pending_ = {t.parts, t.linesOf(in_.rows) * config().hidden};
  return tiledProduct(x, w, t.parts ? delta_ : stream_, in_.rows, config().hidden, inputs, Product::Added, early());
}

/// normed = norm(stream), to which what is pending is added before.
Status Model::norm(const Buffer &weight) {
  Parts p = std::exchange(pending_, {});
  return device_.launch(kernels_.rmsNorm, {in_.rows}, {stream_, delta_, weight, normed_, config().hidden, p.apart, config().normEps, p.parts, nextPowerOf2(config().hidden), int(early())}, normLaunch(early()));
}

/// Programs that share the keys of a tile of one query where sequences are long, so that a GPU has work for all multiprocessors.
int64_t Model::splitsOf(int64_t tiles) const {
  if (!device_.isGpu()) return 1;
  int64_t wanted = device_.cores() / std::max<int64_t>(1, tiles * config().kvHeads);
  return std::clamp<int64_t>(int64_t(std::bit_floor(uint64_t(std::max<int64_t>(wanted, 1)))), 1, nextPowerOf2(cdiv(limits_.context, pageTokens)));
}

/// Few programs have deep pipelines, many hide each other's waiting.
Launch Model::decodeLaunch(int64_t tiles, int64_t splits) const { return {4, tiles * splits * config().kvHeads >= device_.cores() ? 2 : 4, early()}; }

/// Of qkv: rotates its queries and keys, appends to the cache, and attends. Steps that only decode do it in one kernel on GPUs.
Status Model::attention(int64_t layer) {
  const Config &c = config();
  if (device_.isGpu() && in_.prefillTiles == 0) return decodeAttention(layer);
  if (Status s = rotate(layer); !s) return s;
  int64_t group = c.heads / c.kvHeads;
  const Buffer &keys = keys_[size_t(layer)], &values = values_[size_t(layer)];
  int64_t cached = keys.bytes / tegula_dtype_bytes(keys.dtype) / c.headDim;
  bool early = this->early(), gpu = device_.isGpu();
  struct Part {
    int64_t first, tiles, queries, splits;
  };
  for (Part p : {Part{0, in_.decodeTiles, 1, in_.isLong ? splitsOf(in_.decodeTiles) : 1}, Part{in_.decodeTiles, in_.prefillTiles, prefillQueries_, 1}}) {
    if (!p.tiles) continue;
    int64_t bm = std::max<int64_t>(nextPowerOf2(p.queries * group), gpu ? 16 : 1);
    bool wide = gpu && bm >= 128, parts = p.splits > 1;
    Buffer tiles = section(Tiles).part(4 * p.first, 4 * p.tiles);
    Status s = device_.launch(kernels_.attention, {c.kvHeads, p.tiles, p.splits},
                              {queries_, keys, values, parts ? attentionParts_ : attended_, attentionSums_, tiles, table_, cdiv(limits_.context, pageTokens), cached, 1 / std::sqrt(float(c.headDim)), c.heads, c.kvHeads,
                               c.headDim, pageTokens, p.queries, bm, pageTokens, p.splits, int(wide && cacheType_ == TEGULA_BF16), int(early), window()},
                              p.queries == 1 ? decodeLaunch(p.tiles, p.splits) : Launch{wide ? 8 : 4, 3, early});
    if (s && parts) s = device_.launch(kernels_.attentionParts, {p.tiles, c.heads}, {attentionParts_, attentionSums_, attended_, tiles, c.heads, c.headDim, p.splits, int(early)}, {4, 3, early});
    if (!s) return s;
  }
  return {};
}

/// What is added to queries, keys and values and what queries and keys are multiplied by, or, where a model has none, a weight in its place that no kernel reads.
std::array<Buffer, 3> Model::headParts(int64_t layer) const {
  const LayerWeights &l = weights_.layers[size_t(layer)];
  const Buffer &none = l.deviceAttentionNorm;
  bool norms = config().headNorms;
  return {config().qkvBias ? l.deviceBias : none, norms ? l.deviceQueryNorm : none, norms ? l.deviceKeyNorm : none};
}

Status Model::decodeAttention(int64_t layer) {
  const Config &c = config();
  int64_t tiles = in_.decodeTiles, splits = in_.isLong ? splitsOf(tiles) : 1, bm = std::max<int64_t>(nextPowerOf2(c.heads / c.kvHeads), 16);
  bool early = this->early(), many = tiles * splits * c.kvHeads >= device_.cores(), parts = splits > 1;
  // Few programs have much under way at once; of many, several share a multiprocessor.
  int64_t first = many || cacheType_ == TEGULA_FP32 ? pageTokens : 4 * pageTokens;
  Launch how = many ? Launch{4, 2, early} : Launch{8, 3, early};
  auto [bias, queryNorm, keyNorm] = headParts(layer);
  Status s = device_.launch(kernels_.decodeAttention, {c.kvHeads, tiles, splits},
                            {qkv_, keys_[size_t(layer)], values_[size_t(layer)], parts ? attentionParts_ : attended_, attentionSums_, cosines_, sines_, section(Tiles), table_, cdiv(limits_.context, pageTokens),
                             1 / std::sqrt(float(c.headDim)), bias, queryNorm, keyNorm, c.normEps, qkvParts_.apart, c.heads, c.kvHeads, c.headDim, pageTokens, bm, first, pageTokens, splits, int(early), window(),
                             int(c.qkvBias), int(c.headNorms), qkvParts_.parts},
                            how);
  if (!s || !parts) return s;
  return device_.launch(kernels_.attentionParts, {tiles, c.heads}, {attentionParts_, attentionSums_, attended_, section(Tiles), c.heads, c.headDim, splits, int(early)}, {4, 3, early});
}

/// Rotates the queries and keys of qkv, and appends to the cache.
Status Model::rotate(int64_t layer) {
  const Config &c = config();
  bool early = this->early();
  auto [bias, queryNorm, keyNorm] = headParts(layer);
  int64_t heads = c.heads + 2 * c.kvHeads, each = device_.isGpu() ? std::min<int64_t>(8, nextPowerOf2(heads)) : 1;
  return device_.launch(kernels_.ropeAppend, {in_.rows, cdiv(heads, each)},
                        {qkv_, queries_, keys_[size_t(layer)], values_[size_t(layer)], cosines_, sines_, section(Positions), section(Lines), table_, cdiv(limits_.context, pageTokens), bias, queryNorm, keyNorm,
                         c.normEps, qkvParts_.apart, c.heads, c.kvHeads, c.headDim, pageTokens, each, int(early), int(c.qkvBias), int(c.headNorms), qkvParts_.parts},
                        {device_.isGpu() ? 4 : 1, 3, early});
}

/// The same where products add to the residual stream themselves.
Status Model::fusedLayer(int64_t index) {
  const Config &c = config();
  const LayerWeights &l = weights_.layers[size_t(index)];
  Status s = normedProduct(l.deviceAttentionNorm, l.qkv.deviceValues, c.qkvRows(), qkv_, Product::Plain);
  if (s) s = attention(index);
  if (s) s = addedProduct(attended_, l.o.deviceValues, c.heads * c.headDim);
  if (s) s = normedProduct(l.deviceFeedForwardNorm, l.gateUp.deviceValues, c.intermediate, hidden_, Product::Paired);
  if (s) s = addedProduct(hidden_, l.down.deviceValues, c.intermediate);
  return s;
}

Status Model::layer(int64_t index) {
  const Config &c = config();
  const LayerWeights &l = weights_.layers[size_t(index)];
  int64_t rows = in_.rows, q = c.heads * c.headDim, kv = c.kvHeads * c.headDim;
  Status s = norm(l.deviceAttentionNorm);
  if (s && l.qkv.outputs) {
    s = product(l.qkv, normed_, qkv_, rows, c.qkvRows(), 0, nullptr, true);
    qkvParts_ = partsOf(l.qkv, rows);
  } else {
    if (s) s = product(l.q, normed_, qkv_, rows, c.qkvRows());
    if (s) s = product(l.k, normed_, qkv_, rows, c.qkvRows(), q, &l.q);
    if (s) s = product(l.v, normed_, qkv_, rows, c.qkvRows(), q + kv, &l.k);
  }
  if (s) s = attention(index);
  if (s) s = product(l.o, attended_, delta_, rows, c.hidden, 0, nullptr, true);
  pending_ = partsOf(l.o, rows);
  if (s) s = norm(l.deviceFeedForwardNorm);
  if (!s) return s;
  pending_ = {1, 0};
  if (c.experts) return experts(l);
  if (l.up.bits == l.gate.bits && hasFewRows(l.gate, rows)) {
    s = widenedGemv(l.gate, &l.up, normed_, hidden_, rows, c.intermediate, c.intermediate, 0);
  } else if (l.up.bits == l.gate.bits && hasSomeRows(l.gate, rows)) {
    s = sharedMatmul(l.gate, &l.up, normed_, hidden_, rows, c.intermediate, false);
  } else if (canDequantize(l.gateUp)) {
    s = dequantize(l.gateUp);
    if (s) s = tiledProduct(normed_, dequantized_, hidden_, rows, c.intermediate, c.hidden, Product::Paired, false);
  } else {
    if (l.gateUp.outputs) {
      s = product(l.gateUp, normed_, gateUp_, rows, 2 * c.intermediate);
    } else {
      s = product(l.gate, normed_, gateUp_, rows, 2 * c.intermediate);
      if (s) s = product(l.up, normed_, gateUp_, rows, 2 * c.intermediate, c.intermediate, &l.gate);
    }
    if (s) s = device_.launch(kernels_.swiglu, {rows, cdiv(c.intermediate, block)}, {gateUp_, hidden_, c.intermediate, block});
  }
  if (s) s = product(l.down, hidden_, delta_, rows, c.hidden, 0, nullptr, true);
  pending_ = partsOf(l.down, rows);
  return s;
}

Status Model::experts(const LayerWeights &l) {
  const Config &c = config();
  int64_t rows = in_.rows, each = c.expertsPerToken, choices = rows * each, tile = expertTile(device_, c, l.expertGate.bits != 0, rows), slots = expertSlots(tile, choices, c.experts);
  Status s = product(l.router, normed_, routes_, rows, c.experts);
  if (s) s = device_.launch(kernels_.moeGate, {rows}, {routes_, expertOf_, expertWeights_, c.experts, each, nextPowerOf2(c.experts)}, {1});
  auto combine = [&] { return device_.launch(kernels_.moeCombine, {rows, cdiv(c.hidden, block)}, {expertParts_, expertWeights_, delta_, c.hidden, each, block}); };
  if (hasFewRows(l.expertGate, rows)) {
    if (s) s = widenedGemv(l.expertGate, &l.expertUp, normed_, hidden_, choices, c.intermediate, c.intermediate, each);
    if (s) s = widenedGemv(l.expertDown, nullptr, hidden_, expertParts_, choices, c.hidden, c.hidden, 1);
    return s ? combine() : s;
  }
  if (s) s = device_.launch(kernels_.moeAlign, {1}, {expertOf_, order_, tileExperts_, choices, c.experts, slots, tile, 256});
  bool gpu = device_.isGpu();
  auto split = [&](const Matrix &m, const Buffer &x, int64_t count) { return m.bits && !gpu ? splitActivations(x, count, m.inputs) : Status(); };
  auto grouped = [&](const Matrix &m, const Buffer &x, const Buffer &out, int64_t column, int64_t stride, int64_t ofRow) {
    int64_t n = m.outputs / c.experts;
    tegula::Grid grid{slots / tile, cdiv(n, quantBlock)};
    const Buffer &w = m.deviceValues;
    if (m.bits && gpu)
      return device_.launch(kernels_.groupedWidenedMatmul, grid, {x, w, m.deviceScales, out.arg(column), order_, tileExperts_, n, m.inputs, stride, ofRow, quantGroup, m.bits, tile});
    if (m.bits)
      return device_.launch(kernels_.groupedIntegerMatmul, grid,
                            {parts_, partScales_, partSums_, w, m.deviceScales, out.arg(column), order_, tileExperts_, n, m.inputs, stride, ofRow, quantGroup, m.bits, tile});
    return device_.launch(kernels_.groupedMatmul, {slots / tile, cdiv(n, 64)}, {x, m.deviceValues, out.arg(column), order_, tileExperts_, n, m.inputs, stride, ofRow, tile, 64, 64});
  };
  if (s) s = split(l.expertGate, normed_, rows); // and expertUp, which has the same inputs
  if (s) s = grouped(l.expertGate, normed_, gateUp_, 0, 2 * c.intermediate, each);
  if (s) s = grouped(l.expertUp, normed_, gateUp_, c.intermediate, 2 * c.intermediate, each);
  if (s) s = device_.launch(kernels_.swiglu, {choices, cdiv(c.intermediate, block)}, {gateUp_, hidden_, c.intermediate, block});
  if (s) s = split(l.expertDown, hidden_, choices);
  if (s) s = grouped(l.expertDown, hidden_, expertParts_, 0, c.hidden, 1);
  return s ? combine() : s;
}

/// The rows that want a token through the last norm and the output matrix, and the choice.
Status Model::choose() {
  const Config &c = config();
  int64_t n = in_.outputs;
  Status s;
  if (fused_ && in_.rows == 1 && n == 1) {
    s = normedProduct(weights_.deviceFinalNorm, weights_.output.deviceValues, c.vocab, logits_, Product::Plain); // the row is the one that is wanted
  } else {
    s = device_.launch(kernels_.gatherRows, {n, cdiv(c.hidden, block)}, {section(Wanted), stream_, delta_, last_, c.hidden, pending_.apart, pending_.parts, block});
    if (s) s = device_.launch(kernels_.rmsNorm, {n}, {last_, delta_, weights_.deviceFinalNorm, normed_, c.hidden, 0, c.normEps, 0, nextPowerOf2(c.hidden), 0}, normLaunch(false));
    if (s) s = product(weights_.output, normed_, logits_, n, c.vocab);
  }
  if (!s) return s;
  if (in_.sampled) {
    SampleTiling t = device_.isGpu() ? SampleTiling::of(n, c.vocab, device_) : SampleTiling{block, block, false, 1, {1}};
    return device_.launch(kernels_.sample, {n}, {logits_, chosen_[side_], section(Temperatures), section(TopKs), section(TopPs), section(Seeds), section(Steps), c.vocab, t.each, t.scan, int(t.whole), t.cuts}, t.how);
  }
  if (!device_.isGpu()) return device_.launch(kernels_.argmax, {n}, {logits_, chosen_[side_], c.vocab, block});
  bool early = this->early();
  s = device_.launch(kernels_.argmaxParts, {n, argmaxParts}, {logits_, tops_, places_, c.vocab, block, int(early)}, {4, 3, early});
  return s ? device_.launch(kernels_.argmaxJoin, {n}, {tops_, places_, chosen_[side_], c.vocab, argmaxParts, argmaxParts, int(early)}, {1, 3, early}) : s;
}

Status Model::forward(int64_t layers) {
  pending_ = {};
  bool rounded = fused_ && in_.rows == 1;
  Status s = device_.launch(kernels_.embedding, {in_.rows, cdiv(config().hidden, block)}, {section(Tokens), chosen_[!side_], weights_.deviceEmbedding, stream_, rounded_, config().hidden, int(rounded), block});
  for (int64_t i = 0; s && i < layers; ++i) s = fused_ ? fusedLayer(i) : layer(i);
  return s && in_.outputs ? choose() : s;
}

Status Model::queue(std::span<const Span> spans, PagedCache &pages) {
  side_ = !side_;
  Status s = prepare(spans, pages);
  if (!s) return s;
  if (device_.hasGraphs() && in_.prefillTiles == 0 && in_.outputs == in_.rows) {
    tegula::Graph &graph = graphs_[{in_.rows, in_.sampled, in_.isLong, side_}];
    if (!graph) {
      Result<tegula::Graph> made = device_.record([&] { return forward(config().layers); });
      if (!made) return made.status();
      graph = *made;
    }
    s = device_.run(graph);
  } else {
    s = forward(config().layers);
  }
  if (s) s = device_.mark(side_);
  if (s) waiting_.push_back({side_, in_.outputs}), chosenBefore_ = in_.outputs;
  return s;
}

Result<std::vector<int32_t>> Model::take() {
  Queued q = waiting_.front();
  waiting_.pop_front();
  std::vector<int32_t> chosen(size_t(q.outputs));
  if (Status s = device_.downloadMarked(q.side, chosen.data(), chosen_[q.side], int64_t(chosen.size() * sizeof(int32_t))); !s) return s;
  return chosen;
}

Result<std::vector<int32_t>> Model::step(std::span<const Span> spans, PagedCache &pages) {
  Status s = queue(spans, pages);
  if (!s) return s;
  return take();
}

Result<std::vector<float>> Model::logits() const {
  std::vector<float> all(size_t(in_.outputs * config().vocab));
  if (Status s = device_.download(all.data(), logits_, int64_t(all.size() * sizeof(float))); !s) return s;
  return all;
}

std::vector<Tiling> Model::tilings(int64_t rows) const {
  const Config &c = config();
  std::vector<Tiling> all;
  if (!device_.isGpu()) return all;
  for (int64_t outputs : {c.qkvRows(), c.hidden, c.vocab, c.experts}) all.push_back(Tiling::of(rows, outputs, c.hidden, Product::Plain, device_.cores()));
  for (int64_t inputs : {c.heads * c.headDim, c.intermediate}) all.push_back(Tiling::of(rows, c.hidden, inputs, Product::Added, device_.cores()));
  all.push_back(Tiling::of(rows, c.intermediate, c.hidden, Product::Paired, device_.cores()));
  return all;
}

Status Model::warmUp() {
  PagedCache pages = makePages();
  // Two layers have every form of a kernel that more layers have: only the first has nothing to add before its norm.
  int64_t layers = std::min<int64_t>(2, config().layers);
  // Steps of sequences that decode, of a prompt of so many tokens, or of both.
  auto run = [&](int64_t sequences, int64_t prompt, float temperature = 0, bool isLong = false) {
    std::vector<Span> spans;
    auto add = [&](int64_t tokens) {
      Span s;
      s.tokens.assign(size_t(tokens), 0);
      s.line = int64_t(spans.size());
      s.sampling.temperature = temperature;
      spans.push_back(std::move(s));
    };
    for (int64_t i = 0; i < sequences; ++i) add(1);
    for (; prompt > 0 && int64_t(spans.size()) < limits_.sequences; prompt -= limits_.context) add(std::min(prompt, limits_.context));
    Status s = prepare(spans, pages);
    in_.isLong = isLong;
    if (s) s = forward(layers);
    return s ? device_.synchronize() : s;
  };
  // A line of the table is all zeros now: every sequence writes to page 0, whose contents nobody uses. How attention shares keys and hides waiting depends on the number of
  // sequences, and on what else is in the step.
  Status s = run(1, 0, 1);
  for (int64_t n = 2; s && n <= limits_.sequences && device_.isGpu(); ++n)
    if (SampleTiling::of(n, config().vocab, device_).how.registers != SampleTiling::of(n - 1, config().vocab, device_).how.registers) s = run(n, 0, 1);
  std::tuple<int64_t, int64_t, std::vector<Tiling>> last;
  for (int64_t n = 1; s && n <= limits_.sequences; ++n) {
    bool longer = splitsOf(n) > 1 && (window() ? window() : limits_.context) > longContext;
    std::tuple now(longer ? splitsOf(n) : 1, int64_t(decodeLaunch(n, 1).stages) * 100 + decodeLaunch(n, longer ? splitsOf(n) : 1).stages, tilings(n));
    if (now == last && (n & (n - 1)) && n != limits_.sequences) continue;
    last = now;
    for (bool isLong : {false, true}) {
      if (!s || isLong > longer) continue;
      s = run(n, 0, 0, isLong);
      if (s && n < limits_.sequences && n + 2 <= limits_.rows && device_.isGpu()) s = run(n, 2, 0, isLong);
    }
  }
  std::vector<std::vector<Tiling>> seen;
  for (int64_t n = 2; s && n <= limits_.rows; ++n) {
    std::vector<Tiling> now = tilings(n);
    bool isNew = !std::ranges::count(seen, now);
    if (!isNew && (n & (n - 1)) && n != limits_.rows) continue;
    if (isNew) seen.push_back(now);
    s = run(0, n);
  }
  return s;
}

} // namespace llm
