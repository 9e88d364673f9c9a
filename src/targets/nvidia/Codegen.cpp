// See Codegen.h.
#include "targets/nvidia/Codegen.h"
#include "targets/Diagnostics.h"
#include "targets/common/Pipeline.h"
#include "targets/nvidia/passes/AssemblerForms.h"
#include "targets/nvidia/passes/RenewMasks.h"
#include "targets/nvidia/passes/Reorder.h"
#include "targets/nvidia/passes/UnrollLoops.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Transforms/AggressiveInstCombine/AggressiveInstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Utils/LCSSA.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"

namespace tegula::nvidia {
namespace {

// The first PTX with everything the instruction layer uses (fp8 mma.sync is the newest); CUDA 12.4 reads it.
constexpr const char *ptxVersion = "+ptx84";

bool hostIsX86() {
#if defined(__x86_64__)
  return true;
#else
  return false;
#endif
}

bool hostHasFma() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#else
  return true;
#endif
}

/// Does it call the matrix units? They are inline assembly, or intrinsics.
bool hasProducts(const llvm::Function &f) {
  for (const llvm::Instruction &i : llvm::instructions(f)) {
    const auto *call = llvm::dyn_cast<llvm::CallBase>(&i);
    const auto *text = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
    if (text ? text->getAsmString().find("mma") != std::string::npos
             : call && call->getCalledFunction() && call->getCalledFunction()->getName().contains("mma"))
      return true;
  }
  return false;
}

} // namespace

const char *simulatorCpu() { return !hostIsX86() ? "generic" : hostHasFma() ? "x86-64-v3" : "x86-64"; }

targets::VecTarget vecTarget(const NvTarget &t, const Options &o) {
  if (!t.simulate)
    return {.nvptx = true,
            .gpu = true,
            .fma = true,
            .f16c = true,
            .fp8 = t.sm >= 89,
            .libm = false,
            .fpFusion = o.fpFusion,
            .keepsSubnormals = o.keepsSubnormals};
  bool x86 = hostIsX86(), modern = hostHasFma();
  return {.x86 = x86,
          .aarch64 = !x86,
          .gpu = true,
          .fma = modern,
          .f16c = modern,
          .avx2 = x86 && modern,
          .fpFusion = o.fpFusion};
}

std::unique_ptr<llvm::TargetMachine> createTargetMachine(const NvTarget &t, const Options &o, DiagEngine &diag) {
  targets::MachineSpec spec;
  spec.optLevel = o.optLevel;
  if (t.simulate) {
    spec.triple = hostIsX86() ? "x86_64-unknown-linux-gnu" : "aarch64-unknown-linux-gnu";
    spec.cpu = simulatorCpu();
  } else {
    spec.triple = "nvptx64-nvidia-cuda";
    spec.cpu = "sm_" + std::to_string(t.sm) + (t.sm == 90 && t.archFeatures ? "a" : "");
    spec.features = ptxVersion;
  }
  auto machine = targets::createMachine(spec);
  if (!machine)
    diag.report(diag::noCodegenForTarget, {}, spec.triple);
  else if (t.simulate)
    // The simulator's own functions are where its time goes: code that is made in half the time runs no slower in them
    // (a matmul of 512: 0.55 s either way). The passes on the IR are the GPU's.
    machine->setOptLevel(llvm::CodeGenOptLevel::None);
  return machine;
}

