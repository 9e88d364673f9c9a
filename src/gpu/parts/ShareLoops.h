// Partitions the iterations of consecutive loops over the blocks of a row over the CTAs of a cluster: CTA r of n
// executes iterations r, r + n, r + 2n ... of each loop.
//
//   for off in range(0, N, B): acc += load(x + off + cols)               acc of a third of the row's blocks, in each of three CTAs
//   total = sum(acc)                                                     sum(acc) of each, sent to the others, and the sum of these
//   for off in range(0, N, B): store(y + off, load(x + off) / total)     the same blocks, which are in shared memory still (HoldRows.h)
//
// So several multiprocessors hold a row that does not fit on one, and read it from memory once. A loop may carry a sum,
// a maximum, or a value that moves by steps (passes/SplitLoops.h), also a running maximum with the sum of exponentials
// relative to it. No other operation of the loop uses these, so the parts can be combined after the loop. Tile IR in,
// tile IR out: this code marks loops with `split`, and partition-cluster does the rest.
#pragma once
#include "ir/Ir.h"
#include <memory>

namespace tegula::gpu {

/// Can the CTAs of a cluster share the iterations of all loops of the kernel, which must not be nested? Not in kernels
/// that can observe it (ChooseCluster.h), nor where an iteration stores to memory that another one accesses, or loads
/// memory that was stored before: CTAs have no barrier in such loops.
bool canShareLoops(const ir::Module &m);

/// The kernel of one of `ctas` CTAs. Null if the loops cannot be shared.
std::unique_ptr<ir::Module> shareLoops(const ir::Module &m, unsigned ctas);

/// Do CTAs of a cluster synchronize in a loop? Their trip counts may differ.
bool meetInLoops(const ir::Module &gpu);

} // namespace tegula::gpu
