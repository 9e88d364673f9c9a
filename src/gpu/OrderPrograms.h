// Renumbers the programs of a grid so that those that run longest start first, and those that read the same tiles run
// at the same time.
//
// The blocks of a grid start in the order of their numbers, axis 0 first, and the blocks that start last run beside
// idle multiprocessors. Where the trip count of the loops with dots grows, or shrinks, with program_id(0) (causal
// attention), programs that differ only in the other axes run equally long. So the grid is renumbered: in groups of
// programs of the other axes, the longest of the whole group first. A group has only a few waves of programs, so that
// data which neighbours share (keys and values of a head) stays in the caches.
//
// For the same reason a grid whose first axis is the heads and a later one the queries (attention in servers) is
// renumbered with the queries first. With the heads first, the keys and values of all heads are read at the same time,
// and again for each further tile of queries. The pass recognizes such a grid by the addresses of tiles in loops with
// several dots: all depend on program_id(0), and some do not depend on the program_id of another axis.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// GPU IR, in place. Replaces program_id of all axes that the kernel uses by numbers computed from them and
/// num_programs, which permute the grid. Only for kernels whose programs cannot wait for each other: no atomics,
/// volatile loads, loads in while loops or calls. Not for clusters.
void orderPrograms(ir::Module &m);

} // namespace tegula::gpu
