// See ShareLoops.h.
#include "gpu/parts/ShareLoops.h"
#include "gpu/LoopSlice.h"
#include "gpu/parts/ChooseCluster.h"
#include "gpu/parts/PartitionCluster.h"
#include "gpu/shared/ApartIterations.h"
#include "ir/Clone.h"
#include "ir/Walk.h"
#include "passes/ArgumentAccess.h"
#include "passes/RunningMoments.h"
#include "passes/SplitLoops.h"
#include "passes/Users.h"
#include <algorithm>
#include <set>

namespace tegula::gpu {

using namespace ir;

namespace {

constexpr int unknown = -1; // memory

/// Checks the operations of a kernel in order.
class Looker {
public:
  explicit Looker(const Block &kernel) : users_(kernel) {}
  bool canShare(const Block &b) { return visit(b) && hasLoop_; }

private:
  bool visit(const Block &b) {
    return std::ranges::all_of(b.ops, [&](const Op *op) {
      if (op->kind == OpKind::For)
        return loop(*op);
      if (op->kind != OpKind::Barrier && op->kind != OpKind::Assume && !isAlikeInClusters(*op))
        return false;
      if (op->kind == OpKind::Store)
        stored_.insert(memoryOf(op->operands[0]));
      if (op->kind != OpKind::If)
        return true;
      const std::set<int> before = stored_;
      std::set<int> behind;
      for (const Region *r : op->regions) {
        stored_ = before;
        if (!visit(*r->block))
          return false;
        behind.insert(stored_.begin(), stored_.end());
      }
      stored_ = std::move(behind);
      return true;
    });
  }

  bool loop(const Op &loop) {
    hasLoop_ = true;
    std::set<int> loaded, stored;
    const bool isPlain = !anyOp(*loop.region(0), [&](const Op &op) {
      if (op.kind == OpKind::Load || op.kind == OpKind::Store)
        (op.kind == OpKind::Load ? loaded : stored).insert(memoryOf(op.operands[0]));
      return op.kind != OpKind::Assume && !isAlikeInClusters(op);
    });
    if (!isPlain || isReverse(loop) || (!stored.empty() && iterationsMeet(loop, 1)))
      return false;
    if (!stored_.empty() && std::ranges::any_of(loaded, [&](int memory) {
          return memory == unknown || stored_.contains(memory) || stored_.contains(unknown);
        }))
      return false;
    stored_.merge(stored);
    const std::vector<CarriedRole> roles = rolesOfParts(loop);
    for (size_t i = 0; i < roles.size(); ++i)
      if (roles[i].kind == CarriedRole::Kind::Other ||
          (roles[i].kind == CarriedRole::Kind::Moment &&
           !std::ranges::all_of(users_.of(loop.results[i]), [](const Op *user) { return joinsMoments(*user); })))
        return false;
    return true;
  }

  const Users users_;
  bool hasLoop_ = false;
  std::set<int> stored_; // memory
};

void mark(Block &b, int64_t ctas) {
  for (Op *op : b.ops)
    if (op->kind == OpKind::For)
      op->set(attr::splitParts, ctas);
    else
      for (Region *r : op->regions)
        mark(*r->block, ctas);
}

} // namespace

bool canShareLoops(const Module &m) {
  return m.kernel() && !splitOf(*m.kernel()) && Looker(*m.kernel()->block()).canShare(*m.kernel()->block());
}

std::unique_ptr<Module> shareLoops(const Module &m, unsigned ctas) {
  if (!canShareLoops(m))
    return nullptr;
  const std::unique_ptr<Module> marked = clone(m);
  mark(*marked->kernel()->block(), ctas);
  return partitionCluster(*marked, ctas);
}

bool meetInLoops(const Module &gpu) {
  const auto meets = [](const Op &op) { return op.kind == OpKind::ClusterArrive || op.kind == OpKind::ClusterWait; };
  return anyOp(*gpu.kernel()->block(),
               [&](const Op &op) { return op.kind == OpKind::For && anyOp(*op.region(0), meets); });
}

} // namespace tegula::gpu
