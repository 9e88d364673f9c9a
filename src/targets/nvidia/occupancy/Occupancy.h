// How many blocks of a kernel should share an SM: a bound on registers that the assembler does not find by itself.
//
// A block that loads a row, meets at barriers and stores has nothing in flight while it computes; other blocks must
// have. ptxas in its relocatable mode, the only one nvJitLink has, spends registers freely instead: a softmax of 16384
// columns got 79 where 64 do, so one block on an SM instead of two, and 0.6 of the speed. Told how many blocks are
// wanted it keeps to its data and about 24.
#pragma once
#include "ir/Ir.h"
#include "targets/nvidia/Nvidia.h"

namespace tegula::nvidia {

/// Blocks that should share an SM, and what of a launch that depends on.
struct BlockWish {
  // 0: no request; 1: more have no room, so that the assembler need not try (withOneBlockMore in
  // runtime/cuda/BlockRequest.h)
  unsigned blocks = 0;
  unsigned most = 0;           // blocks that may be there, however few registers a thread takes; 0: any number
  // blocks, `most` or 0, that the rows are to be held in shared memory for (gpu/loops/HoldRows.h)
  unsigned held = 0;
  unsigned ctas = 1;           // of a cluster that shares the loops over these rows (gpu/parts/ShareLoops.h)
  const ir::Op *rows = nullptr; // the loop whose rows are read again, where `most` is given
  LaunchForms forms;
};

/// Blocks that should share an SM, the more the better as far as registers for live tiles, for addresses, and for loads
/// of later iterations (Little's law: 48 KiB under way on an SM, where arithmetic does not take longer than memory
/// anyway) go; 0 for no request: a bound of the user's, or nothing to gain. Loads of later iterations must suffice
/// where only sixteen warps run, as a grid may be small: a loop that the assembler unrolls is left registers for up to
/// four iterations. What a launch knows of the grid and of trips decides better, and is asked for
/// (support/LaunchForms.h). Where loops read a row again, no more blocks are to be there than those whose rows stay in
/// half of the L2 cache, if these are sixteen warps; or, where shared memory can hold them, as many as it has room for.
/// Persistent programs (`range(pid, n, num_programs)`) that can run at once are to do so, if their tiles alone have
/// room. A loop that stores has no loads of later iterations under way. A kernel with dots asks for the blocks that its
/// loops with asynchronous dots have chosen their rings for; without such loops for none. A CTA of a cluster asks for
/// more than one alone would. `sharedBytes`: what a block takes; `ahead`: what loops that load ahead asked
/// (gpu/loops/PrefetchLoads.h), which becomes part of the forms; `canHold`: shared memory can hold the rows; of up to
/// `mostCtas` multiprocessors together. Where the assembler would have to spill, the request is lowered, in the end
/// dropped (runtime/cuda/Assembler.h).
BlockWish wishedBlocks(const ir::Function &kernel, const ir::Module &gpu, const Options &options, uint64_t sharedBytes,
                       const LaunchForms &ahead = {}, bool canHold = false, unsigned mostCtas = 1);

} // namespace tegula::nvidia
