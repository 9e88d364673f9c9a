// Turns work on large tiles, which would be thousands of straight-line instructions in each thread, into loops over
// parts: element-wise work and reductions (TileParts.h says which, and shows the form). A loop in which elements
// iterate independently (LaneLoops.h) is such work, too: each part gets its own loop. Tile IR in, tile IR out.
//
// Without the pass, code size grows with the tiles, and the time of LLVM and of the assembler grows more than linearly:
// exp, sin and log of 128 elements a thread took the assembler 8 s. A thread would also hold more elements than it has
// registers.
//
// Runs before assignLayouts, which then works on ordinary loops over tiles of ordinary size.
#pragma once
#include "ir/Ir.h"
#include <memory>

namespace tegula::gpu {

struct StraightLimits {
  /// The most instructions of a thread (estimated, Work.h) between two operations that separate loops that are not
  /// split. The assembler takes 0.4 s for 1500 of them and 1.3 s for 3000, mostly for divisions. Kernels with usual
  /// tiles must stay below: straight-line code is fastest for them (softmax of 32768 columns with 8 warps: 2200).
  int64_t most = 2560;
  /// Instructions that a part should take: few enough to assemble quickly, and enough to make the loop overhead
  /// negligible.
  int64_t part = 1024;
  /// The fewest and the most elements of a part in a thread: at least two accesses of 16 bytes in flight; at most a
  /// number that fits in registers several times.
  int64_t fewest = 8, elements = 32;
  /// Several loops read data again that straight-line code holds in registers. They do not pay for tiles of up to
  /// `held` elements a thread, unless the work is `times` times `most`. (layer_norm of 128 elements a thread: 255
  /// registers, nothing spilled, 1 s.) Nor do they if one loop over fewer parts, each within these limits, is possible:
  /// softmax of 4 x 8192 goes row by row, and reads each row once.
  int64_t held = 128, times = 3;
  /// One loop of purely element-wise work reads nothing again. It pays as soon as a thread of straight-line code holds
  /// `words` words of loaded data for `many` elements, so that there is no room for a second block whose loads would
  /// keep memory busy meanwhile (gradients of a gated unit of 14336 columns with 8 warps: 243 registers, 406 us; with 4
  /// warps, in parts, 285). A part holds `wordsOfPart` words, which leaves room for two blocks.
  int64_t words = 96, many = 64, wordsOfPart = 48;
};

/// Null if nothing is split. `module` holds a kernel without calls. `threads`: the threads of a program. Dots whose
/// operands take more than `sharedBytes` bytes of shared memory are split, too.
std::unique_ptr<ir::Module> splitTiles(const ir::Module &module, unsigned threads, int64_t sharedBytes,
                                       const StraightLimits &limits = {});

} // namespace tegula::gpu
