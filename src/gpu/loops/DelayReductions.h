// Moves the combination of threads' partial sums out of loops that add up reductions: threads combine once, after the
// loop, instead of in every iteration.
//
//   for k: s = reduce(x, axis) {+}       becomes      for k: t = reduce(x, the part of the axis within a thread)
//          acc = acc + s                                     p = p + t                         partial sums of each thread
//                                                     acc = init + reduce(p, the rest of the axis)
//
// A reduction across warps takes shared memory and two barriers, and one across lanes takes shuffles. The partial sums
// take the registers of one result, which `acc` no longer takes. Without the barriers, warps drift apart and the loads
// of several iterations are in flight.
//
// Applies to a carried value that the loop only adds to: on the way from the argument to the yield each value has one
// use, as an operand of such an addition. So the loop reads no intermediate sum.
// Products of integers, minima, maxima, and, or, exclusive or are treated alike. Operands that are not reductions are
// still added in each iteration. Sums of f16 and bf16 stay as they are: each iteration rounds the running sum, and a
// different order could change most of its bits. Sums of f32 and f64 may change in their last bits, as the order of a
// reduction is free anyway. Products of floats stay, too: partial products could overflow where the full product does
// not.
//
// A carried tile that the loop only adds to, and whose only use after the loop is such a reduction, becomes partial
// sums in the same way: acc = acc + x; reduce(acc) as acc = acc + reduce(x).
//
// The loop may also scale sums of floats, `acc = acc * scale + s` (attention, online softmax). The scale is uniform
// along the reduced axis, so each thread scales its partial sums. The initial value of acc is scaled, too, and is
// distributed among the partial sums. The scale must be known to lie between 0 and 1, such as exp2(m - max(m, x)): an
// infinite scale would turn a partial sum of zero into NaN, and a large one could overflow where the full sum does not.
// Does not apply to scaled sums in loops with dots and descriptor loads.
//
// Runs directly after assign-layouts: layouts say which part of an axis a thread holds, and later passes see fewer
// barriers.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Rewrites the loops of the kernel (GPU IR with layouts) in place, and removes the operations that become dead.
void delayReductions(ir::Module &m);

/// May a reduction's results be combined with each other in any order, also across iterations of a loop? split-tiles
/// then adds them up in loops, and leaves the rest to this pass.
bool canDelay(const ir::Op &reduction);

} // namespace tegula::gpu
