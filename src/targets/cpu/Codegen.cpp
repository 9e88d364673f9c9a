// See Codegen.h. Emitted objects are position independent with the small code model, so that a loader needs only the
// PC-relative and the 64-bit absolute relocations.
#include "targets/cpu/Codegen.h"
#include "targets/Diagnostics.h"
#include "targets/common/CutFunctions.h"
#include "targets/common/Pipeline.h"

namespace tegula::cpu {
targets::VecTarget vecTarget(const CpuTarget &t, const Options &o) {
  bool x86 = t.triple.starts_with("x86_64");
  return {.x86 = x86,
          .aarch64 = !x86,
          .fma = t.fma,
          .f16c = t.f16c,
          .avx2 = t.avx2,
          .avx512 = t.avx512,
          .fpFusion = o.fpFusion};
}

std::unique_ptr<llvm::TargetMachine> createTargetMachine(const CpuTarget &t, const Options &o, DiagEngine &diag) {
  auto machine = targets::createMachine({t.triple, t.cpu, t.features, o.optLevel});
  if (!machine)
    diag.report(diag::noCodegenForTarget, {}, t.triple);
  return machine;
}

void optimize(llvm::Module &m, llvm::TargetMachine &tm, const Options &o) {
  targets::runPipeline(m, tm, targets::cleanupPasses(o.optLevel));
  // A debugger looks for the variables of a kernel in its frame.
  if (o.optLevel > 0 && !o.debugInfo)
    targets::cutLargeFunctions(m);
}

std::vector<char> emitObject(llvm::Module &m, llvm::TargetMachine &tm) { return targets::emitObjectBytes(m, tm); }

std::string emitAssembly(llvm::Module &m, llvm::TargetMachine &tm) { return targets::emitAssemblyText(m, tm); }

} // namespace tegula::cpu
