#include "Options.h"
#include "Files.h"
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>

namespace llm {

namespace {
template <typename T> bool parseNumber(const std::string &text, T &to) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && end == text.data() + text.size();
}
} // namespace

void CommandLine::flag(const char *name, bool &to, const char *help) {
  rows_.push_back({name, help, "", [&to](const std::string &) { return to = true; }, "", ""});
}
void CommandLine::text(const char *name, std::string &to, const char *help) {
  rows_.push_back({name, help, "TEXT", [&to](const std::string &v) { return to = v, true; }, to, ""});
}
void CommandLine::number(const char *name, int64_t &to, const char *help, int64_t least) {
  rows_.push_back({name, help, "N", [&to, least](const std::string &v) { return parseNumber(v, to) && to >= least; }, to >= 0 ? std::to_string(to) : "", "a whole number from " + std::to_string(least) + " on"});
}
void CommandLine::real(const char *name, float &to, const char *help, int most) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", double(to));
  rows_.push_back({name, help, "X", [&to, most](const std::string &v) { return parseNumber(v, to) && to >= 0 && to <= float(most); }, text, "a number from 0 to " + std::to_string(most)});
}

void CommandLine::usage() const {
  std::printf("%s: %s\n\n", program_.c_str(), purpose_.c_str());
  for (const Row &r : rows_) {
    std::string left = "  --" + r.name + (r.kind.empty() ? "" : " " + r.kind);
    std::printf("%-28s %s%s\n", left.c_str(), r.help.c_str(), r.initial.empty() ? "" : (" (" + r.initial + ")").c_str());
  }
}

bool CommandLine::parse(int argc, char **argv, int &exitCode) {
  exitCode = 2;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--help" || word == "-h") return usage(), exitCode = 0, false;
    size_t equals = word.find('=');
    std::string name = word.starts_with("--") ? word.substr(2, equals == std::string::npos ? equals : equals - 2) : "";
    auto it = std::ranges::find_if(rows_, [&](const Row &r) { return r.name == name; });
    if (it == rows_.end()) return std::fprintf(stderr, "%s: there is no option `%s`; --help lists them\n", program_.c_str(), word.c_str()), false;
    std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (!it->kind.empty() && equals == std::string::npos) {
      if (++i == argc) return std::fprintf(stderr, "%s: --%s wants a value\n", program_.c_str(), name.c_str()), false;
      value = argv[i];
    }
    if (!it->set(value)) return std::fprintf(stderr, "%s: --%s cannot be `%s`; it is %s\n", program_.c_str(), name.c_str(), value.c_str(), it->wants.c_str()), false;
  }
  return true;
}

ModelOptions::ModelOptions() {
  Config &o = overrides;
  o.vocab = o.hidden = o.intermediate = o.layers = o.heads = o.kvHeads = o.headDim = o.experts = o.window = -1;
}

void ModelOptions::declare(CommandLine &line) {
  line.text("model", model, "folder with config.json, *.safetensors and perhaps tokenizer.json; without it weights are random");
  line.text("shape", shape, "shape of random weights: tiny, moe, 1b, 8b");
  line.number("layers", overrides.layers, "layers, in place of the shape's", 1);
  line.number("hidden", overrides.hidden, "width", 1);
  line.number("intermediate", overrides.intermediate, "width of the feed-forward network", 1);
  line.number("heads", overrides.heads, "query heads", 1);
  line.number("kv-heads", overrides.kvHeads, "key and value heads", 1);
  line.number("head-dim", overrides.headDim, "elements of a head", 1);
  line.number("sliding-window", overrides.window, "last tokens that a token attends to; 0: all", 0);
  line.number("vocab", overrides.vocab, "tokens", 1);
  line.number("experts", overrides.experts, "experts, 0 for none", 0);
  line.number("seed", seed, "of random weights and of sampling");
  line.text("precision", precision, "of the weights: fp32, bf16, int8, int4 (the files', else bf16)");
  line.text("tokenizer", tokenizer, "tokenizer.json (the model folder's)");
  line.text("bundle", bundle, "kernels compiled ahead of time (docs/bundle.md); what it does not have is compiled");
  line.text("device", device, "cpu, sim, cuda, cuda:1");
  line.flag("graphs", graphs, "record decode steps as graphs on cpu and sim, too, as on GPUs");
  line.number("threads", threads, "CPU threads, 0 for all cores");
  line.number("context", context, ("tokens of a sequence at most, 0 for " + std::to_string(usualContext) + " or, if they are fewer, the model's positions").c_str());
  line.number("batch", batch, "sequences at the same time", 1);
  line.number("rows", rows, "tokens of a step at most", 1);
  line.number("cache-tokens", cacheTokens, "tokens in the KV cache, 0 for batch * context");
}

