// See Pipeline.h.
#include "targets/common/Pipeline.h"
#include "targets/Diagnostics.h"
#include "targets/common/ForwardProxies.h"
#include "targets/common/Scheduler.h"
#include "targets/common/ShareExtensions.h"
#include "targets/common/SplitBlocks.h"
#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/BasicAliasAnalysis.h"
#include "llvm/Analysis/BlockFrequencyInfo.h"
#include "llvm/Analysis/BranchProbabilityInfo.h"
#include "llvm/Analysis/InstructionSimplify.h"
#include "llvm/Analysis/MemorySSA.h"
#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/Analysis/PostDominators.h"
#include "llvm/Analysis/ProfileSummaryInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScopedNoAliasAA.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/Analysis/TypeBasedAliasAnalysis.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/InstSimplifyPass.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Vectorize/LoadStoreVectorizer.h"
#include "llvm/Transforms/Utils/LCSSA.h"
#include "llvm/Transforms/Utils/LoopRotationUtils.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include <cassert>
#include <cstdlib>
#include <mutex>
#include <sys/mman.h>
#include <utility>

namespace tegula::targets {

llvm::LoopInfo SmallLoops::run(llvm::Function &f, llvm::FunctionAnalysisManager &am) {
  llvm::LoopInfo info(am.getResult<llvm::DominatorTreeAnalysis>(f));
  // What is around a large loop is larger, and comes before it: each is an outermost loop when it is erased.
  for (llvm::Loop *loop : info.getLoopsInPreorder())
    if (loop->getNumBlocks() > largest)
      info.erase(loop);
  return info;
}

namespace {

void initX86() {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeX86AsmParser(); // of inline assembly
}

void initAArch64() {
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
  LLVMInitializeAArch64AsmParser();
}

void initNvptx() {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
}

/// CodeGenPrepare goes through the whole function again for each select that it makes a branch and each division that
/// it makes two, unless the function has more than that many blocks (10,000 by default); then only through the blocks
/// that changed. Blocks may be long: 64 calls of `tl.rand` are 40 of them. LLVM has no interface to it but the option.
void boundCodeGenPrepare() {
  static std::once_flag once;
  std::call_once(once, [] {
    constexpr const char *name = "cgpp-huge-func";
    auto &options = llvm::cl::getRegisteredOptions();
    auto option = options.find(name);
    [[maybe_unused]] bool isRefused = option == options.end() || option->second->addOccurrence(0, name, "1");
    assert(!isRefused);
  });
}

// so much is mapped, rather than taken from the heap, after keepFreedMemory(), and twice as much is kept
constexpr size_t mappedBlock = size_t{16} << 20;

/// glibc gives the end of the heap back to the system as soon as 128 KiB there are free: LLVM and the assembler free
/// megabytes in each of their stages, and the kernel would clear those pages again for the next one (2 of 20 ms of a
/// small kernel). It learns by itself from the first large block that is freed (mallopt(3), M_MMAP_THRESHOLD), as a
/// program that has freed an array has taught it; options that say so would turn that off for the whole process.
void keepFreedMemory() {
  static std::once_flag once;
  std::call_once(once, [] {
    void *volatile p = std::malloc(mappedBlock);
    std::free(p);
  });
}

/// Large pages for the memory that this thread compiles in: LLVM and the assembler follow pointers through tens of
/// megabytes, which takes a twentieth longer by small pages. It is the end of the thread's heap, which
/// keepFreedMemory() has glibc keep; what nobody writes to takes no memory.
void adviseLargePages() {
  thread_local bool isDone = false;
  if (std::exchange(isDone, true))
    return;
  // smaller than what is mapped, and two are less than what is kept
  constexpr size_t page = size_t{2} << 20, half = mappedBlock - page;
  void *volatile blocks[2] = {};
  for (void *volatile &block : blocks)
    if (void *const p = std::malloc(half)) {
      block = p;
      const uintptr_t at = llvm::alignTo(reinterpret_cast<uintptr_t>(p), page),
                      end = llvm::alignDown(reinterpret_cast<uintptr_t>(p) + half, page);
      madvise(reinterpret_cast<void *>(at), end - at, MADV_HUGEPAGE); // a kernel without them refuses
    }
  for (void *block : blocks)
    std::free(block);
}

void initTarget(llvm::Triple::ArchType arch) {
  static std::once_flag x86, arm, nvptx;
  keepFreedMemory();
  adviseLargePages();
  chooseScheduler();
  boundCodeGenPrepare();
  switch (arch) {
  case llvm::Triple::x86_64:
    return std::call_once(x86, initX86);
  case llvm::Triple::aarch64:
    return std::call_once(arm, initAArch64);
  case llvm::Triple::nvptx64:
    return std::call_once(nvptx, initNvptx);
  default:
    return;
  }
}

llvm::CodeGenOptLevel codegenLevel(unsigned optLevel) {
  switch (optLevel) {
  case 0:
    return llvm::CodeGenOptLevel::None;
  case 1:
    return llvm::CodeGenOptLevel::Less;
  case 2:
    return llvm::CodeGenOptLevel::Default;
  default:
    return llvm::CodeGenOptLevel::Aggressive;
  }
}

struct AnalysisManagers {
  llvm::LoopAnalysisManager &loop;
  llvm::FunctionAnalysisManager &function;
  llvm::ModuleAnalysisManager &module;
};

/// What PassBuilder would register, cut down to what the pipelines need: PassBuilder links every pass of LLVM.
void registerAnalyses(llvm::TargetMachine &tm, AnalysisManagers am) {
  auto pic = [] { return llvm::PassInstrumentationAnalysis(); };
  am.module.registerPass(pic);
  am.function.registerPass(pic);
  am.loop.registerPass(pic);
  am.module.registerPass([] { return llvm::ProfileSummaryAnalysis(); });
  am.module.registerPass([&] { return llvm::FunctionAnalysisManagerModuleProxy(am.function); });
  am.function.registerPass([&] { return llvm::ModuleAnalysisManagerFunctionProxy(am.module); });
  am.function.registerPass([&] { return llvm::LoopAnalysisManagerFunctionProxy(am.loop); });
  am.loop.registerPass([&] { return llvm::FunctionAnalysisManagerLoopProxy(am.function); });

  am.function.registerPass([] { return llvm::DominatorTreeAnalysis(); });
  am.function.registerPass([] { return llvm::PostDominatorTreeAnalysis(); });
  am.function.registerPass([] { return llvm::AssumptionAnalysis(); });
  am.function.registerPass([] { return SmallLoops(); });
  am.function.registerPass([] { return llvm::ScalarEvolutionAnalysis(); });
  am.function.registerPass([] { return llvm::MemorySSAAnalysis(); });
  am.function.registerPass([] { return llvm::OptimizationRemarkEmitterAnalysis(); });
  am.function.registerPass([] { return llvm::BranchProbabilityAnalysis(); });
  am.function.registerPass([] { return llvm::BlockFrequencyAnalysis(); });
  am.function.registerPass([&] { return tm.getTargetIRAnalysis(); });
  // No call of a C function is known or may be invented: generated code links against the symbols in abi/ only.
  llvm::TargetLibraryInfoImpl tlii(tm.getTargetTriple());
  tlii.disableAllFunctions();
  am.function.registerPass([tlii] { return llvm::TargetLibraryAnalysis(tlii); });
  am.function.registerPass([] { return llvm::BasicAA(); });
  am.function.registerPass([] { return llvm::ScopedNoAliasAA(); });
  am.function.registerPass([] { return llvm::TypeBasedAA(); });
  am.function.registerPass([] {
    llvm::AAManager aa;
    aa.registerFunctionAnalysis<llvm::BasicAA>();
    aa.registerFunctionAnalysis<llvm::ScopedNoAliasAA>();
    aa.registerFunctionAnalysis<llvm::TypeBasedAA>();
    return aa;
  });
}

} // namespace

llvm::FunctionPassManager cleanupPasses(unsigned optLevel) {
  llvm::FunctionPassManager fpm;
  fpm.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  if (optLevel == 0)
    return fpm;
  // No InstCombine: it costs more than all others, and it narrows float arithmetic on extended f16 to `half`, which
  // x86 then computes lane by lane. What is left of its work, instruction selection does.
  fpm.addPass(llvm::EarlyCSEPass());
  fpm.addPass(llvm::InstSimplifyPass());
  fpm.addPass(llvm::SimplifyCFGPass());
  llvm::LoopPassManager lpm;
  lpm.addPass(llvm::LICMPass(llvm::LICMOptions()));
  fpm.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(lpm), /*UseMemorySSA=*/true));
  fpm.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  return fpm;
}

