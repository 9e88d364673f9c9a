// `acc += dot(a, b)` becomes `acc = dot(a, b, acc)`: a sum of a dot into zeros and a running sum is that dot into the
// sum.
//
// Targets keep the accumulator of a dot where it is, in registers or in a loop's buffer; the dot into zeros and the
// addition take twice the registers, and the result has to be waited for in each iteration. Triton folds the same form,
// so kernels are written either way.
//
// Folded is an addition of which one side is a dot into zeros that nobody else uses, of the same block, and the other a
// running sum: what a loop carries or gives, or another dot, also scaled (attention's `acc * alpha`); zeros as well
// (`qk = tl.zeros(...); qk += tl.dot(q, k)`). Other values (a bias that is loaded) are left: the dot would wait for
// them. So is the sum of a dot that gives float16 and a running sum of float32 (`acc += tl.dot(p, v,
// out_dtype=tl.float16)`): products are added up in float32 in any case, and not rounded to 16 bits in between.
// And a sum of float16 that a loop carries from dot to dot is one of float32 there, which becomes float16 after the
// loop: rounded once, and not taken to registers of half the size and back in each iteration, for which an asynchronous
// dot would have to be waited for. Dots of fp8 are left: their sums are kept in fewer bits by the hardware, and an
// addition outside is how kernels ask for all of them.
//
// The dot then stands where the addition stood; rounding differs as it does between the two spellings. Runs when
// invariants have left the loops, so that no dot moves into one.
#pragma once
#include "ir/Ir.h"

namespace tegula {

void accumulateDots(ir::Module &m);

} // namespace tegula
