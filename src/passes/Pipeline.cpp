// The table of passes and their order.
#include "passes/Pipeline.h"
#include "passes/AccumulateDots.h"
#include "passes/AffineCarried.h"
#include "passes/ExpandDescriptors.h"
#include "passes/HoistInvariants.h"
#include "passes/Inline.h"
#include "passes/PadTiles.h"
#include "passes/RemoveDead.h"
#include "passes/Simplify.h"
#include "passes/WidenOffsets.h"

namespace tegula {

namespace {
constexpr PassEntry passes[] = {
    {"inline-calls", inlineCalls, "replaces calls by the bodies of their callees"},
    {"pad-tiles", padTiles, "gives tiles extents that are powers of two"},
    {"simplify", [](ir::Module &m) { simplify(m); }, "folds, canonicalizes, merges equal operations, straightens control flow"},
    {"remove-dead", removeDead, "removes what has no influence"},
    {"expand-descriptors", expandDescriptors, "turns accesses through tensor descriptors into loads, stores and atomics"},
    {"widen-offsets", widenOffsets, "computes offsets and masks of accesses in 64 bits"},
    {"affine-carried", affineCarried, "turns carried tensors of addresses into a start and a scalar offset"},
    {"hoist-invariants", hoistInvariants, "moves pure operations out of loops"},
    {"accumulate-dots", accumulateDots, "adds dots to running sums by their accumulators"},
    {"pipeline", runPipeline, "all of them in order"},
};
} // namespace

void runPipeline(ir::Module &m) { runPipeline(m, nullptr); }

bool runPipeline(ir::Module &m, KeepDescriptor keep, const void *target, const ir::StageVerifier &verifier, bool wide) {
  if (narrowsPointers(m))
    wide = true;
  // Offsets are followed from their use to where they are made.
  if (wide)
    for (ir::Function *f : m.functions)
      f->noinline_ = false;
  auto run = [&](const char *pass) {
    findPass(pass)->run(m);
    return verifier.check(m, pass);
  };
  if (!run("inline-calls") || !run("pad-tiles") || !run("simplify"))
    return false;
  if (expandDescriptors(m, keep, target) && !(verifier.check(m, "expand-descriptors") && run("simplify")))
    return false;
  if (wide && !(run("widen-offsets") && run("simplify")))
    return false;
  return run("affine-carried") && run("simplify") && run("hoist-invariants") && run("accumulate-dots") && run("simplify");
}

std::span<const PassEntry> allPasses() { return passes; }

const PassEntry *findPass(std::string_view name) {
  for (const PassEntry &p : passes)
    if (p.name == name)
      return &p;
  return nullptr;
}

} // namespace tegula