Result<Config> ModelOptions::config() const {
  Result<Config> c = model.empty() ? namedConfig(shape) : readConfig(model);
  if (!c) return c;
  const Config &o = overrides;
  for (auto [from, to] : {std::pair(o.vocab, &c->vocab), {o.hidden, &c->hidden}, {o.intermediate, &c->intermediate}, {o.layers, &c->layers}, {o.heads, &c->heads}, {o.kvHeads, &c->kvHeads},
                          {o.headDim, &c->headDim}, {o.experts, &c->experts}, {o.window, &c->window}})
    if (from >= 0) *to = from;
  if (Status s = c->check(); !s) return s;
  return c;
}

Result<int64_t> ModelOptions::contextOf(const Config &c) const {
  if (c.positions && context > c.positions)
    return invalid("--context is " + std::to_string(context) + ", but the model was made for " + std::to_string(c.positions) + " positions (" + model + "/config.json)");
  return context ? context : c.positions ? std::min(usualContext, c.positions) : usualContext;
}

Result<Session> Session::open(const ModelOptions &o) {
  Session session;
  Result<Config> config = o.config();
  if (!config) return config.status();
  Result<int64_t> context = o.contextOf(*config);
  if (!context) return context.status();
  std::optional<Precision> precision;
  if (!o.precision.empty()) {
    Result<Precision> p = parsePrecision(o.precision);
    if (!p) return p.status();
    precision = *p;
  }
  if (!o.model.empty()) {
    // Files that the quantize tool wrote have a precision of their own, which the memory depends on.
    Result<std::optional<Precision>> stored = storedPrecision(o.model);
    if (!stored) return stored.status();
    if (!precision) precision = *stored;
  }
  TegulaContextOptions options = TEGULA_CONTEXT_OPTIONS_INIT;
  options.num_threads = int32_t(o.threads);
  Result<tegula::Context> compiler = tegula::Context::create(options);
  if (!compiler) return compiler.status();
  session.context = *compiler;
  if (!o.bundle.empty())
    if (Status s = Status::from(tegula_context_load_bundle(compiler->get(), o.bundle.c_str(), nullptr)); !s) return s;
  Result<Device> device = Device::open(*compiler, o.device, o.graphs);
  if (!device) return device.status();
  session.device = *device;
  Model::Limits limits{o.batch, *context, std::max(o.rows, o.batch), o.cacheTokens};
  if (Status s = Model::checkMemory(*config, precision.value_or(Precision::Bf16), limits, *device); !s) return s;
  Result<Kernels> kernels = Kernels::load(*compiler);
  if (!kernels) return kernels.status();
  session.kernels = *kernels;
  std::string tokenizer = !o.tokenizer.empty() ? o.tokenizer : !o.model.empty() && exists(o.model + "/tokenizer.json") ? o.model + "/tokenizer.json" : "";
  if (!tokenizer.empty()) {
    Result<Tokenizer> t = Tokenizer::open(tokenizer);
    if (!t) return t.status();
    if (t->size() > config->vocab) return invalid(tokenizer + " has " + std::to_string(t->size()) + " tokens, but the model's vocabulary has " + std::to_string(config->vocab));
    session.tokenizer = *t;
  }
  auto start = std::chrono::steady_clock::now();
  Result<Weights> weights = Weights::load(*config, precision, {o.model, uint64_t(o.seed)}, *kernels, *device);
  if (!weights) return weights.status();
  Result<Model> model = Model::create(std::move(*weights), limits, *kernels, *device);
  if (!model) return model.status();
  session.model = std::move(*model);
  session.loadSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return session;
}

int complain(const char *program, const Status &s) {
  std::fprintf(stderr, "%s: %s\n", program, s.message().c_str());
  return 1;
}

} // namespace llm
