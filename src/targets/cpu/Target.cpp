// Maps names to CPU targets: a table of fixed targets, and the host machine.
#include "targets/cpu/Cpu.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace tegula::cpu {
namespace {

constexpr const char *x86Triple = "x86_64-unknown-linux-gnu";
constexpr const char *armTriple = "aarch64-unknown-linux-gnu";

struct NamedTarget {
  const char *name, *triple, *cpu, *features;
  unsigned vectorBits;
  bool avx2, avx512, bf16, vnni, fma, f16c; // vnni: of the vectors that it has
};

// `f16c` means conversions between f16 and f32 in hardware, which AArch64 always has.
// -prefer-256-bit: the generic AVX-512 models of LLVM split 512-bit vectors otherwise.
constexpr NamedTarget namedTargets[] = {
    {"cpu:x86-64", x86Triple, "x86-64", "", 128, false, false, false, false, false, false},
    {"cpu:avx2", x86Triple, "x86-64-v3", "", 256, true, false, false, false, true, true},
    {"cpu:avx2vnni", x86Triple, "x86-64-v3", "+avxvnni", 256, true, false, false, true, true, true},
    {"cpu:avx512", x86Triple, "x86-64-v4", "-prefer-256-bit", 512, true, true, false, false, true, true},
    {"cpu:avx512bf16", x86Triple, "x86-64-v4", "+avx512vnni,+avx512bf16,-prefer-256-bit", 512, true, true, true, true,
     true, true},
    {"cpu:aarch64", armTriple, "generic", "+neon", 128, false, false, false, false, true, true},
};

uint64_t cacheBytes(int name, uint64_t otherwise) {
  long bytes = sysconf(name);
  return bytes > 0 ? static_cast<uint64_t>(bytes) : otherwise;
}

/// Of one core complex: sysconf adds up all of them on some CPUs, and a core fills only its own.
uint64_t lastLevelCache(uint64_t otherwise) {
  unsigned long long n = 0;
  char unit = 0;
  if (FILE *f = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re")) {
    if (fscanf(f, "%llu%c", &n, &unit) < 1)
      n = 0;
    fclose(f);
  }
  return n == 0 ? otherwise : unit == 'K' ? n << 10 : unit == 'M' ? n << 20 : n;
}

/// All features of the machine, spelled out and sorted: the CPU name alone says too much inside a virtual machine.
std::string joinFeatures(const llvm::StringMap<bool> &host) {
  std::vector<std::string> parts;
  for (const auto &f : host)
    parts.push_back((f.getValue() ? "+" : "-") + f.getKey().str());
  std::sort(parts.begin(), parts.end());
  std::string text;
  for (const std::string &p : parts)
    text += (text.empty() ? "" : ",") + p;
  return text;
}

/// Two multiply-adds of float take 0.18 ns there, one vdpbf16ps 0.74 (Emerald Rapids).
bool isSlowAtPairsOfBf16(std::string_view cpu) {
  constexpr std::string_view slow[] = {"sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d"};
  return std::ranges::find(slow, cpu) != std::end(slow);
}

CpuTarget nativeTarget() {
  CpuTarget t;
  llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
  auto has = [&](const char *f) { return host.lookup(f); };
  t.cpu = llvm::sys::getHostCPUName().str();
  t.features = joinFeatures(host);
  t.l1Bytes = cacheBytes(_SC_LEVEL1_DCACHE_SIZE, t.l1Bytes);
  t.l2Bytes = cacheBytes(_SC_LEVEL2_CACHE_SIZE, t.l2Bytes);
  t.l3Bytes = lastLevelCache(t.l3Bytes);
#if defined(__x86_64__)
  // A last level that all cores of a socket share (they have L2s of their own for what is near) belongs to all that
  // runs there, guests beside this one, too. What one program may find in it after others have written was measured on
  // an Emerald Rapids with 260 MiB: of 32 MiB no more than memory gives.
  if (t.lastLevelIsFar())
    t.l3Bytes = std::min<uint64_t>(t.l3Bytes, 16 * t.l2Bytes);
#endif
#if defined(__aarch64__)
  t.triple = armTriple;
  t.fma = t.f16c = true;
#else
  t.triple = x86Triple;
  t.avx2 = has("avx2") && has("fma") && has("f16c");
  t.fma = t.f16c = t.avx2;
  t.avx512 = t.avx2 && has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl") && has("avx512cd");
  t.avx512Bf16 = t.avx512 && has("avx512bf16");
  t.slowPairsOfBf16 = isSlowAtPairsOfBf16(t.cpu);
  t.avx512Vnni = t.avx512 && has("avx512vnni");
  t.avxVnni = t.avx2 && has("avxvnni");
  t.vectorBits = t.avx512 ? 512 : t.avx2 ? 256 : 128;
  // Same reason as in the table: tunings of some CPUs would halve our vectors.
  t.features += t.features.empty() ? "-prefer-256-bit" : ",-prefer-256-bit";
  // Without AVX2 the machine counts as baseline: masked loads need it (FunctionEmitter::maskedLoad), and the rest of
  // AVX is not tested.
  if (!t.avx2)
    t.features += ",-avx";
#endif
  return t;
}

} // namespace

