// The table of passes and their order.
#include "passes/Pipeline.h"
#include "ir/Clone.h"
#include "passes/AccumulateDots.h"
#include "passes/AffineCarried.h"
#include "passes/CountLoops.h"
#include "passes/ExpandDescriptors.h"
#include "passes/FoldComparisons.h"
#include "passes/HoistInvariants.h"
#include "passes/Inline.h"
#include "passes/JoinStores.h"
#include "passes/MergeArguments.h"
#include "passes/PadTiles.h"
#include "passes/RemoveDead.h"
#include "passes/Simplify.h"
#include "passes/WidenOffsets.h"

namespace tegula {

namespace {
constexpr PassEntry passes[] = {
    {"merge-arguments", mergeArguments, "has one argument stand for all that are the same address"},
    {"inline-calls", inlineCalls, "replaces calls by the bodies of their callees"},
    {"pad-tiles", padTiles, "gives tiles extents that are powers of two"},
    {"simplify", [](ir::Module &m) { simplify(m); },
     "folds, canonicalizes, merges equal operations, straightens control flow"},
    {"remove-dead", removeDead, "removes what has no influence"},
    {"count-loops", countLoops, "turns `while` loops that count into `for` loops"},
    {"expand-descriptors", expandDescriptors,
     "turns accesses through tensor descriptors into loads, stores and atomics"},
    {"widen-offsets", widenOffsets, "computes offsets and masks of accesses in 64 bits"},
    {"widen-narrowed-offsets", widenNarrowedOffsets, "does so for pointers that were cast to smaller elements"},
    {"affine-carried", affineCarried, "turns carried tensors of addresses into a start and a scalar offset"},
    {"fold-comparisons", [](ir::Module &m) { foldComparisons(m); },
     "answers comparisons whose operands' ranges tell the result"},
    {"hoist-invariants", hoistInvariants, "moves pure operations out of loops"},
    {"accumulate-dots", accumulateDots, "adds dots to running sums by their accumulators"},
    {"join-stores", joinStores, "stores once what two stores write to the same addresses"},
    {"pipeline", runPipeline, "all of them in order"},
};
} // namespace

void runPipeline(ir::Module &m) { runPipeline(m, nullptr); }

bool runPipeline(ir::Module &m, KeepDescriptor keep, const void *target, const ir::StageVerifier &verifier, bool wide) {
  const char *widen = wide ? "widen-offsets" : narrowsPointers(m) ? "widen-narrowed-offsets" : nullptr;
  // Widening follows offsets from their uses to their definitions.
  if (widen)
    for (ir::Function *f : m.functions)
      f->noinline_ = false;
  PassRunner runner(m, verifier);
  auto run = [&](const char *pass) { return runner.run(pass, findPass(pass)->run); };
  if (!run("merge-arguments") || !run("inline-calls") || !run("pad-tiles") || !run("simplify") || !run("count-loops"))
    return false;
  bool hasDescriptors = false;
  if (!runner.run("expand-descriptors", [&](ir::Module &x) { hasDescriptors = expandDescriptors(x, keep, target); }) ||
      (hasDescriptors && !run("simplify")))
    return false;
  if (widen && !(run(widen) && run("simplify")))
    return false;
  bool hasFolded = false;
  if (!run("affine-carried") || !run("simplify") ||
      !runner.run("fold-comparisons", [&](ir::Module &x) { hasFolded = foldComparisons(x); }) ||
      (hasFolded && !run("simplify")))
    return false;
  return run("hoist-invariants") && run("accumulate-dots") && run("join-stores") && run("simplify");
}

PassRunner::PassRunner(ir::Module &m, const ir::StageVerifier &verifier)
    : m_(m), verifier_(verifier), start_(verifier.writesReproducers() ? ir::clone(m) : nullptr) {}
PassRunner::~PassRunner() = default;

bool PassRunner::run(const char *name, std::function<void(ir::Module &)> pass) {
  pass(m_);
  if (start_)
    steps_.push_back({name, std::move(pass)});
  return verifier_.check(m_, name, ir::Level::Tile, [&] { return reproducer(); });
}

/// Of the last step.
ir::Reproducer PassRunner::reproducer() const {
  for (size_t i = 0; i + 1 < steps_.size(); ++i)
    steps_[i].pass(*start_);
  return {"", ir::print(*start_)};
}

std::span<const PassEntry> allPasses() { return passes; }

const PassEntry *findPass(std::string_view name) {
  for (const PassEntry &p : passes)
    if (p.name == name)
      return &p;
  return nullptr;
}

} // namespace tegula
