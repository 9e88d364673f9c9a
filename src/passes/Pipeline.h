// The passes that every target runs first, in their order.
//
//   mergeArguments   first: every later pass compares accesses by their arguments
//   inlineCalls      every later pass looks at one function at a time
//   padTiles         every later pass sees extents that are powers of two
//   simplify         cleans up after sema: constants, copies, branches on compile-time values; small IR for the rest
//   expandDescriptors  after the first simplify, before passes that move addresses; simplify again if needed
//   widenOffsets     for launches with large tensors, and for accesses through pointers cast to smaller elements;
//                    after passes that make addresses, before those that move them; simplify again
//   affineCarried    needs canonical offsets (splats as splats) and no dead carried values
//   simplify         merges the new scalar inductions, folds their splats
//   hoistInvariants  after merging, so that it hoists one copy; after affineCarried, whose steps it hoists
//   simplify         merges equal operations hoisted out of different loops
// Every pass is close to linear in the number of operations and none depends on the extents of tiles.
#pragma once
#include "ir/StageVerifier.h"
#include "passes/ExpandDescriptors.h"
#include <functional>
#include <span>
#include <string_view>

namespace tegula {

void runPipeline(ir::Module &m);
/// The same for a target that has instructions for some accesses through descriptors. False if `verifier` rejected the
/// module after a pass: no further pass has run. `wide`: some tensor may have bigTensorElements or more, see
/// WidenOffsets.h.
bool runPipeline(ir::Module &m, KeepDescriptor keep, const void *target = nullptr,
                 const ir::StageVerifier &verifier = {}, bool wide = false);

/// Runs passes on a module, one by one, and verifies it after each. To reproduce the input of a pass that breaks a
/// rule, it reruns the earlier passes on a copy of the initial module: so only verified compilations pay, and they pay
/// for one copy.
class PassRunner {
public:
  PassRunner(ir::Module &m, const ir::StageVerifier &verifier);
  ~PassRunner();
  PassRunner(const PassRunner &) = delete;
  /// False if `verifier` rejected the module after the pass; no further pass may run then. `name` must outlive the
  /// runner.
  bool run(const char *name, std::function<void(ir::Module &)> pass);

private:
  ir::Reproducer reproducer() const;
  struct Step {
    const char *name;
    std::function<void(ir::Module &)> pass;
  };
  ir::Module &m_;
  const ir::StageVerifier &verifier_;
  std::unique_ptr<ir::Module> start_; // null if no reproducers are written
  std::vector<Step> steps_;
};

/// The passes by name ("inline-calls", "simplify", ...), for tegula-opt and tests.
struct PassEntry {
  const char *name;
  void (*run)(ir::Module &m);
  const char *summary;
};
std::span<const PassEntry> allPasses();
const PassEntry *findPass(std::string_view name);

} // namespace tegula
