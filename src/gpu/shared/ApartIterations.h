// Loops whose iterations touch different elements: their accesses need no order among each other, so no barrier in
// every iteration.
//
//   for off in range(0, n, 1024): store(y + off + arange(0, 1024), ...)      1024 elements, 1024 further on each time
//
// Found from what an address is made of: a part that does not change in the loop, a multiple of the loop's counter, and
// coordinates that reach over that many elements. The multiple may be one of a number that is known at run time only:
//
//   for off in range(program_id(0) * 1024, n, num_programs(0) * 1024): ...    at least 1024 further on
//   for t in range(T): store(y + at + d, ..., mask=d < D); at += D             D further on, and all coordinates are between 0 and D
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// May `loop` (a For) touch an element in one iteration that another one, of any of the program's `ctas` CTAs, writes?
/// False if all that it accesses where it may write is accessed through one pointer (per argument), which no two
/// iterations share an element of, or if the iterations do parts of one tile's work.
bool iterationsMeet(const ir::Op &loop, unsigned ctas);

} // namespace tegula::gpu
