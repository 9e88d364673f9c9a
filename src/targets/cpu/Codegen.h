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

/// What VecEmitter has to know.
targets::VecTarget vecTarget(const CpuTarget &t, const Options &o);
/// Null (and a diagnostic) if LLVM cannot make code for the target. Initializes only the LLVM targets it needs, once
/// per process.
std::unique_ptr<llvm::TargetMachine> createTargetMachine(const CpuTarget &t, const Options &o, DiagEngine &diag);
/// Cleans up IR that is already vectorized and scheduled by us: no loop vectorizer, no idiom recognition, little else.
/// In place.
void optimize(llvm::Module &m, llvm::TargetMachine &tm, const Options &o);
std::vector<char> emitObject(llvm::Module &m, llvm::TargetMachine &tm);
std::string emitAssembly(llvm::Module &m, llvm::TargetMachine &tm);

} // namespace tegula::cpu
