// See Passes.h.
#include "gpu/Passes.h"
#include "gpu/FlushExponentials.h"
#include "gpu/OrderPrograms.h"
#include "gpu/ShareQuotients.h"
#include "gpu/layouts/AssignLayouts.h"
#include "gpu/layouts/Exchanges.h"
#include "gpu/layouts/HoistConverts.h"
#include "gpu/layouts/NarrowLoads.h"
#include "gpu/layouts/SinkWidening.h"
#include "gpu/layouts/TurnDots.h"
#include "gpu/loops/AdvanceDots.h"
#include "gpu/loops/CopyLoads.h"
#include "gpu/loops/DelayReductions.h"
#include "gpu/loops/HoistAddresses.h"
#include "gpu/loops/HoldRows.h"
#include "gpu/loops/PipelineLoops.h"
#include "gpu/loops/PrefetchLoads.h"
#include "gpu/loops/RotateDots.h"
#include "gpu/loops/SpecializeWarps.h"
#include "gpu/loops/StaggerDots.h"
#include "gpu/loops/SumParts.h"
#include "gpu/masks/SkipMasks.h"
#include "gpu/masks/UnderMask.h"
#include "gpu/masks/WholeMasks.h"
#include "gpu/parts/ChooseCluster.h"
#include "gpu/parts/DelayLoads.h"
#include "gpu/parts/PartitionCluster.h"
#include "gpu/parts/ShareLoops.h"
#include "gpu/parts/SplitTiles.h"
#include "gpu/parts/StageRows.h"
#include "gpu/shared/AllocateShared.h"
#include "gpu/shared/OrderMemory.h"
#include "gpu/shared/ShareTables.h"
#include "ir/Clone.h"
#include "ir/Walk.h"
#include "passes/RemoveDead.h"
#include "passes/SplitLoops.h"

