// The passes of the GPU level by name and in their order: tile IR in, GPU IR out. compile() runs them, tegula-opt runs single ones on text.
//
//   partition-cluster   num_ctas > 1: tile IR of one CTA of a cluster
//   split-tiles         else; before layouts, which then are those of ordinary tiles
//   find-exchanges      before layouts, as an exchange keeps that of its operand; behind split-tiles, which would take unrolled steps for long code
//   assign-layouts      tile IR to GPU IR; all that follow change that in place
//   drop-selects-under-mask
//   rotate-dots         before the two that start copies ahead: they see one dot an iteration earlier
//   specialize-warps    before pipeline-loops, which leaves its loops alone
//   pipeline-loops
//   prefetch-loads      what could not be copied asynchronously
//   copy-loads          loads outside of the loops above
//   hoist-converts      all reads of shared memory are there now
//   remove-dead         what lost its last user above
//   sink-widening       the order of operations that it leaves is final
//   order-memory        last: places and barriers follow from that order, which code generation keeps
#pragma once
#include "gpu/TargetInfo.h"
#include "ir/StageVerifier.h"
#include <memory>
#include <span>
#include <string_view>

namespace tegula::gpu {

/// What passes are told beside the module. `options` may change: partition-cluster sets numCtas to 1 where the work cannot be shared.
struct PassInput {
  const TargetInfo &target;
  Options &options;
  DiagEngine *remarks; // may be null
};

/// One of `make` and `change` is there.
struct GpuPass {
  const char *name;
  /// The module that takes the place of `m`; null: `m` stays.
  std::unique_ptr<ir::Module> (*make)(const ir::Module &m, const PassInput &in);
  void (*change)(ir::Module &m, const PassInput &in);
  const char *summary;

  /// Changes `m`, or puts another module in its place.
  void run(std::unique_ptr<ir::Module> &m, const PassInput &in) const;
};
std::span<const GpuPass> gpuPasses();
/// Null: there is none of that name.
const GpuPass *findGpuPass(std::string_view name);

/// Those of a row, or those up to the one named `last`. Null if `verifier` refused what a pass made: no further pass has seen it, and the reason has been reported.
std::unique_ptr<ir::Module> runPasses(std::span<const GpuPass> passes, const ir::Module &module, const PassInput &in, const ir::StageVerifier &verifier,
                                      std::string_view last = {});
/// The same for all of the level.
inline std::unique_ptr<ir::Module> runGpuPasses(const ir::Module &module, const PassInput &in, const ir::StageVerifier &verifier, std::string_view last = {}) {
  return runPasses(gpuPasses(), module, in, verifier, last);
}

} // namespace tegula::gpu
