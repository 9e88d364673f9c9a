// The passes every target wants, in their order. A target runs this first and then works on what is left.
//
//   mergeArguments   first: everything after compares accesses by their arguments
//   inlineCalls      everything after looks at one function at a time
//   padTiles         everything after sees extents that are powers of two
//   simplify         what sema leaves: constants, copies, branches on compile-time values; small IR for the rest
//   expandDescriptors  after the first simplify, before what moves addresses; simplify again if there were any
//   widenOffsets     for launches with large tensors, and for accesses through pointers cast to smaller elements; after what makes addresses, before what moves them; simplify again
//   affineCarried    wants canonical offsets (splats as splats) and no dead carried values
//   simplify         merges the new scalar inductions, folds the splats they made
//   hoistInvariants  after merging, so that one copy moves; after affineCarried, whose steps it moves
//   simplify         merges what came together outside the loops
// Every pass is close to linear in the number of operations and none depends on the extents of tiles.
#pragma once
#include "ir/StageVerifier.h"
#include "passes/ExpandDescriptors.h"
#include <functional>
#include <span>
#include <string_view>

namespace tegula {

void runPipeline(ir::Module &m);
/// The same for a target that has instructions for some accesses through descriptors. False if `verifier` refused what
/// a pass made of the module: no further pass has seen it. `wide`: some tensor may have bigTensorElements or more, see
/// WidenOffsets.h.
bool runPipeline(ir::Module &m, KeepDescriptor keep, const void *target = nullptr,
                 const ir::StageVerifier &verifier = {}, bool wide = false);

/// Runs passes on a module, one by one, and verifies it after each. What a pass that breaks a rule had before it is
/// made from a copy of the module as it was at the beginning, by the passes that came first: so only verified
/// compilations pay for it, and they pay a copy.
class PassRunner {
public:
  PassRunner(ir::Module &m, const ir::StageVerifier &verifier);
  ~PassRunner();
  PassRunner(const PassRunner &) = delete;
  /// False if `verifier` refused what the pass made of the module, which no further pass may see then. `name` stays.
  bool run(const char *name, std::function<void(ir::Module &)> pass);

private:
  ir::Reproducer reproducer() const;
  struct Step {
    const char *name;
    std::function<void(ir::Module &)> pass;
  };
  ir::Module &m_;
  const ir::StageVerifier &verifier_;
  std::unique_ptr<ir::Module> start_; // null if nobody wants reproducers
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
