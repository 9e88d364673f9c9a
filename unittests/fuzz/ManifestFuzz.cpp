// Manifests as `tegula aot` reads them, written by hand and recorded: any text gives jobs or a message. The mutator
// changes the tree of the JSON, so that most inputs get past its parser: a node becomes another one of the text, a
// number or a text of the format, or goes.
#include "api/Aot.h"
#include "api/Error.h"
#include "support/Gate.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

using namespace tegula;
using nlohmann::json;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  TegulaContextOptions options = TEGULA_CONTEXT_OPTIONS_INIT;
  options.cache_dir = "";
  options.num_threads = 1;
  static TegulaContext *context = nullptr;
  // Modules of manifests live in their context: a new one now and then.
  static unsigned runs = 0;
  if (runs++ % 256 == 0) {
    tegula_context_release(context);
    if (tegula_context_create(&options, &context) != TEGULA_OK) std::abort();
  }
  tegula_clear_error();
  TegulaAot *aot = nullptr;
  if (tegula_aot_create(context, &aot) != TEGULA_OK) std::abort();
  bool ok;
  {
    GateSection section;
    ok = api::readManifestText(*aot, "fuzz/manifest.json", {reinterpret_cast<const char *>(data), size}, {}, -1);
  }
  if (!ok && !*tegula_last_error()) std::fprintf(stderr, "refused without a message\n"), std::abort();
  for (const api::AotJob &job : aot->jobs)
    if (!job.function || job.targets.empty() || job.specs.size() != job.function->params().size())
      std::fprintf(stderr, "a job that cannot be compiled\n"), std::abort();
  tegula_aot_release(aot);
  return 0;
}

static void nodesOf(json &j, std::vector<json *> &out) {
  out.push_back(&j);
  if (j.is_structured())
    for (json &child : j) nodesOf(child, out);
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
  std::mt19937 random(seed);
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  json all = json::parse(std::string_view(reinterpret_cast<const char *>(data), size), nullptr, false);
  if (all.is_discarded() || !below(8)) return LLVMFuzzerMutate(data, size, maxSize);
  static const json pieces[] = {nullptr, true, -1, 0, 1, 16, 1ull << 63, 1.5, "", "f0", "cpu", "sim", "sm_90a", "cpu:avx2", "x:*fp32:16, n:i32:16", "n:1", "*fp8e4nv", "cdiv(n, BLOCK)", "all",
                                json::array(), json::object(), {{"ref", "f0"}}, {{"int", "3"}}, {{"tuple", json::array()}}, {{"none", true}}, {{"dtype", "fp16"}}, {{"type", {{"dtype", "i32"}, {"shape", {-1, 4}}}}},
                                {{"type", "i32"}, {"divisibility", 16}}, {{"record", {{"class", {{"ref", "f0"}}}, {"fields", json::array()}}}}, {{"builtin", "load"}}, {{"library", "cdiv"}}, {{"float", "7ff0000000000000"}}};
  for (size_t rounds = 1 + below(3); rounds; --rounds) {
    std::vector<json *> nodes;
    nodesOf(all, nodes);
    json &node = *nodes[below(nodes.size())];
    switch (below(5)) {
    case 0: node = pieces[below(std::size(pieces))]; break;
    case 1: node = json(*nodes[below(nodes.size())]); break; // a copy first: it may be in the node
    case 2:
      if (node.is_object() && !node.empty())
        node.erase(std::next(node.begin(), static_cast<std::ptrdiff_t>(below(node.size()))));
      else if (node.is_array() && !node.empty()) node.erase(below(node.size()));
      break;
    case 3:
      if (node.is_array()) node.push_back(json(*nodes[below(nodes.size())]));
      else if (node.is_object() && !node.empty())
        node[std::next(node.begin(), static_cast<std::ptrdiff_t>(below(node.size()))).key()] =
            pieces[below(std::size(pieces))];
      break;
    default:
      if (!node.is_string()) break;
      std::string text = node.get<std::string>();
      const size_t room = text.size() + 16, length = text.size();
      text.resize(room);
      text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(text.data()), length, room));
      node = text;
    }
  }
  const std::string out = all.dump(-1, ' ', false, json::error_handler_t::replace);
  if (out.size() > maxSize) return LLVMFuzzerMutate(data, size, maxSize);
  std::memcpy(data, out.data(), out.size());
  return out.size();
}
