// Names of targets, and what of them changes code. Apart from Compile.cpp, so that tools without code generation can
// name targets.
#include "abi/GpuAbi.h"
#include "abi/SimAbi.h"
#include "targets/nvidia/Nvidia.h"

namespace tegula::nvidia {

namespace {

struct NameRow {
  const char *name;
  NvTarget target;
};
constexpr NameRow names[] = {
    {"sm_80", {80, false, false}},    {"sm_86", {86, false, false}},     {"sm_89", {89, false, false}},
    {"sm_90a", {90, true, false}},    {"sim", {90, true, true}},         {"sim:sm_80", {80, false, true}},
    {"sim:sm_86", {86, false, true}}, {"sim:sm_89", {89, false, true}},  {"sim:sm_90a", {90, true, true}},
};

} // namespace

std::optional<NvTarget> parseTarget(std::string_view name) {
  for (const NameRow &n : names)
    if (name == n.name)
      return n.target;
  return std::nullopt;
}

std::vector<std::string> knownTargetNames() {
  std::vector<std::string> out;
  for (const NameRow &n : names)
    out.push_back(n.name);
  return out;
}

std::string targetName(const NvTarget &t) {
  for (const NameRow &n : names)
    if (t == n.target)
      return n.name;
  return "sm_" + std::to_string(t.sm);
}

std::string targetKey(const NvTarget &t) {
  return (t.simulate ? "sim" + std::to_string(TEGULA_SIM_ABI_VERSION) : "nv" + std::to_string(TEGULA_GPU_ABI_VERSION)) +
         "|sm_" + std::to_string(t.sm) + (t.archFeatures ? "a" : "");
}

} // namespace tegula::nvidia
