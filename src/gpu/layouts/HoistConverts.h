// Hoists conversions between layouts to the read of shared memory, or to the load of narrower elements, that their
// operand is computed from.
//
//   %b = shared_load %tile : tensor<64x32xi8, L2>           %b = shared_load %tile : tensor<64x32xi8, L14>
//   %f = uitofp %b : tensor<64x32xf32, L2>           =>     %f = uitofp %b : tensor<64x32xf32, L14>
//   %h = fptrunc %f : tensor<64x32xf16, L2>                 %h = fptrunc %f : tensor<64x32xf16, L14>
//   %w = convert %h : tensor<64x32xf16, L14>
// The tile is in shared memory already. Read in the required layout, its elements need not pass through shared memory a
// second time, wider than they were, after a barrier. Rows that are broadcast on the way (scales, zeros) are converted
// to the required layout, in which a thread often needs fewer of them. Bytes that a thread then reads one by one are
// also computed one by one, not in words of four; the pass weighs that against the conversion through shared memory.
//
// Conversions of values computed from loaded elements that are half as wide or less (floats from halves, addresses from
// indices) move up to the load: the narrow elements are converted.
//
// A reduction across warps reads shared memory as well: the parts of all warps. The pass has them read in the required
// layout, so one exchange serves both purposes.
//
//   %s = reduce %x {axis = 0} : tensor<64xf32, L3>          %p = reduce (%x, its axis split: 4 warps) : tensor<4x64xf32, L8>
//   %w = convert %s : tensor<64xf32, L9>              =>    %r = convert %p : tensor<4x64xf32, L10>       the four parts of a sum in one thread
//                                                           %w = reduce %r {axis = 0} : tensor<64xf32, L9>
// The planner of conversions (layout/Conversion.h) places the parts so that neither stores nor loads have bank
// conflicts.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// Rewrites GPU IR in place where it pays by the target's cost model. Every value of the size of the result must be
/// computed only for this conversion, or for other conversions to the same layout, which then move together (a float32
/// in several parts). Runs after the passes that create reads of shared memory; remove-dead removes the operations left
/// without users.
void hoistConverts(ir::Module &m, const TargetInfo &target);

} // namespace tegula::gpu
