// Tiles of that many elements that a thread's share of the work would be thousands of instructions one after the other:
// element-wise work on them and reductions become loops over parts (TileParts.h says which, and shows the form). A loop
// of each element's own (LaneLoops.h) is such work, too: each part has its own loop. Tile IR in, tile IR out.
//
// Without that the text of a kernel grows with its tiles, and so does the time of LLVM and of the assembler, which is
// more than linear: exp, sin and log of 128 elements a thread took it 8 s. A thread would hold more elements than it
// has registers, too.
//
// Runs before assignLayouts, which then sees ordinary loops over tiles of ordinary size.
#pragma once
#include "ir/Ir.h"
#include <memory>

namespace tegula::gpu {

struct StraightLimits {
  /// Instructions of a thread (roughly: Work.h) that may stand between two operations that separate loops without being
  /// split. The assembler takes 0.4 s for 1500 of them and 1.3 s for 3000, mostly for divisions. Kernels of usual tiles
  /// must stay below: they are as fast as straight code can be (softmax of 32768 columns with 8 warps: 2200).
  int64_t most = 2560;
  /// What a part should take: short to assemble, and long enough that the loop costs nothing.
  int64_t part = 1024;
  /// Elements of a part that a thread has: at least two accesses of 16 bytes in flight; at most what fits in registers
  /// several times.
  int64_t fewest = 8, elements = 32;
  /// Several loops read again what straight code holds in registers: not worth it for tiles of that many elements a
  /// thread, unless the work is so many times `most`. (layer_norm of 128 elements a thread: 255 registers, nothing
  /// spilled, 1 s.) Nor if one loop over fewer parts, each within these limits, does: softmax of 4 x 8192 goes row by
  /// row, and reads each row once.
  int64_t held = 128, times = 3;
  /// One loop of work on elements alone reads nothing again: it is worth it as soon as a thread of straight code holds
  /// that many words of what it has loaded for that many elements, so that no second block fits beside it whose loads
  /// would keep memory busy meanwhile (gradients of a gated unit of 14336 columns with 8 warps: 243 registers, 406 us;
  /// with 4 warps, in parts, 285). A part holds as many as two blocks leave room for.
  int64_t words = 96, many = 64, wordsOfPart = 48;
};

/// Null if nothing is split. `module` holds a kernel without calls, of programs of that many threads; dots whose
/// operands have more than that many bytes of shared memory are split, too.
std::unique_ptr<ir::Module> splitTiles(const ir::Module &module, unsigned threads, int64_t sharedBytes,
                                       const StraightLimits &limits = {});

} // namespace tegula::gpu
