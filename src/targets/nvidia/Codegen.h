// LLVM's part of the NVIDIA target: target machine, optimizer pipeline, PTX text or a host object for the simulator.
#pragma once
#include "targets/nvidia/Nvidia.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"
#include <memory>

namespace tegula::nvidia {

/// NVPTX for sm_XX with the PTX version it needs, or the host for the simulator. Null after a report to `diag`.
std::unique_ptr<llvm::TargetMachine> createTargetMachine(const NvTarget &t, const NvOptions &o, DiagEngine &diag);
/// Runs the function pipeline with the target machine's analyses (divergence: no pass may make a convergent operation
/// conditional or duplicate it).
void optimize(llvm::Module &m, llvm::TargetMachine &tm, const NvOptions &o);
std::string emitPtx(llvm::Module &m, llvm::TargetMachine &tm);
std::vector<char> emitObject(llvm::Module &m, llvm::TargetMachine &tm);

} // namespace tegula::nvidia
