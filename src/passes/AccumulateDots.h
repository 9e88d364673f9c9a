// `acc += dot(a, b)` becomes `acc = dot(a, b, acc)`: the dot accumulates into the running sum instead of into zeros.
//
// Targets keep the accumulator of a dot in place, in registers or in a loop's buffer. A dot into zeros followed by an
// addition takes twice the registers, and each iteration has to wait for the result. Triton folds the same form, so
// kernels are written either way.
//
// The pass folds the addition of a dot into zeros, in the same block and without other users, to a running sum. A
// running sum is a value that a loop carries or returns, or another dot, also scaled (attention's `acc * alpha`); zeros
// count as well (`qk = tl.zeros(...); qk += tl.dot(q, k)`). Other values (a bias that is loaded) are left: the dot
// would wait for them. The pass also folds a dot that returns float16 into a running sum of float32 (`acc += tl.dot(p,
// v, out_dtype=tl.float16)`): hardware adds the products in float32 in any case, and the fold omits the rounding to 16
// bits. A sum of float16 that a loop carries from dot to dot becomes a sum of float32 in the loop, truncated to float16
// after it: it is rounded once, and no iteration converts the accumulator to half the size and back, which would mean
// to wait for an asynchronous dot. Dots of fp8 are left: the hardware keeps their sums in fewer bits, and kernels add
// outside of the dot to get full precision.
//
// The dot moves to the place of the addition; rounding differs as it does between the two spellings. Runs after
// invariants were hoisted, so that no dot moves into a loop.
#pragma once
#include "ir/Ir.h"

namespace tegula {

void accumulateDots(ir::Module &m);

} // namespace tegula
