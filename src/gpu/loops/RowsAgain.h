// Rows that a program reads again, in loops one after the other, as norms and softmax over blocks of columns do.
//
//   for off in range(0, n, BLOCK): total += tl.load(X + row * n + off + cols)                    # BLOCK elements an iteration are read again
//   for off in range(0, n, BLOCK): tl.store(Y + ..., tl.load(X + row * n + off + cols) - mean)   # here
//
// What the blocks on a multiprocessor read again should be in the caches still: that bounds how many there should be
// (targets/nvidia/occupancy/Occupancy.h); or in shared memory (HoldRows.h).
#pragma once
#include "ir/Ir.h"
#include <vector>

namespace tegula::gpu {

struct RowsAgain {
  uint64_t bytes = 0;    // of an iteration
  bool isNarrow = false; // some elements have less than 32 bits
};

/// What an iteration of the `for` loads and the same iteration of a later loop of its block, with the same bounds,
/// loads again from the same addresses. Only of tiles whose addresses depend on the program: weights, which all
/// programs read, stay in the caches by themselves. Addresses are the same if the same operations compute them of the
/// same values. No bytes: none, or not seen.
RowsAgain rowsReadAgain(const ir::Op &loop);

/// A load of a loop's body, and those of later loops of its block that load the same elements, or some of them, in
/// iterations of the same number.
struct LoadAgain {
  ir::Op *load;
  std::vector<ir::Op *> again;
};
/// Those loads, each in the body itself. Empty: none, or not seen.
std::vector<LoadAgain> loadsReadAgain(const ir::Op &loop);

} // namespace tegula::gpu
