// The NVIDIA target: from tile IR to PTX (or to code for the simulator), one function per arrow.
//
//   ir::Module --passes of src/gpu--> GPU IR (layouts in the types) --lower--> LLVM IR --codegen--> PTX | object
// compile() runs them all; each arrow can be printed (Stage). Thread-safe: no global mutable state, one LLVMContext a call.
// Assembling PTX needs a library of the CUDA driver or toolkit and so belongs to the runtime (runtime/cuda), not here.
#pragma once
#include "gpu/TargetInfo.h"
#include "support/Diag.h"
#include "targets/Meta.h"
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
  /// Most bytes of shared memory that a block can have.
  uint32_t sharedLimit() const { return (sm >= 90 ? 227 : sm == 80 ? 163 : 99) * 1024; }
  bool operator==(const NvTarget &) const = default;
};

/// "sm_80", "sm_86", "sm_89", "sm_90a"; "sim" (= sim:sm_90a), "sim:sm_80" ... nullopt for other names.
std::optional<NvTarget> parseTarget(std::string_view name);
std::vector<std::string> knownTargetNames();
/// The name that parseTarget takes for it.
std::string targetName(const NvTarget &t);
/// Canonical text of everything that changes generated code; part of the cache key.
std::string targetKey(const NvTarget &t);

struct NvOptions : Options {
  bool fpFusion = true;
  bool debugInfo = false;
  bool checked = true;     // simulator only: checks of accesses are always on there
  unsigned optLevel = 3;
  bool verify = false;     // the module after every stage, and LLVM's before and after its optimizer; builds with assertions always do
  std::string reproducers; // the folder for modules that a pass broke a rule with (ir/StageVerifier.h); "": they are not written
  bool codeless = false;   // compile() gives everything but the code, in a few hundredths of the time
};

/// One tensor map (TMA descriptor) that the runtime encodes at launch and appends to the packed arguments; at most 16 (runtime/TensorMaps.h).
///
/// Map i lies 64-byte aligned at mapsOffset + i * 128 of the argument block, mapsOffset being argBytes rounded up to 64; the
/// record pointer comes after the last map. Dimensions are in the language's order, outermost first.
struct TensorMap {
  /// A number that is known when the kernel is launched: the product of a constant and what is given of the others.
  struct Term {
    int32_t arg = -1;      // index into GpuKernelMeta::args (an integer of any width, sign-extended, or the base pointer)
    int64_t value = 1;
    int32_t gridAxis = -1; // the number of programs along this axis
    int32_t arg2 = -1;     // another argument
    bool operator==(const Term &) const = default;
  };
  ir::Elem elem = ir::Elem::F32;
  bool isSigned = true;       // of integers: decides minimum and maximum
  bool nanFill = false;       // what is out of range reads as NaN instead of 0; not for elements of 8 bits, which are bytes to the hardware
  bool roundTf32 = false;     // f32 is rounded to tf32 on the way
  uint8_t swizzle = 0;        // span in bytes: 0, 32, 64 or 128
  uint8_t merged = 1;         // so many neighbours of the last dimension count as one element of 8 bytes: in the box, the extent and coordinates
  Term base;                  // must be an argument
  std::vector<Term> extents;  // as many as dimensions
  std::vector<Term> strides;  // in elements, all dimensions; the last one is the constant 1
  std::vector<uint32_t> box;  // elements of one copy along each dimension, at most 256
  bool operator==(const TensorMap &) const = default;
};

/// Everything the runtime must know about a compiled kernel. Serialized into the cache.
struct GpuKernelMeta {
  std::string symbol;        // entry: .entry in PTX, TegulaSimEntry in an object
  std::vector<targets::ArgSlot> args;
  uint32_t argBytes = 0;     // packed arguments without the record pointer
  uint32_t threads = 128;    // per CTA
  uint32_t clusterCtas = 1;
  uint64_t sharedBytes = 0;  // dynamic shared memory per CTA; more than NvTarget::sharedLimit(): the code is empty
  std::vector<targets::SharedTile> sharedTiles; // largest first, as far as they explain sharedBytes
  bool cooperative = false, programmaticLaunch = false;
  std::vector<targets::Site> sites;
  std::vector<TensorMap> tensorMaps;
};

/// What keepDescriptor is given: of one compilation, in one thread.
struct DescriptorContext {
  const NvTarget *target;
  unsigned warps, ctas; // of a program
  /// Of which values a dot is computed, in the function that was asked about last (`dotsOf`, by its body): looked for once.
  mutable const ir::Block *dotsOf = nullptr;
  mutable std::unordered_set<const ir::Value *> feedDots;
};
/// The KeepDescriptor of this target (passes/ExpandDescriptors.h); `context` is a DescriptorContext. Kept are accesses whose descriptor follows from
/// the kernel's arguments alone, so that the launch can encode it, and whose columns start at multiples of 16 bytes: at others the
/// instruction fails (docs/hopper.md §2.2). Stores only of values that do not live where a coalesced store by pointers wants them anyway.
bool keepDescriptor(const ir::Op &op, const AxisFacts &facts, const void *context);

/// Nanoseconds.
struct CompileTimes {
  uint64_t passesNs = 0, lowerNs = 0, optimizeNs = 0, codegenNs = 0;
};

struct GpuKernel {
  std::vector<char> code; // PTX text with a final NUL, or a relocatable ELF object for the simulator (abi/SimAbi.h)
  GpuKernelMeta meta;
  CompileTimes times;
};

enum class Stage : uint8_t { Gpu, Llvm, Ptx, Object };

/// Compiles the module's kernel. On failure the reason has been reported to `diag` and nullopt comes back.
/// `module` is read only.
std::optional<GpuKernel> compile(const ir::Module &module, const NvTarget &target, const NvOptions &options,
                                 DiagEngine &diag);
/// The text of one stage, for `tegula compile --emit gpu|llvm|ptx`. `lastPass`, of Stage::Gpu alone: the pass to stop behind (Passes.h).
std::optional<std::string> emitStage(const ir::Module &module, const NvTarget &target, const NvOptions &options,
                                     Stage stage, DiagEngine &diag, std::string_view lastPass = {});

} // namespace tegula::nvidia
