#include "Weights.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

namespace llm {

float Matrix::at(int64_t output, int64_t input) const {
  if (!bits) return values.at(output * inputs + input);
  // quantized.py: [N / 64][K / G][G * bits / 32][64][4].
  int64_t column = output / quantBlock * (inputs / quantGroup) + input / quantGroup, n = output % quantBlock, k = input % quantGroup;
  int64_t groupBytes = quantGroup * bits / 8, half = bits == 4 && k >= quantGroup / 2, i = k - half * quantGroup / 2;
  uint8_t byte = static_cast<const uint8_t *>(values.data)[column * groupBytes * quantBlock + (i / 4 * quantBlock + n) * 4 + i % 4];
  int q = bits == 8 ? int8_t(byte) : (half ? byte >> 4 : byte & 15) - 8;
  return float(q) * scales.at(column * quantBlock + n);
}

namespace {

uint64_t mix(uint64_t x) { // splitmix64 (Steele, Lea, Flood, 2014)
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

uint64_t hashOf(uint64_t seed, const std::string &name) {
  uint64_t h = mix(seed);
  for (unsigned char c : name) h = mix(h ^ c);
  return h;
}

/// Uniform in +-limit, the same on every machine: four elements from each number of the generator.
Tensor randomTensor(TegulaDtype dtype, std::vector<int64_t> shape, uint64_t hash, float limit) {
  void *memory = nullptr;
  Tensor t = Tensor::make(dtype, std::move(shape), &memory);
  int64_t n = t.count();
  auto fill = [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += 4) {
      uint64_t r = mix(hash + uint64_t(i));
      for (int64_t j = i; j < std::min(end, i + 4); ++j, r >>= 16) {
        float v = (float(int16_t(r)) + 0.5f) * (limit / 32768);
        if (dtype == TEGULA_FP32) static_cast<float *>(memory)[j] = v;
        else static_cast<uint16_t *>(memory)[j] = toBf16(v);
      }
    }
  };
  // Each part of a large tensor on a core.
  int64_t parts = std::clamp<int64_t>(n >> 20, 1, std::max(1u, std::thread::hardware_concurrency())), each = cdiv(cdiv(n, parts), 4) * 4;
  std::vector<std::jthread> threads;
  for (int64_t begin = each; begin < n; begin += each) threads.emplace_back(fill, begin, std::min(n, begin + each));
  fill(0, std::min(n, each));
  threads.clear(); // waits
  return t;
}

std::vector<int64_t> quantizedShape(int64_t outputs, int64_t inputs, int bits) {
  return {cdiv(outputs, quantBlock), inputs / quantGroup, quantGroup * bits / 32, quantBlock, 4};
}
std::vector<int64_t> scaleShape(int64_t outputs, int64_t inputs) { return {cdiv(outputs, quantBlock), inputs / quantGroup, quantBlock}; }

/// Each of 16 nibbles that is 0, the level -8, becomes 8, the level 0: the levels -7 to 7, whose mean is 0 but for what level 0 has more.
uint64_t withoutLowest(uint64_t nibbles) {
  constexpr uint64_t ones = 0x1111111111111111u;
  uint64_t isKept = (nibbles | nibbles >> 1 | nibbles >> 2 | nibbles >> 3) & ones;
  return nibbles | (~isKept & ones) << 3;
}

/// A random quantized matrix without a dense one before it: the levels are uniform, the scale gives them the spread of the dense form. Four bits have no lowest level: a mean of half a
/// level would be a common part of all outputs, larger than the rest from 256 inputs on, and make attention's choices, and so the logits, hang on the last bit.
Matrix randomQuantized(int64_t outputs, int64_t inputs, int bits, uint64_t hash) {
  Matrix m{outputs, inputs, bits};
  void *q = nullptr, *s = nullptr;
  m.values = Tensor::make(TEGULA_UINT8, quantizedShape(outputs, inputs, bits), &q);
  m.scales = Tensor::make(TEGULA_BF16, scaleShape(outputs, inputs), &s);
  for (int64_t i = 0; i < m.values.bytes(); i += 8) {
    uint64_t r = mix(hash + uint64_t(i));
    if (bits == 4) r = withoutLowest(r);
    std::memcpy(static_cast<char *>(q) + i, &r, 8); // blocks are multiples of 256 bytes
  }
  uint16_t scale = toBf16(std::sqrt(3.0f / float(inputs)) / (bits == 4 ? 8 : 128));
  std::fill_n(static_cast<uint16_t *>(s), m.scales.count(), scale);
  return m;
}

/// Where the tensors come from, and in which form they are wanted.
struct Loader {
  Weights &w;
  const Weights::Options &options;
  const Kernels &kernels;
  const Device &device;
  std::optional<Safetensors> files;
  int storedBits = 0; // of files that the quantize tool wrote

