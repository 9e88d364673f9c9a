// The LLVM part of the NVIDIA target: target machine, optimizer pipeline, PTX text or a host object for the simulator.
#pragma once
#include "support/Diag.h"
#include "targets/common/Vec.h"
#include "targets/nvidia/Nvidia.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"
#include <memory>

namespace tegula::nvidia {

using targets::VecEmitter;

/// The facts that VecEmitter needs about the GPU, or about the host that simulates it.
targets::VecTarget vecTarget(const NvTarget &t, const Options &o);
/// LLVM's name of the host processor that simulated kernels are compiled for; part of their cache key.
const char *simulatorCpu();
/// NVPTX for sm_XX, or the host for the simulator. Null after a report to `diag`.
std::unique_ptr<llvm::TargetMachine> createTargetMachine(const NvTarget &t, const Options &o, DiagEngine &diag);

/// Launch bounds and limits of an entry point. GPUs only; the simulator takes them from GpuKernelMeta.
struct KernelBounds {
  unsigned threads = 128;    // exactly, per CTA
  unsigned minCtasPerSm = 0; // 0: unstated; without it or maxRegisters, ptxas ignores setmaxnreg
  unsigned maxRegisters = 0; // 0: no limit
  unsigned clusterCtas = 1;
  unsigned firstMap = 0, maps = 0; // parameters that are tensor maps: 128 bytes each, in the parameter space
};
/// Makes `f` (void, arguments as in abi/GpuAbi.h) an entry point.
void markKernel(llvm::Function &f, const KernelBounds &bounds);

/// Runs the function pipeline with the target machine's analyses (convergence: no pass makes a convergent operation
/// conditional or duplicates it). Call emitPtx or emitObject afterwards: until then LLVM caches annotations of the
/// module.
void optimize(llvm::Module &m, llvm::TargetMachine &tm, const Options &o);
std::string emitPtx(llvm::Module &m, llvm::TargetMachine &tm);
std::vector<char> emitObject(llvm::Module &m, llvm::TargetMachine &tm);

} // namespace tegula::nvidia
