// generate: continues prompts with a Llama-style decoder and says how fast. `generate --help` lists the options; docs/llm.md walks through them.
#include "Bandwidth.h"
#include "Options.h"
#include "Reference.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

using namespace llm;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Task {
  std::string prompt = "", tokens = "";
  int64_t promptTokens = 16, maxNew = 32, topK = 0;
  float temperature = 0, topP = 1;
  bool check = false, bandwidth = false, profile = false, quiet = false;
};

/// The prompts of the batch: the text, the numbers, or random tokens, each sequence another one.
Result<std::vector<std::vector<int32_t>>> prompts(const Task &task, const ModelOptions &o, const Session &s) {
  std::vector<std::vector<int32_t>> all(static_cast<size_t>(o.batch));
  std::vector<int32_t> one;
  if (!task.prompt.empty()) {
    if (!s.tokenizer) return invalid("--prompt wants a tokenizer: --tokenizer FILE, or --tokens 1,2,3");
    one = s.tokenizer->encode(task.prompt);
    if (one.empty()) return invalid("the prompt is empty");
  }
  for (size_t at = 0; at < task.tokens.size();) {
    size_t comma = std::min(task.tokens.find(',', at), task.tokens.size());
    char *end = nullptr;
    std::string word = task.tokens.substr(at, comma - at);
    long v = std::strtol(word.c_str(), &end, 10);
    if (word.empty() || *end || v < 0 || v >= s.model->config().vocab) return invalid("--tokens: `" + word + "` is not a token below " + std::to_string(s.model->config().vocab));
    one.push_back(int32_t(v));
    at = comma + 1;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = one;
    for (uint64_t t = 0; one.empty() && t < uint64_t(task.promptTokens); ++t)
      all[i].push_back(int32_t((0x9e3779b97f4a7c15 * (i * 1000003 + t + 1 + uint64_t(o.seed)) >> 33) % uint64_t(s.model->config().vocab)));
  }
  return all;
}

/// What logits may differ by from the reference, as a part of their spread: what rounding of activations and cache makes.
double allowed(const Session &s) { return s.model->weights().precision == Precision::Fp32 ? 2e-5 : 0.06; }

struct Check {
  double worst = 0; // largest difference / standard deviation of the logits
  int64_t compared = 0, left = 0;
};

/// Each sequence is run again, its prompt in pieces of what a step may hold and then token by token, and the logits behind each piece are compared with the reference's.
Result<Check> check(Session &s, const std::vector<std::vector<int32_t>> &texts, const std::vector<size_t> &promptLengths) {
  Check result;
  double margin = s.model->weights().precision == Precision::Fp32 ? 1e-4 : 0.02;
  for (size_t i = 0; i < texts.size(); ++i) {
    Reference want = reference(s.model->weights(), texts[i]);
    int64_t size = int64_t(texts[i].size()), clear = 0; // tokens before the first whose experts are too close to call
    while (clear < size && want.margins[size_t(clear)] >= margin) ++clear;
    result.left += size - clear;
    PagedCache pages = s.model->makePages();
    int64_t line = pages.take(size), done = 0;
    while (done < clear) {
      int64_t prompt = std::min(int64_t(promptLengths[i]), clear);
      int64_t count = done < prompt ? std::min(prompt - done, s.model->limits().rows) : 1;
      Span span;
      span.tokens.assign(texts[i].begin() + done, texts[i].begin() + done + count);
      span.line = line, span.position = done;
      if (Result<std::vector<int32_t>> r = s.model->step({&span, 1}, pages); !r) return r.status();
      Result<std::vector<float>> got = s.model->logits();
      if (!got) return got.status();
      done += count;
      ++result.compared;
      const std::vector<double> &w = want.logits[size_t(done - 1)];
      double mean = 0, squares = 0, difference = 0;
      for (size_t t = 0; t < w.size(); ++t) {
        mean += w[t] / double(w.size()), squares += w[t] * w[t] / double(w.size());
        double d = std::fabs(w[t] - double((*got)[t]));
        difference = std::max(difference, std::isfinite(d) ? d : INFINITY);
      }
      result.worst = std::max(result.worst, difference / std::sqrt(std::max(squares - mean * mean, 1e-30)));
    }
  }
  return result;
}

} // namespace

