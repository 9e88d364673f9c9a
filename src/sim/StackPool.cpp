// First fit; what is too many is freed.
#include "sim/StackPool.h"
#include "sim/Machine.h"
#include "support/Gate.h"

namespace tegula::sim {

std::unique_ptr<StackSlab> StackPool::take(size_t count, size_t stackBytes) {
  {
    GateSection section;
    std::lock_guard lock(mutex_);
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if ((*it)->count() >= count && (*it)->stackBytes() >= stackBytes) {
        std::unique_ptr<StackSlab> slab = std::move(*it);
        free_.erase(it);
        return slab;
      }
  }
  return std::make_unique<StackSlab>(count, stackBytes);
}

void StackPool::give(std::unique_ptr<StackSlab> slab) {
  GateSection section;
  std::lock_guard lock(mutex_);
  if (!slab || !slab->ok() || slab->stackBytes() > 2 * usualStackBytes)
    return;
  size_t stacks = slab->count();
  for (const auto &s : free_)
    stacks += s->count();
  while (!free_.empty() && (free_.size() >= keep || stacks > keepStacks)) {
    stacks -= free_.front()->count();
    free_.erase(free_.begin());
  }
  free_.push_back(std::move(slab));
}

std::shared_ptr<StackPool> makeStackPool() { return std::make_shared<StackPool>(); }

} // namespace tegula::sim