  int bits() const { return w.precision == Precision::Int4 ? 4 : w.precision == Precision::Int8 ? 8 : 0; }
  TegulaDtype dense() const { return w.precision == Precision::Fp32 ? TEGULA_FP32 : TEGULA_BF16; }

  Result<Tensor> tensor(const std::string &name, std::vector<int64_t> shape, float limit, bool norm = false) {
    if (!files) {
      if (!norm) return randomTensor(dense(), shape, hashOf(options.seed, name), limit);
      Tensor t = randomTensor(TEGULA_FP32, shape, hashOf(options.seed, name), 0.1f);
      void *memory = nullptr;
      Tensor n = Tensor::make(dense(), shape, &memory);
      for (int64_t i = 0; i < t.count(); ++i)
        if (dense() == TEGULA_FP32) static_cast<float *>(memory)[i] = 1 + t.at(i);
        else static_cast<uint16_t *>(memory)[i] = toBf16(1 + t.at(i));
      return n;
    }
    const Tensor *t = files->find(name);
    if (!t) {
      // Of the forms in which models are published, those that would be hardest to guess from the first name that is not found.
      std::string hint;
      if (name == "lm_head.weight") hint = "; a model without one says `tie_word_embeddings` in config.json";
      else if (files->find("base_model.model." + name) || std::ranges::any_of(files->tensors(), [](const auto &t) { return t.first.find("lora_") != std::string::npos; })) hint = "; these are the changes to a model (LoRA), not a model";
      else if (!files->tensors().empty()) hint = "; there are " + std::to_string(files->tensors().size()) + " tensors, such as `" + files->tensors().begin()->first + "`";
      return fail(TEGULA_NOT_FOUND, options.path + ": tensor `" + name + "` is missing" + hint);
    }
    if (t->shape != shape) {
      Tensor wanted = *t;
      wanted.shape = shape;
      return invalid(options.path + ": tensor `" + name + "` is " + describe(*t) + ", but the configuration asks for " + describe(wanted));
    }
    if (t->dtype != TEGULA_FP32 && t->dtype != TEGULA_BF16 && t->dtype != TEGULA_FP16)
      return fail(TEGULA_UNSUPPORTED, options.path + ": tensor `" + name + "` is " + describe(*t) + "; weights are fp32, bf16 or fp16");
    // Matrices of both 16-bit types are multiplied as they are by CPUs; products on GPUs have one type, that of the activations.
    bool fits = dense() == TEGULA_FP32 ? t->dtype == TEGULA_FP32 : t->dtype == TEGULA_BF16 || (t->dtype == TEGULA_FP16 && !device.isGpu());
    if (norm || bits() || fits) return *t;
    void *memory = nullptr;
    Tensor c = Tensor::make(dense(), shape, &memory);
    for (int64_t i = 0; i < c.count(); ++i)
      if (dense() == TEGULA_FP32) static_cast<float *>(memory)[i] = t->at(i);
      else static_cast<uint16_t *>(memory)[i] = toBf16(t->at(i));
    return c;
  }