int main(int argc, char **argv) {
  ModelOptions options;
  Task task;
  CommandLine line("generate", "continues prompts with a Llama-style decoder");
  options.declare(line);
  line.text("prompt", task.prompt, "text to continue (wants a tokenizer)");
  line.text("tokens", task.tokens, "tokens to continue, 1,2,3");
  line.number("prompt-tokens", task.promptTokens, "random tokens to continue, where neither is given", 1);
  line.number("max-new", task.maxNew, "new tokens of each sequence", 1);
  line.real("temperature", task.temperature, "0: always the likeliest token", 100);
  line.number("top-k", task.topK, "of the k likeliest tokens, 0 for all");
  line.real("top-p", task.topP, "of the likeliest tokens that hold this probability", 1);
  line.flag("check", task.check, "compare all logits with a float64 reference (small models)");
  line.flag("bandwidth", task.bandwidth, "measure the memory's read bandwidth, and say which part of it decoding used");
  line.flag("profile", task.profile, "time each kernel (which makes the rest slower)");
  line.flag("quiet", task.quiet, "no tokens, only the numbers");
  int code = 0;
  if (!line.parse(argc, argv, code)) return code;

  Result<Session> opened = Session::open(options);
  if (!opened) return complain("generate", opened.status());
  Session &s = *opened;
  Result<std::vector<std::vector<int32_t>>> texts = prompts(task, options, s);
  if (!texts) return complain("generate", texts.status());
  double warmStart = now();
  if (Status w = s.model->warmUp(); !w) return complain("generate", w);
  double warmSeconds = now() - warmStart;

  if (task.profile) s.model->device().startProfile();
  Engine engine(*s.model);
  std::vector<size_t> lengths;
  for (size_t i = 0; i < texts->size(); ++i) {
    Request r;
    r.id = std::to_string(i);
    r.prompt = (*texts)[i];
    r.maxNew = task.maxNew;
    r.sampling = {task.temperature, task.topP, int32_t(task.topK), int32_t(options.seed + int64_t(i))};
    r.stop = s.model->config().eos;
    lengths.push_back(r.prompt.size());
    if (Status added = engine.add(std::move(r)); !added) return complain("generate", added);
  }
  double start = now(), first = 0, decodeStart = 0, processorStart = 0;
  int64_t made = 0, decoded = 0, steps = 0;
  while (!engine.idle()) {
    Result<std::vector<Event>> events = engine.step();
    if (!events) return complain("generate", events.status());
    for (const Event &e : *events) {
      size_t i = size_t(std::atoi(e.id.c_str()));
      (*texts)[i].push_back(e.token);
      if (!task.quiet && texts->size() == 1) {
        if (s.tokenizer) std::printf("%s", s.tokenizer->bytes(e.token).c_str());
        else std::printf("%s%d", made ? " " : "", e.token);
        std::fflush(stdout);
      }
      ++made;
    }
    if (!events->empty() && first == 0) first = now();
    // Steps count once every prompt is in: they decode and do nothing else.
    bool decoding = made >= int64_t(texts->size());
    if (decodeStart > 0) ++steps, decoded += int64_t(events->size());
    else if (decoding) decodeStart = now(), processorStart = processorSeconds();
  }
  double end = now(), processor = processorSeconds() - processorStart;
  if (!task.quiet && texts->size() == 1) std::printf("\n");
  if (!task.quiet && texts->size() > 1)
    for (size_t i = 0; i < texts->size(); ++i) {
      std::printf("%zu:", i);
      for (size_t t = lengths[i]; t < (*texts)[i].size(); ++t) std::printf(" %d", (*texts)[i][t]);
      std::printf("\n");
    }

  const Weights &w = s.model->weights();
  Model::Memory memory = Model::expectedMemory(w.config, w.precision, s.model->limits(), *s.device);
  memory.weights = w.bytes();
  std::printf("model: %.1f M parameters, %s, on %s; loaded in %.2f s, kernels ready in %.2f s\n", double(w.config.parameters()) / 1e6, precisionName(w.precision), s.device->name().c_str(), s.loadSeconds,
              warmSeconds);
  std::printf("memory: %s\n", memory.text().c_str());
  std::printf("time to first token: %.2f ms (prompt of %zu tokens, %.1f tokens/s)\n", (first - start) * 1e3, lengths[0], double(lengths[0]) / (first - start));
  if (steps) {
    double perStep = (end - decodeStart) / double(steps), rate = double(w.bytesPerStep()) / perStep / 1e9;
    std::printf("decode: %.2f tokens/s, %.3f ms a step of %zu, %.2f GB/s of weights\n", double(decoded) / (end - decodeStart), perStep * 1e3, texts->size(), rate);
    if (task.bandwidth) {
      // Processor time tells the same of a machine that others use; GPUs spend theirs elsewhere.
      Bandwidth bound = readBandwidth(int(options.threads));
      std::printf("read bandwidth: %.2f GB/s; decoding used %.3f of it\n", bound.bytesPerSecond / 1e9, rate * 1e9 / bound.bytesPerSecond);
      double perProcessor = double(w.bytesPerStep()) * double(steps) / processor;
      if (!s.device->isGpu())
        std::printf("by processor time: %.2f of %.2f GB/s a thread, %.3f\n", perProcessor / 1e9, bound.bytesPerProcessorSecond / 1e9, perProcessor / bound.bytesPerProcessorSecond);
    }
  }
  if (task.profile) std::printf("%s", s.model->device().profile().c_str());
  if (!task.check) return 0;
  Result<Check> c = check(s, *texts, lengths);
  if (!c) return complain("generate", c.status());
  bool good = c->worst <= allowed(s);
  if (!c->compared) return complain("generate", invalid("--check: before each of the " + std::to_string(c->left) + " positions a choice of experts is too close to call, so none can be compared; with --experts 2 there is no choice"));
  std::printf("check: %lld positions within %.2e standard deviations of the float64 reference's logits (allowed: %.0e): %s\n", static_cast<long long>(c->compared), c->worst, allowed(s), good ? "good" : "WRONG");
  if (c->left) std::printf("check: %lld positions left out, as a choice of experts before them is too close to call\n", static_cast<long long>(c->left));
  return good ? 0 : 1;
}