void markKernel(llvm::Function &f, const KernelBounds &bounds) {
  f.setCallingConv(llvm::CallingConv::PTX_Kernel);
  llvm::LLVMContext &context = f.getContext();
  llvm::Type *i32 = llvm::Type::getInt32Ty(context);
  llvm::NamedMDNode *list = f.getParent()->getOrInsertNamedMetadata("nvvm.annotations");
  auto add = [&](const char *name, unsigned value) {
    list->addOperand(llvm::MDNode::get(context, {llvm::ValueAsMetadata::get(&f), llvm::MDString::get(context, name),
                                                 llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(i32, value))}));
  };
  add("reqntidx", bounds.threads);
  if (bounds.minCtasPerSm)
    add("minctasm", bounds.minCtasPerSm);
  if (bounds.maxRegisters)
    add("maxnreg", bounds.maxRegisters);
  if (bounds.clusterCtas > 1)
    add("maxclusterrank", bounds.clusterCtas); // the size itself comes with the launch
  if (!bounds.maps)
    return;
  // Tensor maps lie in the parameters themselves, where TMA reads them.
  llvm::SmallVector<llvm::Metadata *, 8> constant;
  llvm::Type *map = llvm::ArrayType::get(llvm::Type::getInt8Ty(context), 128);
  for (unsigned i = bounds.firstMap; i < bounds.firstMap + bounds.maps; ++i) {
    f.addParamAttr(i, llvm::Attribute::getWithByValType(context, map));
    f.addParamAttr(i, llvm::Attribute::getWithAlignment(context, llvm::Align(64)));
    constant.push_back(llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(i32, i + 1)));
  }
  list->addOperand(
      llvm::MDNode::get(context, {llvm::ValueAsMetadata::get(&f), llvm::MDString::get(context, "grid_constant"),
                                  llvm::MDNode::get(context, constant)}));
}

/// Does it add up bytes by a product, the last step where programs count the bits of a word by hand?
static bool addsBytes(const llvm::Module &m) {
  return llvm::any_of(m, [](const llvm::Function &f) {
    return llvm::any_of(llvm::instructions(f), [](const llvm::Instruction &i) {
      const auto *ones =
          i.getOpcode() == llvm::Instruction::Mul ? llvm::dyn_cast<llvm::ConstantInt>(i.getOperand(1)) : nullptr;
      return ones && ones->getValue() == llvm::APInt::getSplat(ones->getBitWidth(), llvm::APInt(8, 1)) &&
             ones->getBitWidth() >= 32;
    });
  });
}

void optimize(llvm::Module &m, llvm::TargetMachine &tm, const Options &o) {
  llvm::FunctionPassManager cleanup = targets::cleanupPasses(o.optLevel);
  if (o.optLevel > 0)
    cleanup.addPass(FindShortLoops());
  if (o.optLevel > 0 && addsBytes(m))
    cleanup.addPass(llvm::AggressiveInstCombinePass());
  targets::runPipeline(m, tm, std::move(cleanup));
  if (o.optLevel > 0 && hasWantedCopies(m)) {
    llvm::FunctionPassManager fpm;
    fpm.addPass(llvm::LoopSimplifyPass());
    fpm.addPass(llvm::LCSSAPass());
    fpm.addPass(UnrollLoops());
    fpm.addPass(llvm::EarlyCSEPass());
    targets::runPipeline(m, tm, std::move(fpm));
  }
  targets::rotateLoopsOfLarge(m, tm);
  if (tm.getTargetTriple().isNVPTX())
    for (llvm::Function &f : m)
      renewMasks(f);
  // What kernels of usual tiles have stays as it was measured; the time of smaller blocks does not matter. Loops
  // without products spill less in that order where a thread has many elements:
  // Jensen-Shannon divergence of 32768 columns, 32 warps, 432 -> 224 bytes in bf16, 696 -> 184 in fp32; 16384 by 16
  // warps 152 -> 24 and 88 -> 16.
  constexpr size_t most = 2500, mostInLoops = 1000;
  for (llvm::Function &f : m)
    orderByNeed(f, most, hasProducts(f) ? most : mostInLoops);
}

std::string emitPtx(llvm::Module &m, llvm::TargetMachine &tm) {
  return replaceForAssembler(targets::emitAssemblyText(m, tm));
}

std::vector<char> emitObject(llvm::Module &m, llvm::TargetMachine &tm) { return targets::emitObjectBytes(m, tm); }

} // namespace tegula::nvidia
