// In which order a thread runs the programs of a grid, and the rows of tiles that loops accumulate.
#pragma once
#include "targets/cpu/plan/Plan.h"
#include "targets/cpu/plan/Uses.h"

namespace tegula::cpu {

/// Kernels: whether neighbours along y are nearer to one another in memory than those along x, and nothing tells in
/// which order programs run.
bool runsAlongY(const ir::Function &f, const Uses &uses);
/// Of a `for` all of whose work is to accumulate a tile, row by row in place, from short pieces of rows that each round
/// goes on along: its nest, whose rows may be outside of the loop. Else null.
const Nest *accumulatesRows(const Step &s, const Plan &p);

} // namespace tegula::cpu
