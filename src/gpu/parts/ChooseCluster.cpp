// See ChooseCluster.h.
#include "gpu/parts/ChooseCluster.h"
#include "gpu/Diagnostics.h"
#include "gpu/Layouts.h"
#include "gpu/ProgramDependence.h"
#include "gpu/Remarks.h"
#include "gpu/layouts/AssignLayouts.h"
#include "gpu/parts/DelayLoads.h"
#include "gpu/parts/HeldRows.h"
#include "gpu/parts/PartitionCluster.h"
#include "gpu/parts/SplitTiles.h"
#include "gpu/parts/StageRows.h"
#include "ir/Walk.h"
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

namespace tegula::gpu {

using namespace ir;

namespace {

/// Of all rows, those with most elements.
struct Moved {
  int64_t elements = 0;
  int64_t own = 0, stored = 0; // bytes of such rows that a program loads from its own addresses, and stores
  int64_t late = 0;            // 32-bit words that it loads after the last reduction
  bool isNarrow = false;       // it loads elements of less than 32 bits
};

class Rows {
public:
  explicit Rows(const Block &b) {
    const auto each = [&](auto &&fn) {
      anyOp(b, [&](const Op &op) {
        const bool loads = op.kind == OpKind::Load;
        if (loads || op.kind == OpKind::Store)
          if (const Type &t = loads ? op.result()->type : op.operands[1]->type; t.isTensor())
            fn(op, loads, t);
        if (op.kind == OpKind::Reduce)
          moved_.late = 0;
        return false;
      });
    };
    each([&](const Op &, bool, const Type &t) { moved_.elements = std::max(moved_.elements, t.numel()); });
    each([&](const Op &op, bool loads, const Type &t) {
      if (t.numel() != moved_.elements)
        return;
      const int64_t bytes = t.numel() * byteWidth(t.elem);
      if (!loads)
        moved_.stored += bytes;
      else if (moved_.isNarrow |= byteWidth(t.elem) < 4, moved_.late += bytes / 4; depends_.of(op.operands[0]))
        moved_.own += bytes;
    });
  }
  const Moved &moved() const { return moved_; }

private:
  Moved moved_;
  ProgramDependence depends_; // data that other programs load, too (weights), comes from the L2 cache
};

/// The rows that a multiprocessor has in flight if a given number of CTAs share a program.
struct Share {
  int64_t blocks = 1;
  double bytes = 0; // equivalent bytes in several blocks without spills
};

class Shares {
public:
  Shares(const TargetInfo &target, unsigned threads, const Function &kernel, int64_t held, const Moved &moved,
         const ClusterLimits &limits)
      : threads_(threads), limit_(target.registerLimit(threads)), most_(target.threadLimit() / threads),
        all_(int64_t{target.registerLimit(target.threadLimit())} * target.threadLimit()), held_(held),
        packed_(moved.isNarrow ? heldRows(kernel, threads, Widened::Again).words : held),
        late_(moved.late * 3 / (4 * threads_)), moved_(moved), limits_(limits) {}

  /// The bytes in flight that keep memory busy: half of `inFlight` where half of the moved bytes are stores.
  double wanted() const {
    return static_cast<double>(limits_.inFlight) * static_cast<double>(moved_.own) /
           static_cast<double>(moved_.own + moved_.stored);
  }

  /// The number of registers that each thread lacks.
  int64_t missing(int64_t ctas) const {
    const int64_t words = (held_ + late_) / ctas, beside = besideRows + (moved_.isNarrow ? limits_.overhead : 0);
    // In one CTA the assembler packs rows and widens them again, if they fit then; it does not across the waits of a
    // cluster.
    if (const int64_t packed = packed_ + late_ + beside - limit_; ctas == 1 && packed <= limits_.overhead)
      return std::max<int64_t>(0, packed);
    return std::max<int64_t>(0, (ctas > 1 && moved_.isNarrow ? need(words) : words + beside) - limit_);
  }

