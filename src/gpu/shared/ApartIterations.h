// Finds loops whose iterations touch different elements: their accesses need no order, so no barrier in every
// iteration.
//
//   for off in range(0, n, 1024): store(y + off + arange(0, 1024), ...)      1024 elements, 1024 further on each time
//
// An address is the sum of a loop-invariant part, a multiple of the loop counter, and coordinates that span a known
// number of elements. The multiple may be of a number that is known only at run time:
//
//   for off in range(program_id(0) * 1024, n, num_programs(0) * 1024): ...    at least 1024 further on
//   for t in range(T): store(y + at + d, ..., mask=d < D); at += D             D further on, and all coordinates are between 0 and D
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// May one iteration of `loop` (a For) touch an element that another iteration, of any of the program's `ctas` CTAs,
/// writes? False if all accesses to memory that the loop may write are at fixed distances from one pointer (per
/// argument) whose elements no two iterations share, or if the iterations do parts of one tile's work.
bool iterationsMeet(const ir::Op &loop, unsigned ctas);

} // namespace tegula::gpu
