// What the order of memory accesses depends on at one place of a kernel, while it is lowered (LowerMemory.cpp, LowerBulk.cpp).
#pragma once
#include "gpu/SharedMemory.h"
#include "targets/nvidia/BulkStores.h"
#include "llvm/ADT/SmallVector.h"

namespace tegula::nvidia {

/// An access since threads have met: argument (or -1) and, of this iteration, pointer.
struct Seen {
  int arg;
  const ir::Value *pointer;
  bool writes;
  const ir::Op *tiled = nullptr; // a store whose elements are always written by the same threads
  bool isWhole = false;          // by all CTAs of a cluster, or the first one of them
  auto operator<=>(const Seen &) const = default;
};

/// All of it; what another path to a place has done is added.
struct Accesses {
  llvm::SmallVector<Seen, 8> seen;
  llvm::SmallVector<BulkWrite, 2> bulkWrites;
  llvm::SmallVector<SharedRange, 2> bulkReads;
};

} // namespace tegula::nvidia
