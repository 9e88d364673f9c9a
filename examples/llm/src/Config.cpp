#include "Config.h"
#include "Files.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

namespace llm {

std::string readableBytes(uint64_t bytes) {
  const char *units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  char text[32];
  std::snprintf(text, sizeof text, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
  return text;
}

namespace {
constexpr const char *precisionNames[] = {"fp32", "bf16", "int8", "int4"};
}

Result<Precision> parsePrecision(const std::string &text) {
  for (int i = 0; i < 4; ++i)
    if (text == precisionNames[i]) return static_cast<Precision>(i);
  return invalid("`" + text + "` is not a precision of weights; there are fp32, bf16, int8 and int4");
}

const char *precisionName(Precision p) { return precisionNames[static_cast<int>(p)]; }

int64_t Config::parameters() const {
  int64_t feedForward = 3 * hidden * intermediate * std::max<int64_t>(1, experts) + experts * hidden;
  int64_t layer = hidden * qkvRows() + heads * headDim * hidden + feedForward + 2 * hidden + (qkvBias ? qkvRows() : 0) + (headNorms ? 2 * headDim : 0);
  return layers * layer + vocab * hidden * (tiedEmbedding ? 1 : 2) + hidden;
}

double Config::angle(int64_t i) const {
  double base = ropeTheta, d = double(headDim), plain = std::pow(base, -2 * double(i) / d);
  switch (rope.kind) {
  case RopeScaling::Kind::None: break;
  case RopeScaling::Kind::Linear: return plain / rope.factor;
  case RopeScaling::Kind::Llama3: {
    double kept = std::clamp((rope.original * plain / (2 * M_PI) - rope.low) / (rope.high - rope.low), 0.0, 1.0);
    return kept * plain + (1 - kept) * plain / rope.factor;
  }
  case RopeScaling::Kind::Yarn: {
    // The pair that turns so many times in `original` positions.
    auto pair = [&](double turns) { return d * std::log(rope.original / (turns * 2 * M_PI)) / (2 * std::log(base)); };
    double first = std::max(std::floor(pair(rope.high)), 0.0), last = std::min(std::ceil(pair(rope.low)), d - 1);
    double scaled = std::clamp((double(i) - first) / (last == first ? 0.001 : last - first), 0.0, 1.0);
    return scaled * plain / rope.factor + (1 - scaled) * plain;
  }
  }
  return plain;
}

Status Config::check() const {
  struct Rule {
    const char *field;
    int64_t value, least, multiple;
  };
  const Rule rules[] = {{"vocab_size", vocab, 1, 1},
                        {"hidden_size", hidden, 64, 64},
                        {"intermediate_size", intermediate, 64, 64},
                        {"num_hidden_layers", layers, 1, 1},
                        {"num_attention_heads", heads, 1, 1},
                        {"num_key_value_heads", kvHeads, 1, 1},
                        {"head_dim", headDim, 16, 16},
                        {"num_local_experts", experts, 0, 1},
                        {"max_position_embeddings", positions, 0, 1},
                        {"sliding_window", window, 0, 1}};
  for (const Rule &r : rules)
    if (r.value < r.least || r.value % r.multiple)
      return invalid(std::string(r.field) + " is " + std::to_string(r.value) + "; it must be at least " + std::to_string(r.least) + " and a multiple of " + std::to_string(r.multiple));
  if (heads % kvHeads) return invalid("num_attention_heads (" + std::to_string(heads) + ") must be a multiple of num_key_value_heads (" + std::to_string(kvHeads) + ")");
  if (!std::has_single_bit(uint64_t(headDim))) return invalid("head_dim is " + std::to_string(headDim) + "; the attention kernel takes powers of two");
  if (experts && (expertsPerToken < 1 || expertsPerToken > experts))
    return invalid("num_experts_per_tok is " + std::to_string(expertsPerToken) + " of " + std::to_string(experts) + " experts");
  return {};
}

Result<Config> namedConfig(const std::string &name) {
  Config c;
  if (name == "tiny") return c;
  if (name == "moe") {
    c.experts = 4;
    c.intermediate = 384;
    return c;
  }
  if (name == "1b") {
    c.vocab = 128256, c.hidden = 2048, c.intermediate = 8192, c.layers = 16, c.heads = 32, c.kvHeads = 8, c.headDim = 64, c.ropeTheta = 500000, c.tiedEmbedding = true;
    return c;
  }
  if (name == "8b") {
    c.vocab = 128256, c.hidden = 4096, c.intermediate = 14336, c.layers = 32, c.heads = 32, c.kvHeads = 8, c.headDim = 128, c.ropeTheta = 500000;
    return c;
  }
  return invalid("there is no shape `" + name + "`; there are tiny, moe, 1b and 8b");
}

namespace {

/// Numbers of a JSON object, until one is wrong.
struct Numbers {
  const std::string &path;
  Status wrong = {};

  template <typename T> void read(const nlohmann::json &j, const char *key, T &to, bool required = false) {
    auto it = j.find(key);
    if (!wrong) return;
    if (it == j.end() || it->is_null()) {
      if (required) wrong = invalid(path + ": `" + key + "` is missing");
    } else if (!it->is_number() || (std::is_integral_v<T> && !it->is_number_integer())) {
      wrong = invalid(path + ": `" + key + "` is " + it->dump() + ", which is not a " + (std::is_integral_v<T> ? "whole " : "") + "number");
    } else {
      to = it->get<T>();
    }
  }
};

/// rope_scaling of older files and rope_parameters of newer ones.
Status readRope(const std::string &path, const nlohmann::json &j, double longest, RopeScaling &rope) {
  std::string type = j.value("rope_type", j.value("type", "default"));
  Numbers numbers{path};
  if (type == "default") return {};
  numbers.read(j, "factor", rope.factor, true);
  if (type == "linear") {
    rope.kind = RopeScaling::Kind::Linear;
  } else if (type == "llama3") {
    rope.kind = RopeScaling::Kind::Llama3;
    numbers.read(j, "low_freq_factor", rope.low, true);
    numbers.read(j, "high_freq_factor", rope.high, true);
    numbers.read(j, "original_max_position_embeddings", rope.original, true);
  } else if (type == "yarn") {
    rope.kind = RopeScaling::Kind::Yarn;
    rope.low = 1, rope.high = 32, rope.original = longest;
    numbers.read(j, "beta_slow", rope.low);
    numbers.read(j, "beta_fast", rope.high);
    numbers.read(j, "original_max_position_embeddings", rope.original);
    rope.attention = rope.factor > 1 ? 0.1 * std::log(rope.factor) + 1 : 1;
    numbers.read(j, "attention_factor", rope.attention);
    for (const char *key : {"mscale", "mscale_all_dim", "truncate"})
      if (j.contains(key)) return fail(TEGULA_UNSUPPORTED, path + ": `" + key + "` of the scaling of positions is not supported");
  } else {
    return fail(TEGULA_UNSUPPORTED, path + ": positions are scaled by `" + type + "`; default, linear, llama3 and yarn are supported");
  }
  if (numbers.wrong && !(rope.factor >= 1 && rope.original > 0 && rope.high > rope.low && rope.low > 0)) return invalid(path + ": the numbers of `" + type + "`, which scales positions, make no sense: " + j.dump());
  return numbers.wrong;
}

/// The tokens of `eos_token_id`, a number or a list of them.
Status readEos(const std::string &path, const nlohmann::json &j, std::vector<int32_t> &eos) {
  auto it = j.find("eos_token_id");
  if (it == j.end() || it->is_null()) return {};
  eos.clear();
  for (const nlohmann::json &token : it->is_array() ? *it : nlohmann::json::array({*it})) {
    if (!token.is_number_integer()) return invalid(path + ": `eos_token_id` is " + it->dump() + "; it must be a token or a list of them");
    eos.push_back(token.get<int32_t>());
  }
  return {};
}

/// Mistral's window counts, Qwen's only where `use_sliding_window` says so, and of the layers from `max_window_layers` on; newer files name the form of each layer.
Status readWindow(const std::string &path, const nlohmann::json &j, bool qwen, Config &c) {
  Numbers numbers{path};
  numbers.read(j, "sliding_window", c.window);
  int64_t full = 0; // layers without the window
  if (auto it = j.find("use_sliding_window"); qwen || (it != j.end() && it->is_boolean())) {
    if (it == j.end() || *it != true) c.window = 0;
    else numbers.read(j, "max_window_layers", full);
  }
  if (auto it = j.find("layer_types"); it != j.end() && it->is_array()) {
    for (const nlohmann::json &type : *it)
      if (type != "full_attention" && type != "sliding_attention") return fail(TEGULA_UNSUPPORTED, path + ": `layer_types` has " + type.dump() + "; full_attention and sliding_attention are supported");
    full = std::ranges::count(*it, "full_attention");
  }
  if (c.window && full >= c.layers) c.window = 0;
  if (c.window && full) return fail(TEGULA_UNSUPPORTED, path + ": " + std::to_string(full) + " of the layers have no sliding window, and the others have one; that is not supported");
  return numbers.wrong;
}

Result<nlohmann::json> readObject(const std::string &path) {
  Result<std::string> text = readFile(path);
  if (!text) return text.status();
  nlohmann::json j = nlohmann::json::parse(*text, nullptr, false);
  return j.is_object() ? Result<nlohmann::json>(std::move(j)) : invalid(path + ": not a JSON object");
}

} // namespace

Result<Config> readConfig(const std::string &folder) {
  std::string path = folder + "/config.json";
  Result<nlohmann::json> read = readObject(path);
  if (!read) return read.status();
  const nlohmann::json &j = *read;
  auto unsupported = [&](const std::string &what) { return fail(TEGULA_UNSUPPORTED, path + ": " + what); };
  // Others have norms or scales of their own that no key of the file names.
  std::string type = "llama";
  if (auto it = j.find("model_type"); it != j.end() && it->is_string()) type = it->get<std::string>();
  bool qwen = type == "qwen2" || type == "qwen3";
  if (type != "llama" && type != "mistral" && type != "mixtral" && !qwen) return unsupported("`model_type` is `" + type + "`; llama, mistral, mixtral, qwen2 and qwen3 are supported");
  if (auto it = j.find("quantization_config"); it != j.end() && !it->is_null())
    return unsupported("`quantization_config`: weights that others quantized are not supported; take those in bf16 or fp16, of which --precision and `quantize` make int8 and int4");
  Config c;
  Numbers numbers{path};
  numbers.read(j, "vocab_size", c.vocab, true);
  numbers.read(j, "hidden_size", c.hidden, true);
  numbers.read(j, "intermediate_size", c.intermediate, true);
  numbers.read(j, "num_hidden_layers", c.layers, true);
  numbers.read(j, "num_attention_heads", c.heads, true);
  c.kvHeads = c.heads;
  numbers.read(j, "num_key_value_heads", c.kvHeads);
  c.headDim = type == "qwen3" ? 128 : c.heads > 0 ? c.hidden / c.heads : 0;
  numbers.read(j, "head_dim", c.headDim);
  numbers.read(j, "num_local_experts", c.experts);
  numbers.read(j, "num_experts_per_tok", c.expertsPerToken);
  c.normEps = type == "mixtral" ? 1e-5f : 1e-6f; // of files that do not say it
  numbers.read(j, "rms_norm_eps", c.normEps);
  numbers.read(j, "rope_theta", c.ropeTheta);
  numbers.read(j, "max_position_embeddings", c.positions);
  if (!numbers.wrong) return numbers.wrong;
  // Newer files have what belongs to positions in one object.
  for (const char *key : {"rope_scaling", "rope_parameters"}) {
    auto it = j.find(key);
    if (it == j.end() || it->is_null()) continue;
    if (!it->is_object()) return invalid(path + ": `" + key + "` is not an object");
    numbers.read(*it, "rope_theta", c.ropeTheta);
    if (Status s = readRope(path, *it, double(c.positions), c.rope); !s) return s;
  }
  // Files with llama3 count the positions that the scaling makes possible, the others those before it.
  if (c.rope.kind == RopeScaling::Kind::Linear) c.positions = int64_t(double(c.positions) * c.rope.factor);
  if (c.rope.kind == RopeScaling::Kind::Yarn) c.positions = std::max(c.positions, int64_t(c.rope.original * c.rope.factor));
  if (Status s = readWindow(path, j, qwen, c); !s) return s;
  c.qkvBias = type == "qwen2", c.headNorms = type == "qwen3";
  if (auto it = j.find("tie_word_embeddings"); it != j.end() && it->is_boolean()) c.tiedEmbedding = it->get<bool>();
  if (Status s = readEos(path, j, c.eos); !s) return s;
  std::string generation = folder + "/generation_config.json";
  if (Result<nlohmann::json> more = readObject(generation)) {
    if (Status s = readEos(generation, *more, c.eos); !s) return s;
  } else if (more.status().code() != TEGULA_NOT_FOUND) {
    return more.status();
  }
  if (auto it = j.find("hidden_act"); it != j.end() && it->is_string() && it->get<std::string>() != "silu") return unsupported("`hidden_act` is `" + it->get<std::string>() + "`; only silu is supported");
  for (const char *key : {"attention_bias", "mlp_bias"}) // of Qwen2, queries, keys and values have biases without it
    if (auto it = j.find(key); it != j.end() && it->is_boolean() && it->get<bool>()) return unsupported(std::string("`") + key + "` is not supported");
  if (!numbers.wrong) return numbers.wrong;
  if (Status s = c.check(); !s) return fail(TEGULA_INVALID_ARGUMENT, path + ": " + s.message());
  return c;
}

} // namespace llm