namespace {

/// llvm::LoopRotatePass, but for the dominator tree, which that brings up to date after each loop: in a row of loops
/// the tree is as deep as the row is long, and each update goes down from the loop.
struct RotateLoops : llvm::PassInfoMixin<RotateLoops> {
  llvm::PreservedAnalyses run(llvm::Function &f, llvm::FunctionAnalysisManager &am) {
    auto &loops = am.getResult<llvm::LoopAnalysis>(f);
    auto &target = am.getResult<llvm::TargetIRAnalysis>(f);
    auto &assumptions = am.getResult<llvm::AssumptionAnalysis>(f);
    const llvm::SimplifyQuery query(f.getDataLayout());
    constexpr unsigned headerSize = 16; // as LLVM's pass
    auto inner = loops.getLoopsInPreorder();
    for (llvm::Loop *loop : llvm::reverse(inner))
      llvm::LoopRotation(loop, &loops, &target, &assumptions, nullptr, nullptr, nullptr, query, /*RotationOnly=*/false,
                         headerSize, /*IsUtilMode=*/false);
    return llvm::PreservedAnalyses::none();
  }
};

} // namespace

void rotateLoopsOfLarge(llvm::Module &m, llvm::TargetMachine &tm) {
  constexpr size_t blocks = 300; // a hundred loops: 0.2 s; 0.05 s rotated
  if (llvm::none_of(m, [](const llvm::Function &f) { return f.size() > blocks; }))
    return;
  llvm::FunctionPassManager fpm;
  fpm.addPass(llvm::LoopSimplifyPass());
  fpm.addPass(llvm::LCSSAPass());
  fpm.addPass(RotateLoops());
  runPipeline(m, tm, std::move(fpm));
}

