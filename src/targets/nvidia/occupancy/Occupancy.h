// How many blocks of a kernel should share an SM: a bound on registers that the assembler does not find automatically.
//
// A block that loads a row, synchronizes at barriers and stores has no loads in flight while it computes; other blocks
// must have them. ptxas in its relocatable mode, the only one that nvJitLink has, uses registers freely instead: a
// softmax of 16384 columns got 79 where 64 suffice, so one block ran on an SM instead of two, at 0.6 of the speed. With
// a requested number of blocks, ptxas uses registers for the live data and about 24 more.
#pragma once
#include "ir/Ir.h"
#include "targets/nvidia/Nvidia.h"

namespace tegula::nvidia {

/// The requested number of blocks per SM, and the facts of a launch that it depends on.
struct BlockWish {
  // 0: no request; 1: more do not fit, so the assembler need not try (withOneBlockMore in
  // runtime/cuda/BlockRequest.h)
  unsigned blocks = 0;
  unsigned most = 0;           // limit of resident blocks, even if registers allow more; 0: no limit
  // `most` if shared memory holds the rows of that many blocks (gpu/loops/HoldRows.h), else 0
  unsigned held = 0;
  unsigned ctas = 1;           // of a cluster that shares the loops over these rows (gpu/parts/ShareLoops.h)
  const ir::Op *rows = nullptr; // the loop whose rows are read again, if `most` is set
  LaunchForms forms;
};

/// The number of blocks that should share an SM; 0: no request (the user set a bound, or there is nothing to gain).
///
/// - It is the largest number that leaves registers for live tiles, addresses, and loads of later iterations (Little's
///   law: 48 KiB in flight on an SM, unless arithmetic takes longer than memory).
/// - Loads of later iterations must suffice with only sixteen warps running, since a grid may be small: a loop that the
///   assembler unrolls is left registers for up to four iterations. The grid and trip counts of a launch decide better;
///   the forms ask for them (support/LaunchForms.h).
/// - Where loops read a row again, the limit is the number of blocks whose rows stay in half of the L2 cache, if these
///   are sixteen warps; or the number whose rows fit into shared memory, if it can hold them.
/// - Persistent programs (`range(pid, n, num_programs)`) all run at once if they can, even if only their tiles fit.
/// - A loop that stores has no loads of later iterations in flight.
/// - A kernel with dots requests the blocks for which its loops with asynchronous dots sized their rings; without such
///   loops, none. A CTA of a cluster requests more than a single CTA would.
///
/// `sharedBytes`: shared memory of a block. `ahead`: the forms that loops with prefetched loads request
/// (gpu/loops/PrefetchLoads.h); the result's forms include them. `canHold`: shared memory can hold the rows, that of up
/// to `mostCtas` multiprocessors together. If the assembler would have to spill, the runtime lowers the request, and
/// finally drops it (runtime/cuda/Assembler.h).
BlockWish wishedBlocks(const ir::Function &kernel, const ir::Module &gpu, const Options &options, uint64_t sharedBytes,
                       const LaunchForms &ahead = {}, bool canHold = false, unsigned mostCtas = 1);

} // namespace tegula::nvidia