namespace tegula::gpu {

namespace {

std::unique_ptr<ir::Module> partition(const ir::Module &m, const PassInput &in) {
  if (const int64_t parts = m.kernel() ? splitOf(*m.kernel()) : 0;
      parts > 1 && in.options.numCtas == 1 && parts <= in.target.clusterLimit())
    in.options.numCtas = static_cast<unsigned>(parts);
  if (in.rows && in.rows->ctas > 1) {
    std::unique_ptr<ir::Module> part = in.options.numCtas == 1 ? shareLoops(m, in.rows->ctas) : nullptr;
    in.rows->ctas = part ? in.rows->ctas : in.options.numCtas;
    in.options.numCtas = in.rows->ctas;
    return part;
  }
  if (in.options.numCtas == 1) {
    ClusterChoice choice = chooseCluster(m, in.target, in.options, in.remarks);
    in.options.numCtas = choice.ctas;
    in.options.stagesRows |= choice.stagesRows;
    return std::move(choice.part);
  }
  std::unique_ptr<ir::Module> part = partitionCluster(m, in.options.numCtas, in.remarks);
  if (!part)
    in.options.numCtas = 1;
  return part;
}

std::unique_ptr<ir::Module> split(const ir::Module &m, const PassInput &in) {
  return in.options.numCtas == 1 && !in.options.stagesRows
             ? splitTiles(m, in.target.lanes() * in.options.numWarps, in.target.sharedLimit())
             : nullptr;
}

constexpr GpuPass passes[] = {
    // First: all others see the dots as they will be computed.
    {"turn-dots", [](const ir::Module &m, const PassInput &in) { return turnDots(m, in.target, in.options.numWarps); }, nullptr,
     "computes tiles transposed where dots then read them from registers"},
    // Before the choice of a cluster and of tiles, which both count the values live across reductions.
    {"delay-loads", [](const ir::Module &m, const PassInput &in) { return delayLoads(m, in.target, in.options); }, nullptr, "moves loads behind reductions where rows have few registers"},
    // With num_ctas > 1, or where rows are too long for one CTA: gives tile IR of one CTA of a cluster. Before all
    // passes that count the elements of a CTA.
    {"partition-cluster", partition, nullptr, "gives each CTA of a cluster a part of the work"},
    // Otherwise. Before layouts, which then are those of ordinary tiles.
    {"split-tiles", split, nullptr, "turns work on large tiles into loops over parts"},
    // Before layouts, as an exchange keeps the layout of its operand; after split-tiles, which would treat unrolled
    // steps as long code.
    {"find-exchanges", [](const ir::Module &m, const PassInput &in) { return findExchanges(m, in.target.lanes() * in.options.numWarps); }, nullptr,
     "turns gathers along an axis from fixed distances into exchanges"},
    // Before layouts, which would assign the same words to many threads; after split-tiles, which splits tiles of
    // pointers.
    {"narrow-loads", [](const ir::Module &m, const PassInput &in) { return narrowLoads(m, in.target.lanes() * in.options.numWarps); }, nullptr,
     "loads what neighbours in operands of products share once, and repeats it"},
    // Tile IR to GPU IR; all that follow change that in place.
    {"assign-layouts", [](const ir::Module &m, const PassInput &in) { return assignLayouts(m, in.target, in.options, in.remarks); }, nullptr,
     "decides which thread holds which element: tile IR to GPU IR"},
    // After passes that analyze program_id; before all that copy it for producers.
    {"order-programs", nullptr, [](ir::Module &m, const PassInput &in) { in.options.numCtas == 1 ? orderPrograms(m) : void(); }, "lets the longest programs of a grid start first, and those that read the same tiles one after the other"},
    // Before passes that split sums and maxima, and all that count instructions.
    {"flush-exponentials", nullptr, [](ir::Module &m, const PassInput &) { flushExponentials(m); }, "lets exponentials beside a one be zero instead of subnormal"},
    // After layouts, which say what a thread holds. Before all passes that count synchronization, live values and
    // carried values.
    {"delay-reductions", nullptr, [](ir::Module &m, const PassInput &) { delayReductions(m); }, "combines what loops add up across threads after them"},
    {"drop-selects-under-mask", nullptr, [](ir::Module &m, const PassInput &) { dropSelectsUnderMask(m); }, "removes selects that the mask of a store repeats"},
    // Before passes that start loads ahead, in loops that still load.
    {"hold-rows", nullptr, [](ir::Module &m, const PassInput &in) { in.rows ? holdRows(m, in.target, in.options, *in.rows) : void(); }, "keeps rows that loops read again in shared memory, where a launch wants that"},
    // Before passes that copy address arithmetic for later iterations.
    {"hoist-addresses", nullptr, [](ir::Module &m, const PassInput &in) { hoistAddresses(m, in.target, in.options); },
     "makes addresses of operands fixed pointers and one offset that moves"},
    // Before all passes that analyze the operations between dots.
    {"open-mask-branches", nullptr, [](ir::Module &m, const PassInput &) { openMaskBranches(m); }, "turns branches around masks between dots into selections"},
    // Before the two passes that start copies ahead: they must see one dot an iteration earlier.
    {"rotate-dots", nullptr, [](ir::Module &m, const PassInput &in) { rotateDots(m, in.target, in.options); }, "moves the first of two dots of a loop an iteration ahead"},
    // Before passes that place copies and waits by the order of dots.
    {"advance-dots", nullptr, [](ir::Module &m, const PassInput &in) { advanceDots(m, in.target, in.options); }, "starts dots before what is computed of others that they do not need"},
    // Before pipeline-loops, which leaves its loops alone.
    {"specialize-warps", nullptr, [](ir::Module &m, const PassInput &in) { specializeWarps(m, in.target, in.options, in.remarks); },
     "gives the copies of loops to warps of their own"},
    {"pipeline-loops", nullptr, [](ir::Module &m, const PassInput &in) { pipelineLoops(m, in.target, in.options, in.remarks); },
     "copies operands of dots ahead, and lets dots run on"},
    // After the passes that create rings and waits.
    {"stagger-dots", nullptr, [](ir::Module &m, const PassInput &in) { staggerDots(m, in.target, in.options); }, "starts the second of two dots of a loop an iteration late"},
    // After all passes that analyze the operations between dots, as they stop at a branch.
    {"skip-masks", nullptr, [](ir::Module &m, const PassInput &in) { skipMasks(m, in.target, in.options); }, "asks masks of tiles only where they may hold for some elements and not for others"},
    // For loads that could not be copied asynchronously.
    {"prefetch-loads", nullptr, [](ir::Module &m, const PassInput &in) { prefetchLoads(m, in.target, in.options, in.rows ? in.rows->blocks : 0, in.facts, in.forms); }, "loads operands an iteration ahead, into registers"},
    // For loads outside the loops above.
    {"stage-rows", nullptr, [](ir::Module &m, const PassInput &in) { stageRows(m, in.target, in.options); }, "keeps rows that are live across reductions in shared memory, where they were chosen to be there"},
    {"copy-loads", nullptr, [](ir::Module &m, const PassInput &in) { copyLoadsToTiles(m, in.target, in.options); }, "copies operands of dots to shared memory, outside of loops"},
    // All reads of shared memory exist now.
    {"hoist-converts", nullptr, [](ir::Module &m, const PassInput &in) { hoistConverts(m, in.target); }, "reads tiles in the layout in which what is computed from them is wanted"},
    // Removes operations that lost their last user above.
    {"remove-dead", nullptr, [](ir::Module &m, const PassInput &) { removeDead(m); }, "removes what has no influence"},
    // When no later pass copies or compares address arithmetic.
    {"share-quotients", nullptr, [](ir::Module &m, const PassInput &) { shareQuotients(m); }, "computes remainders from quotients of the same numbers"},
    // Its order of operations is final.
    {"sink-widening", nullptr, [](ir::Module &m, const PassInput &) { sinkWidening(m); }, "converts to wider types as late as possible"},
    // After all passes that move operations.
    {"sum-parts", nullptr, [](ir::Module &m, const PassInput &in) { sumParts(m, in.target, in.options); }, "adds products to sums outside of the instruction part by part, where registers are short"},
    // The order is final, and all other tiles in shared memory exist.
    {"share-tables", nullptr, [](ir::Module &m, const PassInput &in) { shareTables(m, in.target, in.options); }, "stores tables that several gathers read to shared memory once"},
    // Live ranges follow from that order, which code generation keeps.
    {"allocate-shared", nullptr, [](ir::Module &m, const PassInput &in) { allocateShared(m, in.target, in.options); }, "gives operations their bytes of shared memory"},
    // Barriers follow from that order and those bytes.
    {"order-memory", nullptr, [](ir::Module &m, const PassInput &in) { orderMemory(m, in.target, in.options); }, "places barriers, fences and waits"},
    // Last: the code that it duplicates has its bytes and barriers, which depend on masks in part.
    {"drop-whole-masks", nullptr, [](ir::Module &m, const PassInput &in) { dropWholeMasks(m, in.target, in.options); }, "branches around masks that let all elements through"},
};

} // namespace

static bool hasTensor(const ir::Block &b) {
  return ir::anyValue(b, [](const ir::Value &v) { return v.type.isTensor(); });
}

const char *GpuPass::missing(const ir::Module &m) const {
  if (!m.kernel())
    return "a kernel";
  if (make && !m.layouts.empty())
    return "tile IR: the module has layouts already";
  return change && m.layouts.empty() && hasTensor(*m.kernel()->block()) ? "layouts: assign-layouts goes first"
                                                                        : nullptr;
}

void GpuPass::run(std::unique_ptr<ir::Module> &m, const PassInput &in) const {
  if (change)
    change(*m, in);
  else if (std::unique_ptr<ir::Module> made = make(*m, in))
    m = std::move(made);
}

std::span<const GpuPass> gpuPasses() { return passes; }

const GpuPass *findGpuPass(std::string_view name) {
  for (const GpuPass &p : passes)
    if (name == p.name)
      return &p;
  return nullptr;
}

/// Runs passes on a module. Null if none of them made a new module: the result is then `module` itself.
static std::unique_ptr<ir::Module> made(std::span<const GpuPass> passes, const ir::Module &module,
                                        const PassInput &in) {
  std::unique_ptr<ir::Module> own;
  for (const GpuPass &pass : passes)
    if (own)
      pass.run(own, in);
    else
      own = pass.make(module, in);
  return own;
}

/// The reproducer of the pass after `before`. Passes are deterministic, so its input is recomputed from the original
/// module.
static ir::Reproducer reproducer(std::span<const GpuPass> before, const ir::Module &module, const TargetInfo &target,
                                 Options options, LoopRows rows) {
  std::unique_ptr<ir::Module> own = made(before, module, {target, options, nullptr, &rows});
  auto number = [](const char *name, unsigned n) { return std::string(" --") + name + "=" + std::to_string(n); };
  return {"--target=" + target.name() + number("num-warps", options.numWarps) +
              number("num-stages", options.numStages) + number("num-ctas", options.numCtas) +
              (options.stagesRows ? " --stages-rows" : "") + (rows.blocks ? number("held-blocks", rows.blocks) : "") +
              (rows.ctas > 1 ? number("held-ctas", rows.ctas) : ""),
          ir::print(own ? *own : module)};
}

std::unique_ptr<ir::Module> runPasses(std::span<const GpuPass> passes, const ir::Module &module, const PassInput &in,
                                      const ir::StageVerifier &verifier, std::string_view last) {
  const Options options = in.options; // before passes change them
  std::unique_ptr<ir::Module> own;    // null as long as no pass has made a module: `module` belongs to the caller
  for (size_t i = 0; i < passes.size(); ++i) {
    const GpuPass &pass = passes[i];
    if (own)
      pass.run(own, in);
    else
      own = pass.make(module, in);
    if (own && !verifier.check(*own, pass.name, ir::Level::Gpu, [&] {
          return reproducer(passes.first(i), module, in.target, options, in.rows ? *in.rows : LoopRows{});
        }))
      return nullptr;
    if (last == pass.name)
      break;
  }
  return own ? std::move(own) : ir::clone(module);
}

} // namespace tegula::gpu