  Share of(int64_t ctas) const {
    Share s;
    s.blocks = std::clamp<int64_t>(all_ / (threads_ * std::min(limit_, need((held_ + late_) / ctas))), 1, most_);
    const double own = static_cast<double>(moved_.own) / static_cast<double>(ctas),
                 spilled = 4.0 * static_cast<double>(missing(ctas) * threads_);
    s.bytes = std::min(static_cast<double>(s.blocks) * own, wanted()) * (s.blocks == 1 ? limits_.alone : 1) /
              (1 + spilled / (2 * own));
    return s;
  }

private:
  /// The registers of a thread that holds `words` words of rows.
  int64_t need(int64_t words) const {
    const int64_t widened = words > limits_.overhead ? words * 2 / 5 + 8 : 0;
    return words + (moved_.isNarrow ? std::max<int64_t>(limits_.overhead, widened) : limits_.overhead);
  }

  // words of a thread in one CTA: held, held packed, loaded after the last reduction
  const int64_t threads_, limit_, most_, all_, held_, packed_, late_;
  const Moved &moved_;
  const ClusterLimits &limits_;
};

/// Rows in shared memory: the smallest cluster with enough of them in flight; else the one with the most. Bytes 0: the
/// rows cannot be staged.
struct Staged {
  unsigned ctas = 1;
  double bytes = 0;
  std::unique_ptr<Module> part; // null: the module is unchanged
};

Staged stagedShare(const Module &module, const TargetInfo &target, const Options &options, unsigned most,
                   const Moved &moved, double wanted, const ClusterLimits &limits) {
  constexpr uint64_t scratch = 2048; // of reductions, and the overhead of a block
  const unsigned threads = target.lanes() * options.numWarps;
  const uint64_t all = target.sharedLimit() + 1024;
  Staged best;
  for (unsigned n = 1; n <= most; n *= 2) {
    const int64_t elements = moved.elements / (int64_t{threads} * n);
    if (elements < limits.elements || (moved.own + moved.stored) / (int64_t{threads} * n) < limits.bytes)
      break;
    if (elements > limits.stagedElements)
      continue;
    std::unique_ptr<Module> part = n > 1 ? partitionCluster(module, n) : nullptr;
    if (n > 1 && !part)
      break;
    Options ofPart = options;
    ofPart.numCtas = n;
    const uint64_t bytes = stagedRows(*assignLayouts(part ? *part : module, target, ofPart), threads).bytes;
    if (!bytes)
      break;
    if (!haveRoom(bytes, target))
      continue;
    const auto blocks = static_cast<unsigned>(std::min<uint64_t>(
        {all / (bytes + scratch), target.threadLimit() / threads,
         uint64_t{target.registerLimit(target.threadLimit())} * target.threadLimit() / (threads * limits.staged)}));
    const double underWay = blocks * static_cast<double>(moved.own) / n * (blocks == 1 ? limits.alone : 1);
    if (underWay > best.bytes)
      best = {n, underWay, std::move(part)};
    if (blocks > 1 && best.bytes >= limits.stagedEnough * wanted)
      break;
  }
  return best;
}

std::string kibibytes(double bytes) { return std::to_string(static_cast<int64_t>(bytes / 1024)); }

} // namespace

bool isAlikeInClusters(const Op &op) {
  switch (op.kind) {
  case OpKind::Load:
  case OpKind::Store:
    return !op.isVolatile() && op.cache() != ".cv";
  case OpKind::Range:
  case OpKind::Const:
  case OpKind::Poison:
  case OpKind::ProgramId:
  case OpKind::Reduce:
  case OpKind::If:
  case OpKind::Yield:
  case OpKind::Return: return true;
  default:
    return renames(op.kind) || (op.has(traits::Elementwise) && op.has(traits::Pure));
  }
}

ClusterChoice chooseCluster(const Module &module, const TargetInfo &target, const Options &options, DiagEngine *remarks,
                            const ClusterLimits &limits) {
  const unsigned most = options.clusters == Clusters::Never ? 1 : std::min(target.clusterLimit(), portableCluster),
                 threads = target.lanes() * options.numWarps;
  if (options.numCtas > 1 || !module.kernel() ||
      anyOp(*module.kernel()->block(), [](const Op &op) { return !isAlikeInClusters(op); }))
    return {};
  const Function *kernel = module.kernel();
  if (const unsigned forced = ctasOf(options.clusters); forced > 1) {
    std::unique_ptr<Module> part = partitionCluster(module, forced);
    return part ? ClusterChoice{forced, std::move(part)} : ClusterChoice{};
  }
  // Weights that can be loaded late do not count: delay-loads sinks them where rows need their registers.
  std::unique_ptr<Module> delayed = delayedLoads(module, threads);
  kernel = (delayed ? *delayed : module).kernel();
  const HeldRows held = heldRows(*kernel, threads);
  // A program with several rows works on one after the other where there is no room for all of them (SplitTiles.h).
  if (!held.reduction || held.reduction->operands[0]->type.numel() !=
                             held.reduction->operands[0]->type.shape[static_cast<unsigned>(held.reduction->axis())])
    return {};
  if (2 * int64_t{held.words} < int64_t{target.registerLimit(target.threadLimit())} * target.threadLimit() / threads)
    return {};
  const Rows rows(*kernel->block());
  const Moved &moved = rows.moved();
  if (!moved.own)
    return {};
  const Shares shares(target, threads, *kernel, held.words, moved, limits);
  const bool readsAgain = splitTiles(module, threads, target.sharedLimit()) != nullptr,
             lacks = readsAgain || shares.missing(1) >= limits.missing;
  const double one = readsAgain ? limits.again * shares.wanted() : shares.of(1).bytes * (lacks ? limits.again : 1);
  unsigned ctas = 1;
  Share best{1, one};
  for (unsigned n = 2; n <= most; n *= 2) {
    const int64_t elements = moved.elements / (int64_t{threads} * n);
    if (elements < limits.elements || (moved.own + moved.stored) / (int64_t{threads} * n) < limits.bytes)
      break;
    const Share s = shares.of(n);
    // The larger of two clusters has more blocks, which hide more of each other's latency.
    const double least = ctas == 1 || s.blocks == best.blocks ? best.bytes : limits.almost * best.bytes;
    if ((s.blocks >= 2 || lacks) && shares.missing(n) <= limits.left &&
        (ctas == 1 ? s.bytes > least : s.bytes >= least))
      ctas = n, best = s;
    if (ctas > 1 && elements <= limits.enough && best.bytes >= shares.wanted())
      break;
  }
  // Narrow elements take half as much shared memory as registers. Waiting for weights and biases that are loaded after
  // the reductions, all at once, takes the registers that staging saves. If they have as many bytes as the loaded rows,
  // they are staged in shared memory, too, before the reductions.
  if (moved.isNarrow) {
    const int64_t late = 4 * moved.late; // bytes if widened to 32 bits
    std::unique_ptr<Module> advanced = late >= moved.own ? advancedLoads(module, threads) : nullptr;
    const auto choose = [&](std::unique_ptr<Module> &as, double least) -> std::optional<ClusterChoice> {
      Staged staged = stagedShare(as ? *as : module, target, options, most, moved, shares.wanted(), limits);
      if (staged.bytes < least)
        return std::nullopt;
      if (remarks)
        remarks->report(diag::rowsStaged, userLocation(module, *held.reduction), staged.ctas, kibibytes(staged.bytes),
                        kibibytes(best.bytes));
      return ClusterChoice{staged.ctas, staged.part ? std::move(staged.part) : std::move(as), true};
    };
    std::optional<ClusterChoice> choice;
    if (late >= moved.own)
      choice = choose(advanced, (late > moved.own ? 1 : limits.stagedEnough) * shares.wanted());
    if (!choice && late <= moved.own)
      choice = choose(delayed, std::nextafter(best.bytes, HUGE_VAL));
    if (choice)
      return std::move(*choice);
  }
  std::unique_ptr<Module> part = ctas > 1 ? partitionCluster(module, ctas) : nullptr;
  // All CTAs would hold, and compute, the replicated tensors.
  if (part && heldRows(*part->kernel(), threads).words > held.words / ctas + held.words / 16)
    part = nullptr;
  if (remarks && part)
    remarks->report(diag::clusterChosen, userLocation(module, *held.reduction), ctas, held.words, threads,
                    kibibytes(best.bytes), kibibytes(one));
  else if (remarks && ctas == 1 && most > 1)
    remarks->report(diag::clusterNotChosen, userLocation(module, *held.reduction), held.words, threads, kibibytes(one));
  return part ? ClusterChoice{ctas, std::move(part)} : ClusterChoice{};
}

} // namespace tegula::gpu
