// The order in which a thread runs the programs of a grid, and the rows of tiles that loops accumulate.
#pragma once
#include "targets/cpu/plan/Plan.h"
#include "targets/cpu/plan/Uses.h"

namespace tegula::cpu {

/// For kernels: are neighbours along y closer in memory than neighbours along x, and can the order of programs not be
/// observed?
bool runsAlongY(const ir::Function &f, const Uses &uses);
/// The nest of a `for` that only accumulates a tile in place, row by row, from short pieces of rows, each iteration
/// continuing where the last one ended: the rows may be interchanged outside the loop. Else null.
const Nest *accumulatesRows(const Step &s, const Plan &p);

} // namespace tegula::cpu
