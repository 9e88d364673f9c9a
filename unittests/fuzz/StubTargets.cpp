// Stand-ins for the code generators, so that everything above them builds without LLVM and so under the sanitizers.
// They take every module that the verifier takes and give kernels that do nothing (objects of unittests/runtime), with
// the arguments of the module.
#include "TestPaths.h"
#include "ir/Verifier.h"
#include "targets/cpu/Cpu.h"
#include "targets/nvidia/Nvidia.h"
#include "targets/nvidia/WidenDots.h"
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

using namespace tegula;

static void verified(const ir::Module &m) {
  std::string why;
  if (ir::verify(m, &why))
    return;
  std::fprintf(stderr, "a code generator was given a broken module: %s\n", why.c_str());
  std::abort();
}

static std::vector<char> object(const char *variant) {
  std::ifstream in(std::string(testBinaryDir) + "/unittests/runtime/kernels-" + variant + ".o", std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (bytes.empty()) {
    std::fprintf(stderr, "no object %s\n", variant);
    std::abort();
  }
  return bytes;
}

/// One slot of 8 bytes for each argument; what may be stored through is not known here.
static std::vector<targets::ArgSlot> slots(const ir::Module &m) {
  std::vector<targets::ArgSlot> list;
  const ir::Function &k = *m.kernel();
  for (size_t i = 0; i < k.block()->args.size(); ++i)
    list.push_back({k.block()->args[i]->type, static_cast<uint32_t>(8 * i), k.argInfo[i].name, k.argInfo[i].isSigned,
                    !k.argInfo[i].isConst});
  return list;
}

namespace tegula::cpu {

std::optional<CpuTarget> parseTarget(std::string_view name) {
  CpuTarget t;
  t.triple = name == "cpu:aarch64" ? "aarch64-unknown-linux-gnu" : "x86_64-unknown-linux-gnu";
  t.avx2 = name == "cpu:avx2";
  for (const std::string &known : knownTargetNames())
    if (name == known)
      return t;
  return std::nullopt;
}
std::vector<std::string> knownTargetNames() { return {"cpu", "cpu:x86-64", "cpu:avx2", "cpu:aarch64"}; }
bool runsOn(const CpuTarget &code, const CpuTarget &machine) { return code.triple == machine.triple; }
std::string targetKey(const CpuTarget &t) { return t.triple + (t.avx2 ? "2" : ""); }

std::optional<CpuKernel> compile(const ir::Module &module, const CpuTarget &, const CpuOptions &options, DiagEngine &) {
  verified(module);
  CpuKernel k;
  k.object = object("plain");
  k.meta.symbol = "empty";
  k.meta.args = slots(module);
  k.meta.argBytes = static_cast<uint32_t>(8 * k.meta.args.size());
  k.meta.checked = options.checked;
  return k;
}
std::optional<std::string> emitStage(const ir::Module &module, const CpuTarget &, const CpuOptions &, Stage,
                                     DiagEngine &) {
  verified(module);
  return ir::print(module);
}

} // namespace tegula::cpu

namespace tegula::nvidia {

std::optional<NvTarget> parseTarget(std::string_view name) {
  for (const std::string &known : knownTargetNames())
    if (name == known)
      return NvTarget{name.ends_with("80") ? 80u : 90u, !name.ends_with("80"), name.starts_with("sim")};
  return std::nullopt;
}
std::vector<std::string> knownTargetNames() {
  return {"sm_80", "sm_90a", "sim", "sim:sm_80", "sim:sm_86", "sim:sm_89", "sim:sm_90a"};
}
std::string targetKey(const NvTarget &t) { return std::to_string(t.sm) + (t.simulate ? "sim" : ""); }
bool keepDescriptor(const ir::Op &, const AxisFacts &, const void *) { return false; }
void widenDots(ir::Module &, const NvTarget &) {}

std::optional<GpuKernel> compile(const ir::Module &module, const NvTarget &target, const NvOptions &, DiagEngine &) {
  verified(module);
  GpuKernel k;
  k.meta.args = slots(module);
  k.meta.argBytes = static_cast<uint32_t>(8 * k.meta.args.size());
  k.code = target.simulate ? object("sim") : std::vector<char>{'P', 'T', 'X', 0};
  k.meta.symbol = target.simulate ? "nothing" : "k";
  return k;
}
std::optional<std::string> emitStage(const ir::Module &module, const NvTarget &, const NvOptions &, Stage, DiagEngine &, std::string_view) {
  verified(module);
  return ir::print(module);
}

} // namespace tegula::nvidia