std::unique_ptr<llvm::TargetMachine> createMachine(const MachineSpec &spec) {
  initTarget(llvm::Triple(spec.triple).getArch());
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(spec.triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  // Fusing is decided instruction by instruction: VecEmitter sets `contract` where the language allows it.
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  options.TrapUnreachable = false;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(spec.triple, spec.cpu, spec.features, options,
                                                                          llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                                          codegenLevel(spec.optLevel)));
}

void runPipeline(llvm::Module &m, llvm::TargetMachine &tm, llvm::FunctionPassManager passes) {
  m.setTargetTriple(tm.getTargetTriple().str());
  m.setDataLayout(tm.createDataLayout());
  llvm::LoopAnalysisManager lam;
  llvm::FunctionAnalysisManager fam;
  llvm::ModuleAnalysisManager mam;
  registerAnalyses(tm, {lam, fam, mam});
  llvm::ModulePassManager mpm;
  mpm.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  mpm.run(m, mam);
}

bool verifyModule(const llvm::Module &m, std::string_view when, Loc kernel, DiagEngine &diag) {
  std::string why;
  llvm::raw_string_ostream os(why);
  if (!llvm::verifyModule(m, &os))
    return true;
  diag.report(diag::malformedLlvm, kernel, when, why);
  return false;
}

/// Whether a debugger is told of variables: the DWARF of DebugEmitter::Kind::Full.
static bool describesVariables(const llvm::Module &m) {
  return std::any_of(m.debug_compile_units_begin(), m.debug_compile_units_end(), [](const llvm::DICompileUnit *u) {
    return u->getEmissionKind() == llvm::DICompileUnit::FullDebug;
  });
}

/// As addPassesToEmitFile, with SplitBlocks before the selection, or ShareExtensions before what prepares for it and
/// ForwardProxies after. `inSourceOrder`: without the passes that reorder instructions. A line's instructions then come
/// after the stores of the variables of the lines before it, so a breakpoint on the line prints them: scheduling models
/// (AMD's do) move copies and address arithmetic up.
static bool addPasses(llvm::LLVMTargetMachine &tm, llvm::legacy::PassManager &pm, llvm::CodeGenFileType type,
                      llvm::raw_pwrite_stream &os, bool inSourceOrder) {
  auto *machineModule = new llvm::MachineModuleInfoWrapperPass(&tm);
  llvm::TargetPassConfig *passes = tm.createPassConfig(pm);
  passes->setDisableVerify(true);
  if (inSourceOrder)
    for (char *scheduler : {&llvm::MachineSchedulerID, &llvm::PostMachineSchedulerID, &llvm::PostRASchedulerID})
      passes->disablePass(scheduler);
  const bool isGpu = tm.getTargetTriple().isNVPTX();
  if (tm.getOptLevel() != llvm::CodeGenOptLevel::None) {
    // The pass has no other name that LLVM exports.
    std::unique_ptr<llvm::Pass> prepare(llvm::createCodeGenPrepareLegacyPass());
    passes->insertPass(prepare->getPassID(), createSplitBlocksPass(isGpu ? longestBlockOfPtx : longestBlock));
  } else {
    pm.add(createSplitBlocksPass(longestBlock)); // nothing puts them together again
  }
  if (isGpu) {
    std::unique_ptr<llvm::Pass> vectorizer(llvm::createLoadStoreVectorizerPass());
    passes->insertPass(vectorizer->getPassID(), createShareExtensionsPass());
    passes->insertPass(&llvm::PeepholeOptimizerID, createForwardProxiesPass());
  }
  pm.add(passes);
  pm.add(machineModule);
  if (passes->addISelPasses())
    return true;
  passes->addMachinePasses();
  passes->setInitialized();
  if (tm.addAsmPrinter(pm, os, nullptr, type, machineModule->getMMI().getContext()))
    return true;
  pm.add(llvm::createFreeMachineFunctionPass());
  return false;
}

