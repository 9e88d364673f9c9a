// Loops over the blocks of a row, one after the other, whose iterations the CTAs of a cluster share: CTA r of n does
// iterations r, r + n, r + 2n ... of each.
//
//   for off in range(0, N, B): acc += load(x + off + cols)               acc of a third of the row's blocks, in each of three CTAs
//   total = sum(acc)                                                     sum(acc) of each, sent to the others, and the sum of these
//   for off in range(0, N, B): store(y + off, load(x + off) / total)     the same blocks, which are in shared memory still (HoldRows.h)
//
// So a row that one multiprocessor has no room for is held by several, and read from memory once. What a loop carries
// is a sum, a maximum, or what steps move (passes/SplitLoops.h), also a running maximum with the sum of exponentials
// relative to it: what nobody in the loop sees, so that the parts can be combined after it. Tile IR in, tile IR out:
// loops are marked with `split`, and partition-cluster does the rest.
#pragma once
#include "ir/Ir.h"
#include <memory>

namespace tegula::gpu {

/// Can the CTAs of a cluster share the iterations of all loops of the kernel, none of which stands in another one? Not
/// of kernels that can notice (ChooseCluster.h), nor where an iteration stores what another one accesses, or loads what
/// was stored before: CTAs have no barrier in such loops.
bool canShareLoops(const ir::Module &m);

/// The kernel of one CTA of that many. Null: it cannot be shared.
std::unique_ptr<ir::Module> shareLoops(const ir::Module &m, unsigned ctas);

/// Do CTAs of a cluster wait for each other in a loop? Not all may run it equally often.
bool meetInLoops(const ir::Module &gpu);

} // namespace tegula::gpu
