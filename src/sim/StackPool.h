// A pool that keeps fiber stacks between launches.
#pragma once
#include "sim/Fiber.h"
#include <memory>
#include <mutex>

namespace tegula::sim {

class StackPool {
public:
  /// A slab with at least `count` stacks of `stackBytes`, from earlier launches or new; not ok() if memory is lacking.
  std::unique_ptr<StackSlab> take(size_t count, size_t stackBytes);
  void give(std::unique_ptr<StackSlab> slab);

private:
  /// Limits the memory of idle slabs: a slab of 128 stacks holds about 1 MiB of touched pages.
  static constexpr size_t keep = 8;
  /// Linux gives a process 65530 areas of memory, and a stack with its guard takes two of them.
  static constexpr size_t keepStacks = 8192;
  std::mutex mutex_;
  std::vector<std::unique_ptr<StackSlab>> free_;
};

} // namespace tegula::sim
