// The passes of the GPU level by name and in their order: tile IR in, GPU IR out. compile() runs them, tegula-opt runs
// single ones on text. Passes.cpp has the table of them, with the reason for the place of each.
#pragma once
#include "gpu/TargetInfo.h"
#include "ir/StageVerifier.h"
#include "support/LaunchForms.h"
#include <memory>
#include <span>
#include <string_view>

namespace tegula::gpu {

struct LoopRows; // loops/HoldRows.h

/// What passes are told beside the module. `options` may change: partition-cluster sets numCtas to 1 where the work
/// cannot be shared, and to more where it chooses a cluster.
/// `facts`: of the launches that code is made for, null if none are known or there are no forms for others; what a pass
/// decides by them it says in `forms` then (loops/PrefetchLoads.h).
struct PassInput {
  const TargetInfo &target;
  Options &options;
  DiagEngine *remarks;       // may be null
  LoopRows *rows = nullptr;  // what is known of rows that loops read again; may be null
  const LaunchFacts *facts = nullptr;
  LaunchForms *forms = nullptr; // set where facts are
};

/// One of `make` and `change` is there.
struct GpuPass {
  const char *name;
  /// The module that takes the place of `m`; null: `m` stays.
  std::unique_ptr<ir::Module> (*make)(const ir::Module &m, const PassInput &in);
  void (*change)(ir::Module &m, const PassInput &in);
  const char *summary;

  /// What the pass needs and the module does not have, as text without an end ("a kernel"); null: it can be run.
  const char *missing(const ir::Module &m) const;
  /// Changes `m`, or puts another module in its place. Only if nothing is missing().
  void run(std::unique_ptr<ir::Module> &m, const PassInput &in) const;
};
std::span<const GpuPass> gpuPasses();
/// Null: there is none of that name.
const GpuPass *findGpuPass(std::string_view name);

/// Those of a row, or those up to the one named `last`. Null if `verifier` refused what a pass made: no further pass
/// has seen it, and the reason has been reported.
std::unique_ptr<ir::Module> runPasses(std::span<const GpuPass> passes, const ir::Module &module, const PassInput &in,
                                      const ir::StageVerifier &verifier, std::string_view last = {});
/// The same for all of the level.
inline std::unique_ptr<ir::Module> runGpuPasses(const ir::Module &module, const PassInput &in,
                                                const ir::StageVerifier &verifier, std::string_view last = {}) {
  return runPasses(gpuPasses(), module, in, verifier, last);
}

} // namespace tegula::gpu
