// Replaces a loop-carried tensor that each iteration only adds a step to by its initial value and a loop-carried
// scalar:
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
// registers would store and reload a tensor of pointers in each iteration. After the pass AxisFacts sees the address as
// base + scalar. Integer tensors (`offs += BLOCK`) are treated likewise, exactly, in their own width.
//
// %s may be any scalar, also one computed in the loop; a chain of additions and subtractions counts as one. A tensor
// step is accepted if it is invariant and constant along an axis (a broadcast): the loop then carries the number of
// steps, and the multiplication happens at the small shape. Inner loops come first; the outer loop then sees base +
// scalar where the inner result was. Left alone: scalars (no gain), updates under an `if`, `while` loops, any other use
// of the sum as the next value.
#pragma once
#include "ir/Ir.h"

namespace tegula {

void affineCarried(ir::Module &m);

} // namespace tegula