  Result<Matrix> matrix(const std::string &name, int64_t outputs, int64_t inputs, bool quantizable = true) {
    int want = quantizable && inputs % quantGroup == 0 ? bits() : 0;
    if (want && storedBits) {
      Matrix m{outputs, inputs, want};
      struct Part {
        const char *suffix;
        Tensor *to;
        TegulaDtype dtype;
        std::vector<int64_t> shape;
      } parts[] = {{".q", &m.values, TEGULA_UINT8, quantizedShape(outputs, inputs, want)}, {".scales", &m.scales, TEGULA_BF16, scaleShape(outputs, inputs)}};
      for (Part &p : parts) {
        const Tensor *t = files->find(name + p.suffix);
        if (!t) return fail(TEGULA_NOT_FOUND, options.path + ": tensor `" + name + p.suffix + "` is missing");
        Tensor wanted;
        wanted.dtype = p.dtype, wanted.shape = p.shape;
        if (t->dtype != p.dtype || t->shape != p.shape) return invalid(options.path + ": tensor `" + name + p.suffix + "` is " + describe(*t) + ", but the configuration asks for " + describe(wanted));
        *p.to = *t;
      }
      return m;
    }
    if (want && !files) return randomQuantized(outputs, inputs, want, hashOf(options.seed, name));
    Result<Tensor> t = tensor(name, {outputs, inputs}, std::sqrt(3.0f / float(inputs)));
    if (!t) return t.status();
    Matrix m{outputs, inputs, 0, *t};
    return want ? quantize(m, want, kernels, device) : Result<Matrix>(m);
  }

  /// Matrices of experts in one: the grouped product wants them one behind the other.
  Result<Matrix> experts(const std::string &before, const std::string &after, int64_t count, int64_t outputs, int64_t inputs) {
    Matrix all{count * outputs, inputs};
    all.experts = count;
    char *values = nullptr, *scales = nullptr;
    auto append = [&](const Tensor &one, int64_t e, Tensor &to, char *&memory) {
      if (e == 0) {
        std::vector<int64_t> shape = one.shape;
        shape[0] *= count;
        void *address = nullptr;
        to = Tensor::make(one.dtype, std::move(shape), &address);
        memory = static_cast<char *>(address);
      }
      std::memcpy(memory + e * one.bytes(), one.data, size_t(one.bytes()));
    };
    for (int64_t e = 0; e < count; ++e) {
      Result<Matrix> one = matrix(before + std::to_string(e) + after, outputs, inputs);
      if (!one) return one;
      if (e > 0 && one->values.dtype != all.values.dtype) return invalid(options.path + ": the experts' `" + after.substr(1) + "` have different types");
      all.bits = one->bits;
      append(one->values, e, all.values, values);
      if (one->bits) append(one->scales, e, all.scales, scales);
    }
    return all;
  }

