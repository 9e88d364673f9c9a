// Finds rows that a program reads again in a later loop, as norms and softmax over blocks of columns do.
//
//   for off in range(0, n, BLOCK): total += tl.load(X + row * n + off + cols)                    # BLOCK elements an iteration are read again
//   for off in range(0, n, BLOCK): tl.store(Y + ..., tl.load(X + row * n + off + cols) - mean)   # here
//
// The rows of all blocks on a multiprocessor should still be in the caches when they are read again, which bounds the
// number of blocks (targets/nvidia/occupancy/Occupancy.h), or in shared memory (HoldRows.h).
#pragma once
#include "ir/Ir.h"
#include <vector>

namespace tegula::gpu {

struct RowsAgain {
  uint64_t bytes = 0;    // of an iteration; 0: nothing is found to be read again
  bool isNarrow = false; // some elements have less than 32 bits
};

/// What an iteration of the For `loop` loads and the same iteration of a later loop of its block, with the same bounds,
/// loads again from the same addresses. Counts only tiles whose addresses depend on the program: weights, which all
/// programs read, stay in the caches anyway. Addresses are the same if the same operations compute them from the same
/// values.
RowsAgain rowsReadAgain(const ir::Op &loop);

/// A load of a loop's body, and the loads of later loops of its block that load the same elements, or a subset of them,
/// in the iteration of the same number.
struct LoadAgain {
  ir::Op *load;
  std::vector<ir::Op *> again;
};
/// The loads of `loop` that are read again; each load is directly in its body, not in a branch. Empty: none found.
std::vector<LoadAgain> loadsReadAgain(const ir::Op &loop);

} // namespace tegula::gpu
