// Which programs of a grid start first: those that run longest, and side by side those that read the same tiles.
//
// The blocks of a grid start in the order of their numbers, axis 0 first, and those that start last run beside idle
// multiprocessors. Where the loops with dots run more often, or less often, the larger program_id(0) is (causal
// attention), programs that differ in the other axes only have one length. So the grid is dealt out anew:
// in groups of programs of the other axes, the longest of the whole group first. A group has some waves of programs, no
// more: what neighbours read in common (keys and values of a head) has to stay in the caches.
//
// For the same reason a grid whose first axis is the heads, and a further one the queries, as of servers' attention, is
// dealt out by queries first: with the heads first the keys and values of all heads are read at once, and once more for
// each further tile of queries. Asked are the addresses of tiles in loops with several dots: all are made of
// program_id(0), some are not made of another axis'.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// GPU IR, in place: program_id of all axes that the kernel uses become numbers computed from them and num_programs, a
/// permutation of the grid. Only kernels whose programs cannot wait for each other: no atomics, volatile loads, loads
/// in while loops or calls. Not for clusters.
void orderPrograms(ir::Module &m);

} // namespace tegula::gpu
