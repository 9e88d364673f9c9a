// The NVIDIA target: from tile IR to PTX (or to code for the simulator), one function per arrow.
//
//   ir::Module --passes of src/gpu--> GPU IR (layouts in the types) --lower--> LLVM IR --codegen--> PTX | object
// compile() runs them all; the result of each arrow can be printed (Stage). Thread-safe: no global mutable state, one
// LLVMContext per call. Assembling PTX needs a library of the CUDA driver or toolkit, so the runtime does it
// (runtime/cuda).
#pragma once
#include "support/Diag.h"
#include "targets/Meta.h"
#include "targets/Options.h"
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace tegula {
class AxisFacts;
}

namespace tegula::nvidia {

using namespace gpu; // the level that this target lowers

/// What code is generated for.
struct NvTarget {
  unsigned sm = 90;          // compute capability: 80, 86, 89, 90
  bool archFeatures = true;  // sm_90a: wgmma, setmaxnreg
  bool simulate = false;     // code for src/sim on the host instead of PTX
  static constexpr unsigned lanes = 32; // threads of a warp
  /// Maximum bytes of shared memory per block.
  uint32_t sharedLimit() const { return (sm >= 90 ? 227 : sm == 80 ? 163 : 99) * 1024; }
  bool operator==(const NvTarget &) const = default;
};

/// "sm_80", "sm_86", "sm_89", "sm_90a"; "sim" (= sim:sm_90a), "sim:sm_80" ... nullopt for other names.
std::optional<NvTarget> parseTarget(std::string_view name);
std::vector<std::string> knownTargetNames();
/// The name for which parseTarget returns this target.
std::string targetName(const NvTarget &t);
/// Canonical text of everything that affects generated code; part of the cache key.
std::string targetKey(const NvTarget &t);

using targets::Depth;
using targets::Options;
using targets::TensorMap;
using GpuKernelMeta = targets::KernelMeta;

/// The context argument of keepDescriptor. It belongs to one compilation and one thread.
struct DescriptorContext {
  const NvTarget *target;
  unsigned warps, ctas; // of a program
  /// The values that feed dots in the function last queried (`dotsOf` is its body): a cache, filled once per function.
  mutable const ir::Block *dotsOf = nullptr;
  mutable std::unordered_set<const ir::Value *> feedDots;
};
/// The KeepDescriptor of this target (passes/ExpandDescriptors.h); `context` is a DescriptorContext. It keeps an access
/// whose descriptor follows from the kernel's arguments alone, so that the launch can encode it, and whose columns
/// start at multiples of 16 bytes: at others the instruction fails (docs/hopper.md §2.2). It does not keep a store of
/// a value that already has the layout of a coalesced store by pointers.
bool keepDescriptor(const ir::Op &op, const AxisFacts &facts, const void *context);

using targets::CompileTimes;
/// The code: PTX text with a final NUL, or a relocatable ELF object for the simulator (abi/SimAbi.h).
using GpuKernel = targets::Compiled;

enum class Stage : uint8_t { Gpu, Llvm, Ptx, Object };

/// Compiles the module's kernel. On failure it reports the reason to `diag` and returns nullopt. `module` does not
/// change.
std::optional<GpuKernel> compile(const ir::Module &module, const NvTarget &target, const Options &options,
                                 DiagEngine &diag);
/// The text of one stage, for `tegula compile --emit gpu|llvm|ptx`. `lastPass` (Stage::Gpu only): the pass to stop
/// after (Passes.h).
std::optional<std::string> emitStage(const ir::Module &module, const NvTarget &target, const Options &options,
                                     Stage stage, DiagEngine &diag, std::string_view lastPass = {});

} // namespace tegula::nvidia
