// See ChooseCluster.h.
#include "gpu/parts/ChooseCluster.h"
#include "gpu/Diagnostics.h"
#include "gpu/Layouts.h"
#include "gpu/Remarks.h"
#include "gpu/parts/HeldRows.h"
#include "gpu/parts/PartitionCluster.h"
#include "gpu/parts/SplitTiles.h"
#include "ir/Walk.h"
#include <algorithm>
#include <optional>

namespace tegula::gpu {

using namespace ir;

namespace {

/// Operations that behave the same whether one CTA or several run the program, and whose parts have been measured.
bool isPlain(const Op &op) {
  switch (op.kind) {
  case OpKind::Load:
  case OpKind::Store:
    return !op.isVolatile() && op.cache() != ".cv";
  case OpKind::Range: case OpKind::Const: case OpKind::Poison: case OpKind::ProgramId: case OpKind::Reduce: case OpKind::If: case OpKind::Yield: case OpKind::Return:
    return true;
  default:
    return renames(op.kind) || (op.has(traits::Elementwise) && op.has(traits::Pure));
  }
}

/// Of all rows, those with most elements.
struct Moved {
  int64_t elements = 0, bytes = 0; // bytes: that the kernel loads and stores of such rows
  int64_t row = INT64_MAX;         // bytes of the shortest that is loaded
  unsigned late = 0;               // 32-bit words of those that are loaded behind the last reduction, of all threads together
};
Moved movedRows(const Block &b) {
  Moved m;
  auto each = [&](auto &&fn) {
    anyOp(b, [&](const Op &op) {
      if (op.kind == OpKind::Load || op.kind == OpKind::Store)
        if (const Type &t = op.kind == OpKind::Load ? op.result()->type : op.operands[1]->type; t.isTensor())
          fn(t);
      return false;
    });
  };
  each([&](const Type &t) { m.elements = std::max(m.elements, t.numel()); });
  each([&](const Type &t) { m.bytes += t.numel() == m.elements ? m.elements * byteWidth(t.elem) : 0; });
  anyOp(b, [&](const Op &op) {
    if (op.kind == OpKind::Reduce)
      m.late = 0;
    if (op.kind != OpKind::Load || op.result()->type.numel() != m.elements)
      return false;
    const int64_t bytes = m.elements * byteWidth(op.result()->type.elem);
    m.row = std::min(m.row, bytes);
    m.late += static_cast<unsigned>(bytes / 4);
    return false;
  });
  return m;
}

} // namespace

ClusterChoice chooseCluster(const Module &module, const TargetInfo &target, const Options &options, DiagEngine *remarks, const ClusterLimits &limits) {
  constexpr unsigned portable = 8; // CUDA C++ Programming Guide, "Thread Block Clusters"
  const unsigned most = std::min(target.clusterLimit(), portable), threads = target.lanes() * options.numWarps;
  if (options.clusters == Clusters::Never || options.numCtas > 1 || most < 2 || !module.kernel() || anyOp(*module.kernel()->block(), [](const Op &op) { return !isPlain(op); }))
    return {};
  const Function *kernel = module.kernel();
  if (const unsigned forced = ctasOf(options.clusters); forced > 1) {
    std::unique_ptr<Module> part = partitionCluster(module, forced);
    return part ? ClusterChoice{forced, std::move(part)} : ClusterChoice{};
  }
  const HeldRows held = heldRows(*kernel, threads);
  const int64_t all = int64_t{target.registerLimit(target.threadLimit())} * target.threadLimit(); // registers of a multiprocessor
  if (!held.reduction || 2 * int64_t{held.words} * threads < all)
    return {};
  const Moved moved = movedRows(*kernel->block());
  const unsigned words = held.words + moved.late / threads;
  /// Registers that are missing in each thread if so many CTAs share a program.
  auto missing = [&](unsigned ctas) { return int64_t{words / ctas + besideRows} - target.registerLimit(threads); };
  const bool readsAgain = splitTiles(module, threads, target.sharedLimit()) != nullptr, lacks = readsAgain || missing(1) >= limits.missing;
  const bool isWide = 2 * threads > target.threadLimit(); // one CTA is all that a multiprocessor has threads for
  unsigned ctas = 1;
  int64_t best = 0;
  for (unsigned n = 2; n <= most; n *= 2) {
    const int64_t elements = moved.elements / (int64_t{threads} * n), need = words / n + limits.overhead;
    if (elements < limits.elements || moved.bytes / (int64_t{threads} * n) < limits.bytes)
      break;
    const int64_t blocks = std::min(all / (threads * need), int64_t{target.threadLimit() / threads}), resident = std::min(std::max<int64_t>(blocks, 1) * moved.row / n, limits.resident);
    if (blocks >= 2 ? resident < limits.resident && !lacks : !lacks || missing(n) > (readsAgain && isWide ? 0 : limits.left))
      continue;
    if (resident >= best)
      ctas = n, best = resident;
    if (blocks >= 2 && resident >= limits.resident && elements <= limits.enough)
      break;
  }
  std::unique_ptr<Module> part = ctas > 1 ? partitionCluster(module, ctas) : nullptr;
  // What stays whole would be held, and computed, by all of them.
  if (!part || heldRows(*part->kernel(), threads).words > held.words / ctas + held.words / 16)
    return {};
  if (remarks)
    remarks->report(diag::clusterChosen, userLocation(module, *held.reduction), ctas, held.words, threads);
  return {ctas, std::move(part)};
}

} // namespace tegula::gpu
