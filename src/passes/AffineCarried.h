// Turns tensors that a loop carries only to add something each time into their start and a carried scalar:
//
//   %r = for ..., %p0 : T (%i, %p: T) {            %z = const 0 : i64
//     ... uses of %p ...                            %n = for ..., %z : i64 (%i, %off: i64) {
//     %q = addptr %p, splat(%s)            =>         %p = addptr %p0, splat(%off)
//     yield %q                                        ... uses of %p ...
//   }                                                 yield (%off + sext %s)
//                                                   }
//                                                   %r = addptr %p0, splat(%n)
//
// This is how matmul kernels walk their operands (`a_ptrs += BLOCK_K * stride`). Targets that cannot hold a tile in
// registers would store and reload a tensor of pointers each time around; and only now can AxisFacts see the address as
// base + scalar. Integer tensors (`offs += BLOCK`) likewise, exactly, in their own width.
//
// %s may be any scalar, also one computed in the loop; several additions and subtractions in a row count as one. A step
// that is a tensor is taken if it is invariant and constant along an axis (a broadcast): the loop then carries the
// number of steps, and the product is made at the small shape. Inner loops come first; the outer loop then sees base +
// scalar where the inner result was. Left alone: scalars (nothing to win), updates under an `if`, `while` loops, any
// other use of the sum as the next value.
#pragma once
#include "ir/Ir.h"

namespace tegula {

void affineCarried(ir::Module &m);

} // namespace tegula
