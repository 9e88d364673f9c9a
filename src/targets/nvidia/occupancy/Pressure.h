// What a kernel without asynchronous products asks of registers and of memory: tiles alive at once, and what its loops
// load.
#pragma once
#include "gpu/loops/RowsAgain.h"
#include "ir/Ir.h"
#include <algorithm>
#include <cstdint>
#include <vector>

namespace tegula::nvidia {

/// What an iteration of a loop asks of memory and of the units for special functions, in one thread.
struct Iteration {
  const ir::Op *loop = nullptr;
  bool isShort = false;                    // constants say that it runs a few times
  std::ptrdiff_t begin = 0, end = 0;       // positions
  unsigned live = 0;                       // 32-bit words of tiles alive in it
  unsigned loadWords = 0, largestLoad = 0; // 32-bit words, of all loads and of one
  unsigned specials = 0;                   // exponentials, logarithms, ...: 16 lanes a cycle
  uint64_t bytes = 0;                      // of a block's loads; what several threads load counts once
  bool isUnrolled = false;                 // by the assembler: nothing forbids it
  // to memory, which may be what a later iteration loads: no load is moved over it
  bool stores = false;
  unsigned accesses = 0;                   // loads and stores
  bool divides = false;                    // what it carries, for the next iteration
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

/// A loop that loads what a later one loads again (RowsAgain.h).
struct RowLoop {
  const ir::Op *loop = nullptr;
  gpu::RowsAgain again;
  int64_t trips = 0; // 0: not constant
};

struct Pressure {
  /// 32-bit registers for tiles that are alive at once in one thread, at the worst place. Scalars, masks, and tiles
  /// made of ranges and scalars alone count nothing (recomputed, or immediates of addresses); nor does what has one
  /// user in the same block: it is computed register by register where it is used; nor, in loops, what is used up
  /// before elements are next exchanged. What is widened from 16 bits counts as what it is widened from, where there
  /// are no loops, or in them: it is widened again where it is used.
  unsigned data = 0;
  bool hasDot = false, hasLoop = false, exchanges = false, exchangesInLoops = false;
  // words that straight code loads for one user, which are not counted among what is alive
  unsigned passing = 0;
  std::vector<Iteration> iterations; // of loops without cuts, which the assembler unrolls with their loads in front
  std::vector<RowLoop> rows;
};

/// Of a kernel with layouts.
Pressure pressureOf(const ir::Function &kernel, const ir::Module &gpu);

} // namespace tegula::nvidia
