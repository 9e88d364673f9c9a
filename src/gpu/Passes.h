// The passes of the GPU level by name and in order: tile IR in, GPU IR out. compile() runs all of them, tegula-opt runs
// single ones on text. Passes.cpp has the table, with the reason for the position of each pass.
#pragma once
#include "gpu/TargetInfo.h"
#include "ir/StageVerifier.h"
#include "support/LaunchForms.h"
#include <memory>
#include <span>
#include <string_view>

namespace tegula::gpu {

struct LoopRows; // loops/HoldRows.h

/// The inputs of passes besides the module. Passes may change `options`: partition-cluster sets numCtas to 1 where the
/// work cannot be shared, and to more where it chooses a cluster. `facts`: facts of the launches that the code is
/// compiled for; null if none are known, or if there are no forms for other launches. A pass that decides by `facts`
/// records the decision in `forms` (loops/PrefetchLoads.h).
struct PassInput {
  const TargetInfo &target;
  Options &options;
  DiagEngine *remarks;       // may be null
  LoopRows *rows = nullptr;  // facts about rows that loops read again; may be null
  const LaunchFacts *facts = nullptr;
  LaunchForms *forms = nullptr; // set where facts are
};

/// A pass has either `make` or `change`; the other one is null.
struct GpuPass {
  const char *name;
  /// Returns the module that replaces `m`; null: `m` stays.
  std::unique_ptr<ir::Module> (*make)(const ir::Module &m, const PassInput &in);
  void (*change)(ir::Module &m, const PassInput &in);
  const char *summary;

  /// What the pass needs and the module does not have, as a phrase without a full stop ("a kernel"); null: the pass can
  /// run.
  const char *missing(const ir::Module &m) const;
  /// Changes or replaces `m`. Only if nothing is missing().
  void run(std::unique_ptr<ir::Module> &m, const PassInput &in) const;
};
std::span<const GpuPass> gpuPasses();
/// Null if no pass has that name.
const GpuPass *findGpuPass(std::string_view name);

/// Runs `passes` in order, up to the one named `last` if there is one. Null if `verifier` rejected the result of a
/// pass: it has reported the reason, and no later pass has run.
std::unique_ptr<ir::Module> runPasses(std::span<const GpuPass> passes, const ir::Module &module, const PassInput &in,
                                      const ir::StageVerifier &verifier, std::string_view last = {});
/// The same for all passes of the level.
inline std::unique_ptr<ir::Module> runGpuPasses(const ir::Module &module, const PassInput &in,
                                                const ir::StageVerifier &verifier, std::string_view last = {}) {
  return runPasses(gpuPasses(), module, in, verifier, last);
}

} // namespace tegula::gpu