  template <typename T> Status put(Result<T> from, T &to) {
    if (from) to = std::move(*from);
    return from.status();
  }
  Status layer(LayerWeights &l, const std::string &at) {
    const Config &c = w.config;
    int64_t d = c.headDim;
    Status s = put(tensor(at + "input_layernorm.weight", {c.hidden}, 0, true), l.attentionNorm);
    if (s) s = put(tensor(at + "post_attention_layernorm.weight", {c.hidden}, 0, true), l.feedForwardNorm);
    if (s) s = put(matrix(at + "self_attn.q_proj.weight", c.heads * d, c.hidden), l.q);
    if (s) s = put(matrix(at + "self_attn.k_proj.weight", c.kvHeads * d, c.hidden), l.k);
    if (s) s = put(matrix(at + "self_attn.v_proj.weight", c.kvHeads * d, c.hidden), l.v);
    if (s) s = put(matrix(at + "self_attn.o_proj.weight", c.hidden, c.heads * d), l.o);
    if (s && c.qkvBias) {
      s = put(tensor(at + "self_attn.q_proj.bias", {c.heads * d}, 1, true), l.qBias);
      if (s) s = put(tensor(at + "self_attn.k_proj.bias", {c.kvHeads * d}, 1, true), l.kBias);
      if (s) s = put(tensor(at + "self_attn.v_proj.bias", {c.kvHeads * d}, 1, true), l.vBias);
      if (s && (l.kBias.dtype != l.qBias.dtype || l.vBias.dtype != l.qBias.dtype)) return invalid(options.path + ": the biases of `" + at + "self_attn` have different types");
    }
    if (s && c.headNorms) {
      s = put(tensor(at + "self_attn.q_norm.weight", {d}, 0, true), l.queryNorm);
      if (s) s = put(tensor(at + "self_attn.k_norm.weight", {d}, 0, true), l.keyNorm);
    }
    if (s && !c.experts) {
      s = put(matrix(at + "mlp.gate_proj.weight", c.intermediate, c.hidden), l.gate);
      if (s) s = put(matrix(at + "mlp.up_proj.weight", c.intermediate, c.hidden), l.up);
      if (s) s = put(matrix(at + "mlp.down_proj.weight", c.hidden, c.intermediate), l.down);
    } else if (s) {
      std::string moe = at + "block_sparse_moe.";
      s = put(matrix(moe + "gate.weight", c.experts, c.hidden, false), l.router);
      if (s) s = put(experts(moe + "experts.", ".w1.weight", c.experts, c.intermediate, c.hidden), l.expertGate);
      if (s) s = put(experts(moe + "experts.", ".w3.weight", c.experts, c.intermediate, c.hidden), l.expertUp);
      if (s) s = put(experts(moe + "experts.", ".w2.weight", c.experts, c.hidden, c.intermediate), l.expertDown);
    }
    return s;
  }
};

} // namespace

static Result<std::optional<Precision>> precisionOf(const Safetensors &files) {
  auto it = files.metadata().find("tegula_llm.precision");
  if (it == files.metadata().end()) return std::optional<Precision>();
  Result<Precision> p = parsePrecision(it->second);
  if (!p) return p.status();
  return std::optional(*p);
}

Result<std::optional<Precision>> storedPrecision(const std::string &path) {
  Result<Safetensors> files = Safetensors::open(path);
  return files ? precisionOf(*files) : files.status();
}

Result<Matrix> quantize(const Matrix &dense, int bits, const Kernels &kernels, const Device &device) {
  Matrix m{dense.outputs, dense.inputs, bits};
  void *q = nullptr, *s = nullptr;
  m.values = Tensor::make(TEGULA_UINT8, quantizedShape(m.outputs, m.inputs, bits), &q);
  m.scales = Tensor::make(TEGULA_BF16, scaleShape(m.outputs, m.inputs), &s);
  // On the CPU, whatever the device: the result goes to a file or is copied once.
  Result<Device> cpu = Device::open(device.context(), "cpu");
  if (!cpu) return cpu.status();
  Result<Buffer> from = cpu->place(dense.values);
  if (!from) return from.status();
  Status done = cpu->launch(kernels.quantizeWeights, {cdiv(m.outputs, quantBlock), m.inputs / quantGroup},
                            {*from, tegula::Arg(q, TEGULA_UINT8, m.values.bytes()), tegula::Arg(s, TEGULA_BF16, m.scales.bytes()), m.outputs, m.inputs, quantGroup, bits});
  if (!done) return done;
  return m;
}

Result<Weights> Weights::load(const Config &config, std::optional<Precision> precision, const Options &options, const Kernels &kernels, const Device &device) {
  Weights w;
  w.config = config;
  w.precision = precision.value_or(Precision::Bf16);
  Loader load{w, options, kernels, device};
  if (!options.path.empty()) {
    Result<Safetensors> files = Safetensors::open(options.path);
    if (!files) return files.status();
    load.files = std::move(*files);
    Result<std::optional<Precision>> stored = precisionOf(*load.files);
    if (!stored) return stored.status();
    if (*stored) {
      if (precision && *precision != **stored) return invalid(options.path + " has " + precisionName(**stored) + " weights; they cannot become " + precisionName(*precision));
      w.precision = **stored;
      load.storedBits = load.bits();
    }
  }
  Status s = load.put(load.tensor("model.embed_tokens.weight", {config.vocab, config.hidden}, 1), w.embedding);
  if (s) s = load.put(load.tensor("model.norm.weight", {config.hidden}, 0, true), w.finalNorm);
  w.layers.resize(size_t(config.layers));
  for (int64_t i = 0; s && i < config.layers; ++i) {
    if (options.progress) options.progress("layer " + std::to_string(i + 1) + " of " + std::to_string(config.layers));
    s = load.layer(w.layers[size_t(i)], "model.layers." + std::to_string(i) + ".");
  }
  if (s && config.tiedEmbedding && !load.storedBits) {
    // `hidden` is a multiple of the group. Random levels need not be those of the embedding.
    w.output = Matrix{config.vocab, config.hidden, 0, w.embedding};
    if (load.bits() && !load.files) w.output = randomQuantized(config.vocab, config.hidden, load.bits(), hashOf(options.seed, "lm_head.weight"));
    else if (load.bits()) s = load.put(quantize(w.output, load.bits(), kernels, device), w.output);
  } else if (s) {
    s = load.put(load.matrix("lm_head.weight", config.vocab, config.hidden), w.output);
  }
  if (!s) return s;
  if (options.keep) return w;
  auto place = [&](const Tensor &t, Buffer &b) {
    if (!s || !t) return;
    Result<Buffer> placed = device.place(t);
    if (placed) b = *placed;
    else s = placed.status();
  };
  // What is multiplied with the same rows becomes one product.
  auto joinTensors = [&](std::initializer_list<Matrix *> parts, Tensor Matrix::*tensor, Buffer Matrix::*buffer, Matrix &all) {
    int64_t count = 0;
    for (Matrix *m : parts) count += (m->*tensor).count();
    Result<Buffer> made = device.allocate(((*parts.begin())->*tensor).dtype, count);
    if (!made) return void(s = made.status());
    all.*buffer = *made;
    count = 0;
    for (Matrix *m : parts) {
      const Tensor &t = m->*tensor;
      m->*buffer = (all.*buffer).part(count, t.count());
      count += t.count();
      if (s) s = device.upload(m->*buffer, t.data, t.bytes());
    }
  };
  auto join = [&](std::initializer_list<Matrix *> parts, Matrix &all) {
    const Matrix &first = **parts.begin();
    Matrix sum{0, first.inputs, first.bits};
    for (Matrix *m : parts) {
      if (!s || !m->values || m->bits != first.bits || m->values.dtype != first.values.dtype || (m->bits && m->outputs % quantBlock)) return;
      sum.outputs += m->outputs;
    }
    all = sum;
    joinTensors(parts, &Matrix::values, &Matrix::deviceValues, all);
    if (s && all.bits) joinTensors(parts, &Matrix::scales, &Matrix::deviceScales, all);
  };
  for (LayerWeights &l : w.layers) {
    if (!config.qkvBias || !s) break;
    Result<Buffer> made = device.allocate(l.qBias.dtype, config.qkvRows());
    if (!made) return made.status();
    l.deviceBias = *made;
    int64_t at = 0;
    for (auto [t, b] : {std::pair(&l.qBias, &l.deviceQBias), {&l.kBias, &l.deviceKBias}, {&l.vBias, &l.deviceVBias}}) {
      *b = l.deviceBias.part(at, t->count());
      at += t->count();
      if (s) s = device.upload(*b, t->data, t->bytes());
    }
  }
  if (device.isGpu())
    for (LayerWeights &l : w.layers) {
      join({&l.q, &l.k, &l.v}, l.qkv);
      if (!config.experts) join({&l.gate, &l.up}, l.gateUp);
    }
  w.visit(
      [&](const std::string &, Matrix &m) {
        if (!m.deviceValues.address) place(m.values, m.deviceValues);
        if (!m.deviceScales.address) place(m.scales, m.deviceScales);
      },
      [&](const std::string &, Tensor &t, Buffer &b) {
        if (!b.address) place(t, b);
      });
  if (!s) return s;
  return w;
}

void Weights::visit(const std::function<void(const std::string &, Matrix &)> &f, const std::function<void(const std::string &, Tensor &, Buffer &)> &g) {
  g("model.embed_tokens.weight", embedding, deviceEmbedding);
  for (size_t i = 0; i < layers.size(); ++i) {
    LayerWeights &l = layers[i];
    std::string at = "model.layers." + std::to_string(i) + ".";
    g(at + "input_layernorm.weight", l.attentionNorm, l.deviceAttentionNorm);
    g(at + "post_attention_layernorm.weight", l.feedForwardNorm, l.deviceFeedForwardNorm);
    f(at + "self_attn.q_proj.weight", l.q);
    f(at + "self_attn.k_proj.weight", l.k);
    f(at + "self_attn.v_proj.weight", l.v);
    f(at + "self_attn.o_proj.weight", l.o);
    if (config.qkvBias) {
      g(at + "self_attn.q_proj.bias", l.qBias, l.deviceQBias);
      g(at + "self_attn.k_proj.bias", l.kBias, l.deviceKBias);
      g(at + "self_attn.v_proj.bias", l.vBias, l.deviceVBias);
    }
    if (config.headNorms) {
      g(at + "self_attn.q_norm.weight", l.queryNorm, l.deviceQueryNorm);
      g(at + "self_attn.k_norm.weight", l.keyNorm, l.deviceKeyNorm);
    }
    if (config.experts) {
      f(at + "block_sparse_moe.gate.weight", l.router);
      f(at + "block_sparse_moe.experts.w1.weight", l.expertGate);
      f(at + "block_sparse_moe.experts.w3.weight", l.expertUp);
      f(at + "block_sparse_moe.experts.w2.weight", l.expertDown);
    } else {
      f(at + "mlp.gate_proj.weight", l.gate);
      f(at + "mlp.up_proj.weight", l.up);
      f(at + "mlp.down_proj.weight", l.down);
    }
  }
  g("model.norm.weight", finalNorm, deviceFinalNorm);
  f("lm_head.weight", output);
}

int64_t Weights::bytesPerStep() const {
  int64_t sum = config.hidden * tegula_dtype_bytes(embedding.dtype);
  const_cast<Weights *>(this)->visit(
      [&](const std::string &name, Matrix &m) {
        bool chosen = name.find(".experts.") != std::string::npos;
        sum += chosen ? m.bytes() / config.experts * config.expertsPerToken : m.bytes();
      },
      [&](const std::string &name, Tensor &t, Buffer &) { sum += &t == &embedding ? 0 : t.bytes(); });
  return sum;
}

int64_t Weights::bytes() const {
  int64_t sum = 0;
  const_cast<Weights *>(this)->visit([&](const std::string &, Matrix &m) { sum += m.values.data == embedding.data ? 0 : m.bytes(); },
                                     [&](const std::string &, Tensor &t, Buffer &) { sum += t.bytes(); });
  return sum;
}

int64_t expectedWeightBytes(const Config &c, Precision p) {
  int64_t dense = p == Precision::Fp32 ? 4 : 2;
  if (p == Precision::Fp32 || p == Precision::Bf16) return c.parameters() * dense;
  // The embedding and the routers stay dense; a scale of two bytes for each group.
  int64_t kept = c.vocab * c.hidden + c.layers * c.experts * c.hidden;
  int64_t quantized = c.parameters() - kept + (c.tiedEmbedding ? c.vocab * c.hidden : 0);
  return kept * dense + quantized * (p == Precision::Int4 ? 4 : 8) / 8 + quantized / quantGroup * 2;
}

} // namespace llm
