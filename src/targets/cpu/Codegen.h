// From LLVM IR to object code: target machine, pass pipeline, emission. The only place that runs LLVM passes for CPUs.
#pragma once
#include "support/Diag.h"
#include "targets/common/Vec.h"
#include "targets/cpu/Cpu.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"
#include <memory>

namespace tegula::cpu {

using targets::VecEmitter;

/// The facts about the target and the options that VecEmitter needs.
targets::VecTarget vecTarget(const CpuTarget &t, const Options &o);
/// Returns null and reports a diagnostic if LLVM cannot generate code for the target. Initializes only the LLVM targets
/// it needs, once per process.
std::unique_ptr<llvm::TargetMachine> createTargetMachine(const CpuTarget &t, const Options &o, DiagEngine &diag);
/// Cleans up, in place, IR that the emitter has already vectorized and scheduled: no loop vectorizer, no idiom
/// recognition, few other passes.
void optimize(llvm::Module &m, llvm::TargetMachine &tm, const Options &o);
std::vector<char> emitObject(llvm::Module &m, llvm::TargetMachine &tm);
std::string emitAssembly(llvm::Module &m, llvm::TargetMachine &tm);

} // namespace tegula::cpu