namespace {

using Of = SlowPass::Of;
constexpr SlowPass slow[] = {
    // X86 with AVX-512: moves chains of scalar arithmetic to mask registers. From every register it collects all that
    // are connected with it, anew:
    // 2.9 of 4.4 s for a thousand loops one after the other. Our masks are vectors from the start, so it finds nothing
    // to do.
    {"X86 Domain Reassignment Pass", Of::All},
    // In every loop it looks at all uses of what the loop gets from outside, which are in all other loops too.
    {"Loop Strength Reduction", Of::ManyBlocks},
    // Hoists the zeros that loops start from out of the loop over programs: one register for all of them, which the
    // register coalescer then goes through for each.
    {"Early Machine Loop Invariant Code Motion", Of::ManyBlocks},
    // PTX: both ask ScalarEvolution for every integer, and what a row of statements makes of one is an expression as
    // deep as the row is long:
    // 4.1 of 4.6 s for 400 integer divisions of a tile of 1024.
    {"Straight line strength reduction", Of::ManyInstructions},
    {"Nary reassociation", Of::ManyInstructions},
    // Orders a block anew after registers are known, which processors do by themselves in a window that is as wide: 1.0
    // of 5.8 s for 200 loops of attention.
    {"Post RA top-down list latency scheduler", Of::ManyInstructions},
    // For each instruction that it drops it goes through all users of the register that stays, and of the operands to
    // see whether dropping it pays; what all statements of a long kernel share has as many users. EarlyCSE has been
    // there before, and the assembler of PTX comes after it.
    {"Machine Common Subexpression Elimination", Of::FiftyThousand},
};

/// What a module has so much of that what is quadratic in it counts for more than what it gains.
struct Size {
  bool hasManyBlocks;
  unsigned length; // limits of `lengths` that the instructions exceed
};
constexpr unsigned lengths[] = {8000, 50000}; // PTX of 150 integer divisions is 8000

Size sizeOf(const llvm::Module &m) {
  constexpr size_t blocks = 2000; // some 250 loops over tiles
  size_t all = 0;                 // a large function may have been cut
  for (const llvm::Function &f : m)
    all += f.size();
  const unsigned instructions = m.getInstructionCount();
  return {.hasManyBlocks = all > blocks,
          .length =
              static_cast<unsigned>(llvm::count_if(lengths, [&](unsigned limit) { return instructions > limit; }))};
}

class SkipSlowPasses final : public llvm::OptPassGate {
public:
  explicit SkipSlowPasses(Size size) : size_(size) {}
  bool isEnabled() const override { return true; }
  bool shouldRunPass(llvm::StringRef pass, llvm::StringRef) override {
    return llvm::none_of(slow, [&](const SlowPass &p) { return p.name == pass && isLeftOut(p.of); });
  }
  /// Never changed; the context keeps the address.
  static SkipSlowPasses &forSize(Size size) {
    static SkipSlowPasses all[][std::size(lengths) + 1] = {
        {SkipSlowPasses({false, 0}), SkipSlowPasses({false, 1}), SkipSlowPasses({false, 2})},
        {SkipSlowPasses({true, 0}), SkipSlowPasses({true, 1}), SkipSlowPasses({true, 2})}};
    return all[size.hasManyBlocks][size.length];
  }

private:
  bool isLeftOut(Of of) const {
    switch (of) {
    case Of::All: return true;
    case Of::ManyBlocks: return size_.hasManyBlocks;
    case Of::ManyInstructions: return size_.length >= 1;
    case Of::FiftyThousand: return size_.length >= 2;
    }
    return false;
  }
  Size size_;
};

} // namespace

llvm::ArrayRef<SlowPass> slowPasses() { return slow; }

void emitFile(llvm::Module &m, llvm::TargetMachine &tm, llvm::CodeGenFileType type, llvm::raw_pwrite_stream &os) {
  shareExtensions(m);
  m.getContext().setOptPassGate(SkipSlowPasses::forSize(sizeOf(m)));
  llvm::legacy::PassManager pm;
  // LLVM's verifier stays off here: who wants it calls verifyModule, and it costs as much as a pass.
  bool fails =
      addPasses(static_cast<llvm::LLVMTargetMachine &>(tm), pm, type, os, /*inSourceOrder=*/describesVariables(m));
  if (fails)
    llvm::report_fatal_error("target cannot emit this file type");
  pm.run(m);
}

std::vector<char> emitObjectBytes(llvm::Module &m, llvm::TargetMachine &tm) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream os(bytes);
  emitFile(m, tm, llvm::CodeGenFileType::ObjectFile, os);
  return {bytes.begin(), bytes.end()};
}

std::string emitAssemblyText(llvm::Module &m, llvm::TargetMachine &tm) {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream os(text);
  emitFile(m, tm, llvm::CodeGenFileType::AssemblyFile, os);
  return text.str().str();
}

} // namespace tegula::targets
