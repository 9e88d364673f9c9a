#include "runtime/BundleMachine.h"
#include <cstdlib>

namespace tegula::runtime {

namespace {
/// A CPU feature, and the rank of code that uses it.
struct CpuWord {
  std::string_view word;
  int rank;
  bool (*here)();
};
#if defined(__x86_64__)
constexpr CpuWord words[] = {{"x86-64", 0, [] { return true; }},
                             {"x86-64-v3", 10, [] { return __builtin_cpu_supports("x86-64-v3") != 0; }},
                             {"x86-64-v4", 20, [] { return __builtin_cpu_supports("x86-64-v4") != 0; }},
                             {"avxvnni", 1, [] { return __builtin_cpu_supports("avxvnni") != 0; }},
                             {"avx512vnni", 1, [] { return __builtin_cpu_supports("avx512vnni") != 0; }},
                             {"avx512bf16", 1, [] { return __builtin_cpu_supports("avx512bf16") != 0; }},
                             {"aarch64", 0, [] { return false; }}};
#else
constexpr CpuWord words[] = {{"x86-64", 0, [] { return false; }},     {"x86-64-v3", 10, [] { return false; }},
                             {"x86-64-v4", 20, [] { return false; }}, {"avxvnni", 1, [] { return false; }},
                             {"avx512vnni", 1, [] { return false; }}, {"avx512bf16", 1, [] { return false; }},
                             {"aarch64", 0, [] { return true; }}};
#endif

template <typename F> bool eachWord(std::string_view text, F &&f) {
  while (!text.empty()) {
    size_t n = std::min(text.find(' '), text.size());
    if (n && !f(text.substr(0, n))) return false;
    text.remove_prefix(std::min(n + 1, text.size()));
  }
  return true;
}

const CpuWord *find(std::string_view word) {
  for (const CpuWord &w : words)
    if (w.word == word) return &w;
  return nullptr;
}

/// "sm_90a": 90, and whether it is for that GPU only. 0: not such a name.
uint32_t smOf(std::string_view name, bool &alone) {
  if (!name.starts_with("sm_")) return 0;
  name.remove_prefix(3);
  alone = name.ends_with('a');
  if (alone) name.remove_suffix(1);
  uint32_t n = 0;
  for (char c : name) {
    if (c < '0' || c > '9' || n > 1000) return 0;
    n = n * 10 + static_cast<uint32_t>(c - '0');
  }
  return n;
}
} // namespace

int cpuRankOf(std::string_view needs) {
  int rank = 0;
  return eachWord(needs, [&](std::string_view w) {
    const CpuWord *known = find(w);
    rank += known ? known->rank : 0;
    return known != nullptr;
  })
             ? rank
             : -1;
}

int cpuRank(std::string_view needs, int most, std::string &why) {
  bool ok = eachWord(needs, [&](std::string_view w) {
    const CpuWord *known = find(w);
    if (!known || !known->here())
      why = "needs " + std::string(w) + (known ? ", which this CPU lacks" : ", which this version does not know");
    return known && known->here();
  });
  int rank = ok ? cpuRankOf(needs) : -1;
  if (ok && most >= 0 && rank > most) why = "is for a richer instruction set than the one that is asked for", rank = -1;
  return rank;
}

int gpuRank(std::string_view needs, uint32_t capability, std::string &why) {
  std::string_view kind, name;
  eachWord(needs, [&](std::string_view w) {
    (kind.empty() ? kind : name) = w;
    return true;
  });
  bool alone = false;
  uint32_t sm = smOf(name, alone);
  std::string here = "sm_" + std::to_string(capability);
  if (!sm || (kind != "cubin" && kind != "ptx"))
    return why = "needs `" + std::string(needs) + "`, which this version does not know", -1;
  bool isCubin = kind == "cubin";
  bool runs = alone ? sm == capability : isCubin ? sm / 10 == capability / 10 && sm <= capability : sm <= capability;
  if (!runs) return why = "is " + std::string(needs) + ", this GPU is " + here, -1;
  // The nearest generation first; within a generation machine code, then code for this GPU only.
  return static_cast<int>(sm) * 4 + isCubin * 2 + alone;
}

int simRank(std::string_view needs, std::string &why) {
  if (!needs.starts_with("sim ")) return why = "needs `" + std::string(needs) + "`, which is no simulator", -1;
  size_t cpu = needs.find(' ', 4);
  return cpuRank(cpu == needs.npos ? "" : needs.substr(cpu + 1), -1, why);
}

} // namespace tegula::runtime
