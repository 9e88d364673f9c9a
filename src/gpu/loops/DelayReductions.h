// Sums that a loop adds up: threads combine once, after the loop, instead of in every iteration.
//
//   for k: s = reduce(x, axis) {+}       becomes      for k: t = reduce(x, the part of the axis within a thread)
//          acc = acc + s                                     p = p + t                         partial sums of each thread
//                                                     acc = init + reduce(p, the rest of the axis)
//
// A reduction across warps takes shared memory and two barriers, and one across lanes takes shuffles. The partial sums
// take the registers of one result, which `acc` no longer takes. Without a barrier, warps run apart and the loads of
// several iterations are in flight.
//
// Done for a carried value that the loop only adds to: every use on the way from the argument to the yield is the other
// operand of one operation. So the loop sees no intermediate sum.
// The same holds for products of integers, minima, maxima, and, or, exclusive or. Operands that are no reductions are
// still added in each iteration. Sums of f16 and bf16 stay where they are: each iteration rounds the running sum, and a
// different order could change most of its bits. Sums of f32 and f64 may change in their last bits, as with the order
// of a reduction, which is free. Products of floats stay, too: partial products could overflow where the whole does
// not.
//
// A carried tile that the loop only adds to, and that one such reduction takes after it, becomes the same partial sums:
// acc = acc + x; reduce(acc) as acc = acc + reduce(x).
//
// Sums of floats may be scaled in the loop as well, `acc = acc * scale + s` (attention, softmax online): the scale is
// the same for all of the reduced axis, so each thread scales its partial sums. What acc begins with is scaled, too,
// and is shared among the partial sums. Only by what is known to lie between 0 and 1, such as exp2(m - max(m, x)): an
// infinite scale would make NaN of a partial sum that is zero, and a large one could overflow where the sum of all does
// not. Not beside dots of tiles that descriptors load.
//
// Runs directly after assign-layouts: layouts say which part of an axis a thread holds, and later passes see fewer
// barriers.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

void delayReductions(ir::Module &m);

/// Is the order free in which a reduction's results are combined with each other, also across iterations of a loop?
/// split-tiles adds them up in loops then, and leaves the rest to this pass.
bool canDelay(const ir::Op &reduction);

} // namespace tegula::gpu
