// compile() and emitStage(): the arrows in order. Names of targets.
#include "abi/GpuAbi.h"
#include "abi/SimAbi.h"
#include "ir/StageVerifier.h"
#include "targets/Diagnostics.h"
#include "targets/common/AsmText.h"
#include "targets/common/Frame.h"
#include "targets/common/Pipeline.h"
#include "targets/nvidia/AssignLayouts.h"
#include "targets/nvidia/Codegen.h"
#include "targets/nvidia/CopyLoads.h"
#include "targets/nvidia/Lower.h"
#include "targets/nvidia/PartitionCluster.h"
#include "targets/nvidia/PipelineLoops.h"
#include "targets/nvidia/PrefetchLoads.h"
#include "targets/nvidia/RotateDots.h"
#include "targets/nvidia/SinkWidening.h"
#include "targets/nvidia/SpecializeWarps.h"
#include "targets/nvidia/SplitTiles.h"
#include "targets/nvidia/UnderMask.h"
#include "passes/RemoveDead.h"
#include "llvm/Support/raw_ostream.h"

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

struct Compilation {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> llvm;
  std::unique_ptr<ir::Module> gpu;
  GpuKernelMeta meta;
  CompileTimes times;
};

/// What the passes over GPU IR take.
struct PassInput {
  ir::Module &module;
  const NvTarget &target;
  const NvOptions &options;
  DiagEngine *remarks;
};
struct PassRow {
  const char *name;
  void (*run)(const PassInput &in);
};
constexpr PassRow gpuPasses[] = {
    {"drop-selects-under-mask", [](const PassInput &in) { dropSelectsUnderMask(in.module); }},
    {"rotate-dots", [](const PassInput &in) { rotateDots(in.module, in.options); }},
    {"specialize-warps", [](const PassInput &in) { specializeWarps(in.module, in.target, in.options, in.remarks); }},
    {"pipeline-loops", [](const PassInput &in) { pipelineLoops(in.module, in.target, in.options, in.remarks); }},
    // What could not be copied asynchronously.
    {"prefetch-loads", [](const PassInput &in) { prefetchLoads(in.module, in.options); }},
    {"copy-loads", [](const PassInput &in) { copyLoadsToTiles(in.module); }},
    {"remove-dead", [](const PassInput &in) { removeDead(in.module); }},
    {"sink-widening", [](const PassInput &in) { sinkWidening(in.module); }},
};

bool compileTo(const ir::Module &module, const NvTarget &target, NvOptions options, Stage upTo, DiagEngine &diag,
               Compilation &c) {
  const ir::Function *kernel = module.kernel();
  if (!kernel) {
    diag.report(diag::noKernel, Loc{});
    return false;
  }
  const ir::StageVerifier verifier(options.verify, diag);
  if (!verifier.check(module, "the target-neutral passes") || !targets::checkExtents(*kernel->block(), diag))
    return false;
  targets::Lap lap;
  std::unique_ptr<ir::Module> part;
  if (options.numCtas > 1)
    if (part = partitionCluster(module, options.numCtas, &diag); !part)
      options.numCtas = 1;
  const char *stage = part ? "partition-cluster" : "split-tiles";
  if (!part)
    part = splitTiles(module, options.numWarps);
  if (part && !verifier.check(*part, stage))
    return false;
  c.gpu = assignLayouts(part ? *part : module, target, options, &diag);
  lap.into(c.times.layoutNs);
  if (!verifier.check(*c.gpu, "assign-layouts"))
    return false;
  for (const PassRow &pass : gpuPasses) {
    pass.run({*c.gpu, target, options, &diag});
    if (!verifier.check(*c.gpu, pass.name))
      return false;
  }
  lap.into(c.times.passesNs);
  if (upTo == Stage::Gpu)
    return true;
  c.machine = createTargetMachine(target, options, diag);
  if (!c.machine)
    return false;
  targets::CodegenMessages::install(c.context);
  c.llvm = std::make_unique<llvm::Module>(kernel->name, c.context);
  c.llvm->setTargetTriple(c.machine->getTargetTriple().str());
  c.llvm->setDataLayout(c.machine->createDataLayout());
  if (!lower(*c.gpu, target, options, *c.llvm, c.meta, diag))
    return false;
  const bool verifies = options.verify || ir::verifiesAlways;
  if (verifies && !targets::verifyModule(*c.llvm, "before optimization", kernel->loc, diag))
    return false;
  lap.into(c.times.lowerNs);
  // Nothing can run it: what it needs, and for what, is the answer.
  if (options.codeless || (upTo == Stage::Object && c.meta.sharedBytes > target.sharedLimit()))
    return true;
  optimize(*c.llvm, *c.machine, options);
  lap.into(c.times.optimizeNs);
  return !verifies || targets::verifyModule(*c.llvm, "after optimization", kernel->loc, diag);
}

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

std::string targetKey(const NvTarget &t) {
  return (t.simulate ? "sim" + std::to_string(TEGULA_SIM_ABI_VERSION) : "nv" + std::to_string(TEGULA_GPU_ABI_VERSION)) + "|sm_" +
         std::to_string(t.sm) + (t.archFeatures ? "a" : "");
}

std::optional<GpuKernel> compile(const ir::Module &module, const NvTarget &target, const NvOptions &options, DiagEngine &diag) {
  Compilation c;
  if (!compileTo(module, target, options, Stage::Object, diag, c))
    return std::nullopt;
  GpuKernel kernel;
  targets::Lap lap;
  if (options.codeless || c.meta.sharedBytes > target.sharedLimit()) {
    kernel.code.clear();
  } else if (target.simulate) {
    kernel.code = emitObject(*c.llvm, *c.machine);
  } else {
    std::string ptx = emitPtx(*c.llvm, *c.machine);
    kernel.code.assign(ptx.c_str(), ptx.c_str() + ptx.size() + 1);
  }
  if (targets::CodegenMessages::of(c.context).report(diag))
    return std::nullopt;
  lap.into(c.times.codegenNs);
  kernel.meta = std::move(c.meta);
  kernel.times = c.times;
  return kernel;
}

std::optional<std::string> emitStage(const ir::Module &module, const NvTarget &target, const NvOptions &options, Stage stage,
                                     DiagEngine &diag) {
  Compilation c;
  if (!compileTo(module, target, options, stage, diag, c))
    return std::nullopt;
  switch (stage) {
  case Stage::Gpu:
    return ir::print(*c.gpu);
  case Stage::Llvm: {
    std::string text;
    llvm::raw_string_ostream os(text);
    c.llvm->print(os, nullptr);
    return text;
  }
  case Stage::Ptx:
  case Stage::Object:
    break;
  }
  std::string text;
  if (stage == Stage::Ptx) {
    text = emitPtx(*c.llvm, *c.machine);
  } else {
    std::vector<char> object = emitObject(*c.llvm, *c.machine);
    text.assign(object.begin(), object.end());
  }
  if (targets::CodegenMessages::of(c.context).report(diag))
    return std::nullopt;
  return text;
}

} // namespace tegula::nvidia
