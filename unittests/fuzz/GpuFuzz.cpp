// Fuzzes the passes of the GPU level with texts of both levels, as tegula-opt gets them: what the verifier accepts must
// survive every pass, keep the rules of the level after each, and read back as it prints.
//
// A case may begin with a line that says how it is compiled and which pass is the first (else: all, with defaults):
//   # gpu: sm_90a warps 4 stages 3 ctas 1 from pipeline-loops
#include "IrRoundTrip.h"
#include "gpu/Passes.h"
#include "ir/Verifier.h"
#include "targets/nvidia/TargetInfo.h"
#include <cstdio>

using namespace tegula;

namespace {

struct Setting {
  nvidia::NvTarget target = *nvidia::parseTarget("sm_90a");
  gpu::Options options;
  std::string from = "partition-cluster";
};

Setting settingOf(const std::string &text) {
  Setting s;
  char target[16], from[32];
  gpu::Options o;
  if (std::sscanf(text.c_str(), "# gpu: %15s warps %u stages %u ctas %u from %31s", target, &o.numWarps, &o.numStages,
                  &o.numCtas, from) != 5)
    return s;
  if (auto t = nvidia::parseTarget(target))
    s.target = *t;
  if (o.valid()) // others tegula-opt does not let in
    s.options = o;
  s.from = from;
  return s;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > 20000)
    return 0;
  std::string text(reinterpret_cast<const char *>(data), size);
  std::unique_ptr<ir::Module> m = fuzz::parsed(text);
  if (!m)
    return 0;
  Setting s = settingOf(text);
  const nvidia::NvTargetInfo target(s.target);
  bool begun = false;
  for (const gpu::GpuPass &pass : gpu::gpuPasses()) {
    begun |= s.from == pass.name;
    if (!begun || pass.missing(*m))
      continue;
    DiagEngine remarks;
    pass.run(m, {target, s.options, &remarks});
    std::string why;
    fuzz::check(ir::verify(*m, &why), std::string("after ") + pass.name + ": " + why);
  }
  fuzz::readBack(*m);
  return 0;
}
