#include "Config.h"
#include "Files.h"
#include <bit>
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
  int64_t layer = hidden * qkvRows() + heads * headDim * hidden + feedForward + 2 * hidden;
  return layers * layer + vocab * hidden * (tiedEmbedding ? 1 : 2) + hidden;
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

Result<Config> readConfig(const std::string &path) {
  Result<std::string> text = readFile(path);
  if (!text) return text.status();
  nlohmann::json j = nlohmann::json::parse(*text, nullptr, false);
  if (!j.is_object()) return invalid(path + ": not a JSON object");
  // Others have biases, norms or scales of their own that no key of the file names.
  if (auto it = j.find("model_type"); it != j.end() && it->is_string())
    if (std::string type = it->get<std::string>(); type != "llama" && type != "mistral" && type != "mixtral")
      return fail(TEGULA_UNSUPPORTED, path + ": `model_type` is `" + type + "`; llama, mistral and mixtral are supported");
  Config c;
  Status wrong;
  auto number = [&](const nlohmann::json &j, const char *key, auto &field, bool required) {
    if (!j.contains(key) || j[key].is_null()) {
      if (required && wrong) wrong = invalid(path + ": `" + key + "` is missing");
    } else if (!j[key].is_number()) {
      if (wrong) wrong = invalid(path + ": `" + key + "` is not a number");
    } else {
      field = j[key].get<std::remove_reference_t<decltype(field)>>();
    }
  };
  number(j, "vocab_size", c.vocab, true);
  number(j, "hidden_size", c.hidden, true);
  number(j, "intermediate_size", c.intermediate, true);
  number(j, "num_hidden_layers", c.layers, true);
  number(j, "num_attention_heads", c.heads, true);
  c.kvHeads = c.heads;
  number(j, "num_key_value_heads", c.kvHeads, false);
  c.headDim = c.heads ? c.hidden / c.heads : 0;
  number(j, "head_dim", c.headDim, false);
  number(j, "num_local_experts", c.experts, false);
  number(j, "num_experts_per_tok", c.expertsPerToken, false);
  number(j, "sliding_window", c.window, false);
  number(j, "rms_norm_eps", c.normEps, false);
  number(j, "rope_theta", c.ropeTheta, false);
  // Newer files have what belongs to positions in an object.
  auto rope = j.find("rope_parameters");
  if (rope != j.end() && rope->is_object()) number(*rope, "rope_theta", c.ropeTheta, false);
  if (!wrong) return wrong;
  if (auto it = j.find("tie_word_embeddings"); it != j.end() && it->is_boolean()) c.tiedEmbedding = it->get<bool>();
  if (auto it = j.find("eos_token_id"); it != j.end()) {
    if (it->is_array() && !it->empty()) it = it->begin();
    if (it->is_number_integer()) c.eos = it->get<int64_t>();
  }
  // What would be computed wrong in silence is refused.
  if (auto it = j.find("rope_scaling"); it != j.end() && !it->is_null()) return fail(TEGULA_UNSUPPORTED, path + ": `rope_scaling` is not supported");
  if (rope != j.end() && rope->is_object())
    if (auto it = rope->find("rope_type"); it != rope->end() && *it != "default") return fail(TEGULA_UNSUPPORTED, path + ": `rope_type` is " + it->dump() + "; only \"default\" is supported");
  if (auto it = j.find("hidden_act"); it != j.end() && it->is_string() && it->get<std::string>() != "silu")
    return fail(TEGULA_UNSUPPORTED, path + ": `hidden_act` is `" + it->get<std::string>() + "`; only silu is supported");
  for (const char *key : {"attention_bias", "mlp_bias"})
    if (auto it = j.find(key); it != j.end() && it->is_boolean() && it->get<bool>()) return fail(TEGULA_UNSUPPORTED, path + ": `" + key + "` is not supported");
  if (Status s = c.check(); !s) return fail(TEGULA_INVALID_ARGUMENT, path + ": " + s.message());
  return c;
}

} // namespace llm
