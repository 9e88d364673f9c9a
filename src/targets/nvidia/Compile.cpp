// compile() and emitStage(): the arrows in order.
#include "gpu/Passes.h"
#include "gpu/Remarks.h"
#include "gpu/loops/HoldRows.h"
#include "gpu/parts/ChooseCluster.h"
#include "gpu/parts/ShareLoops.h"
#include "gpu/shared/SharedNeeds.h"
#include "ir/StageVerifier.h"
#include "targets/Diagnostics.h"
#include "targets/common/AsmText.h"
#include "targets/common/Frame.h"
#include "targets/common/Pipeline.h"
#include "targets/nvidia/Codegen.h"
#include "targets/nvidia/lower/Lower.h"
#include "targets/nvidia/occupancy/BlockForms.h"
#include "targets/nvidia/occupancy/Occupancy.h"
#include "targets/nvidia/TargetInfo.h"
#include "llvm/Support/raw_ostream.h"

namespace tegula::nvidia {

namespace {

struct Compilation {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> llvm;
  std::unique_ptr<ir::Module> gpu, withoutRows; // that which `wish` speaks of, where rows are held
  LaunchForms ahead; // what loops that load ahead ask (gpu/loops/PrefetchLoads.h)
  std::optional<BlockWish> wish;
  GpuKernelMeta meta;
  CompileTimes times;
};

uint64_t sharedBytesOf(const ir::Module &gpu) {
  uint64_t bytes = 0;
  for (const auto &[owner, range] : gpu::mostShared(*gpu.kernel()->block()))
    bytes = std::max(bytes, range.end);
  return bytes;
}

/// Do the kernel's warps part?
bool hasPartitions(const ir::Function &kernel) {
  const std::vector<ir::Op *> &ops = kernel.block()->ops;
  return ops.size() > 1 && ops[ops.size() - 2]->kind == ir::OpKind::Partitions;
}

/// Of what has been lowered: registers, blocks and clusters for the assembler, blocks and forms for launches.
void askForBlocks(Compilation &c, const Options &options, DiagEngine &diag) {
  const ir::Function &kernel = *c.gpu->kernel();
  if (!c.wish)
    c.wish = hasPartitions(kernel) ? BlockWish{.blocks = 1}
                                   : wishedBlocks(kernel, *c.gpu, options, c.meta.sharedBytes, c.ahead);
  if (c.wish->most) {
    c.meta.mostBlocks = static_cast<uint8_t>(c.wish->most);
    const auto &remark = c.wish->ctas > 1 ? diag::rowsShared : c.wish->held ? diag::rowsHeld : diag::fewerBlocks;
    diag.report(remark, gpu::userLocation(*c.gpu, *c.wish->rows), c.wish->most, c.meta.sharedBytes / 1024,
                c.wish->ctas);
  }
  if (!options.askedCrowd)
    c.meta.forms = std::move(c.wish->forms);
  markKernel(*c.llvm->getFunction(c.meta.symbol), {.threads = c.meta.threads,
                                                   .minCtasPerSm = c.wish->blocks,
                                                   .maxRegisters = options.maxRegisters,
                                                   .clusterCtas = options.numCtas,
                                                   .firstMap = static_cast<unsigned>(kernel.block()->args.size()),
                                                   .maps = static_cast<unsigned>(c.meta.tensorMaps.size())});
}

/// `last`: the GPU pass to end with, if not all are to run.
bool compileTo(const ir::Module &module, const NvTarget &target, Options options, Stage upTo, DiagEngine &diag,
               Compilation &c, std::string_view last = {}) {
  const ir::Function *kernel = module.kernel();
  if (!kernel) {
    diag.report(diag::noKernel, Loc{});
    return false;
  }
  const ir::StageVerifier verifier(options.verify, diag, options.reproducers);
  if (!verifier.check(module, "the target-neutral passes") || !targets::checkExtents(*kernel->block(), diag))
    return false;
  options.crowd = crowdOf(options.facts);
  targets::Lap lap;
  gpu::LoopRows rows;
  const LaunchFacts *facts = target.simulate ? nullptr : &options.facts;
  const auto runPasses = [&](DiagEngine *remarks, std::string_view until = {}) {
    return runGpuPasses(module, {NvTargetInfo(target), options, remarks, &rows, facts, facts ? &c.ahead : nullptr},
                        verifier, until);
  };
  c.gpu = runPasses(&diag, last);
  if (!c.gpu)
    return false;
  if (rows.bytes && last.empty()) {
    const NvTargetInfo info(target);
    const bool canShare = options.numCtas == 1 && options.clusters != Clusters::Never && info.clusterLimit() > 1 &&
                          gpu::canShareLoops(module);
    c.wish = wishedBlocks(*c.gpu->kernel(), *c.gpu, options, sharedBytesOf(*c.gpu), c.ahead, true,
                          canShare ? info.clusterLimit() : 1);
    if (!canShare && c.wish->ctas > 1) // a form that was asked for where clusters were not refused
      c.wish->ctas = 1, c.wish->blocks = c.wish->most = c.wish->held = 0;
    rows.ctas = c.wish->ctas;
    if (rows.blocks = c.wish->held; rows.blocks) {
      c.withoutRows = std::exchange(c.gpu, runPasses(nullptr));
      if (!c.gpu)
        return false;
      // not so: as it is without rows
      if (options.numCtas != c.wish->ctas || (options.numCtas > 1 && gpu::meetInLoops(*c.gpu))) {
        c.gpu = std::move(c.withoutRows);
        options.numCtas = 1;
        c.wish->blocks = c.wish->most = c.wish->held = 0;
      }
    }
  }
  lap.into(c.times.planNs);
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
  if (!target.simulate)
    askForBlocks(c, options, diag);
  const bool verifies = options.verify || ir::verifiesAlways;
  if (verifies && !targets::verifyModule(*c.llvm, "before optimization", kernel->loc, diag))
    return false;
  lap.into(c.times.emitNs);
  // Nothing can run it: what it needs, and for what, is the answer.
  if (options.depth != Depth::Code || (upTo == Stage::Object && c.meta.sharedBytes > target.sharedLimit()))
    return true;
  if (isInterrupted(options))
    return false;
  optimize(*c.llvm, *c.machine, options);
  lap.into(c.times.optimizeNs);
  if (isInterrupted(options))
    return false;
  return !verifies || targets::verifyModule(*c.llvm, "after optimization", kernel->loc, diag);
}

} // namespace

std::optional<GpuKernel> compile(const ir::Module &module, const NvTarget &target, const Options &options,
                                 DiagEngine &diag) {
  Compilation c;
  if (!compileTo(module, target, options, Stage::Object, diag, c))
    return std::nullopt;
  GpuKernel kernel;
  targets::Lap lap;
  if (options.depth != Depth::Code || c.meta.sharedBytes > target.sharedLimit()) {
    kernel.code.clear();
  } else if (target.simulate) {
    targets::CodegenMessages::of(c.context).meterFrames(*c.llvm, c.meta.stackBytes);
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

std::optional<std::string> emitStage(const ir::Module &module, const NvTarget &target, const Options &options,
                                     Stage stage, DiagEngine &diag, std::string_view lastPass) {
  Compilation c;
  if (!compileTo(module, target, options, stage, diag, c, lastPass))
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
