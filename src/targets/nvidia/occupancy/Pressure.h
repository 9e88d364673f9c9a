// Register pressure and memory traffic of a kernel without asynchronous dots: the tiles that are live at once, and the
// loads of its loops.
#pragma once
#include "gpu/loops/RowsAgain.h"
#include "ir/Ir.h"
#include <algorithm>
#include <cstdint>
#include <vector>

namespace tegula::nvidia {

/// The demand of one loop iteration on memory and on the special function units, in one thread.
struct Iteration {
  const ir::Op *loop = nullptr;
  bool isShort = false;                    // its trip count is a small constant
  std::ptrdiff_t begin = 0, end = 0;       // positions
  unsigned live = 0;                       // 32-bit words of tiles live in it
  unsigned loadWords = 0, largestLoad = 0; // 32-bit words, of all loads and of the largest one
  unsigned specials = 0;                   // exponentials, logarithms, ...: 16 lanes a cycle
  uint64_t bytes = 0;                      // of a block's loads; bytes that several threads load count once
  bool isUnrolled = false;                 // the assembler may unroll it: nothing forbids it
  // has stores, which may alias the loads of a later iteration: no load is hoisted over them
  bool stores = false;
  unsigned accesses = 0;                   // loads and stores
  bool divides = false;                    // it carries on a quotient by, or of, a carried value
  void load(unsigned words, uint64_t bytesOfTile) {
    ++accesses;
    loadWords += words;
    largestLoad = std::max(largestLoad, words);
    bytes += bytesOfTile;
  }
  /// Special functions take less time than memory: 16 lanes a cycle beside the 21 bytes a cycle that are a
  /// multiprocessor's share of an H200's memory.
  bool waitsForMemory() const { return 16 * 4 * loadWords > 21 * specials; }
};

/// A loop whose loads a later loop repeats (RowsAgain.h).
struct RowLoop {
  const ir::Op *loop = nullptr;
  gpu::RowsAgain again;
  int64_t trips = 0; // 0: not constant
};

struct Pressure {
  /// Maximum number of 32-bit registers per thread for tiles that are live at once. Not counted: scalars, masks, and
  /// tiles computed from ranges and scalars alone (they are rematerialized, or immediates of addresses); values with
  /// one user in the same block, which are computed register by register at the use; in loops, values whose last use
  /// is before the next exchange of elements. A value widened from 16 bits counts as its narrow source, in kernels
  /// without loops and inside loops: it is widened again at each use.
  unsigned data = 0;
  bool hasDot = false, hasLoop = false, exchanges = false, exchangesInLoops = false;
  // words that straight-line code loads for a single user; `data` does not count them
  unsigned passing = 0;
  std::vector<Iteration> iterations; // of loops without cuts, which the assembler unrolls with their loads first
  std::vector<RowLoop> rows;
};

/// The pressure of a kernel whose tensors have layouts.
Pressure pressureOf(const ir::Function &kernel, const ir::Module &gpu);

} // namespace tegula::nvidia