std::optional<CpuTarget> parseTarget(std::string_view name) {
  if (name == "cpu" || name == "cpu:native") {
    static const CpuTarget native = nativeTarget();
    return native;
  }
  for (const NamedTarget &n : namedTargets) {
    if (name != n.name)
      continue;
    CpuTarget t;
    t.triple = n.triple;
    t.cpu = n.cpu;
    t.features = n.features;
    t.vectorBits = n.vectorBits;
    t.avx2 = n.avx2;
    t.avx512 = n.avx512;
    t.avx512Bf16 = n.bf16;
    t.avx512Vnni = n.vnni && n.avx512;
    t.avxVnni = n.vnni && !n.avx512;
    t.fma = n.fma;
    t.f16c = n.f16c;
    return t;
  }
  return std::nullopt;
}

std::vector<std::string> knownTargetNames() {
  std::vector<std::string> names = {"cpu", "cpu:native"};
  for (const NamedTarget &n : namedTargets)
    names.push_back(n.name);
  return names;
}

bool runsOn(const CpuTarget &code, const CpuTarget &machine) {
  auto atMost = [](bool needs, bool has) { return has || !needs; };
  return code.triple == machine.triple && code.vectorBits <= machine.vectorBits && atMost(code.avx2, machine.avx2) &&
         atMost(code.avx512, machine.avx512) && atMost(code.fma, machine.fma) && atMost(code.f16c, machine.f16c) &&
         atMost(code.avx512Bf16, machine.avx512Bf16) && atMost(code.avx512Vnni, machine.avx512Vnni) &&
         atMost(code.avxVnni, machine.avxVnni);
}

CpuTarget tunedFor(CpuTarget code, const CpuTarget &machine) {
  code.l1Bytes = machine.l1Bytes, code.l2Bytes = machine.l2Bytes, code.l3Bytes = machine.l3Bytes;
  code.slowPairsOfBf16 = machine.slowPairsOfBf16;
  return code;
}

std::string targetKey(const CpuTarget &t) {
  std::string key = t.triple + "|" + t.cpu + "|" + t.features + "|" + std::to_string(t.vectorBits);
  for (bool flag : {t.avx2, t.avx512, t.avx512Bf16, t.avx512Vnni, t.avxVnni, t.fma, t.f16c, t.slowPairsOfBf16})
    key += flag ? '1' : '0';
  return key + "|" + std::to_string(t.l1Bytes) + "|" + std::to_string(t.l2Bytes) + "|" + std::to_string(t.l3Bytes);
}

} // namespace tegula::cpu
