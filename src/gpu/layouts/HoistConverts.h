// Conversions to another layout move up to the read of shared memory, or to the load of narrower elements, that their
// operand is computed from.
//
//   %b = shared_load %tile : tensor<64x32xi8, L2>           %b = shared_load %tile : tensor<64x32xi8, L14>
//   %f = uitofp %b : tensor<64x32xf32, L2>           =>     %f = uitofp %b : tensor<64x32xf32, L14>
//   %h = fptrunc %f : tensor<64x32xf16, L2>                 %h = fptrunc %f : tensor<64x32xf16, L14>
//   %w = convert %h : tensor<64x32xf16, L14>
// The tile is in shared memory already: read in the layout that is wanted, its elements need not cross it a second
// time, wider than they were, after a barrier. Rows that are broadcast on the way (scales, zeros) are converted for the
// wanted layout, in which a thread often needs fewer of them. Bytes that a thread reads one by one then are computed
// one by one, too, and not in words of four: that is weighed against the way through shared memory.
//
// So do those of what is computed from elements of memory that are half as wide or less (floats from halves, addresses
// from indices): the elements are moved.
//
// A reduction across warps reads shared memory as well: the parts of all warps. Those are read in the layout that is
// wanted, so one exchange serves both.
//
//   %s = reduce %x {axis = 0} : tensor<64xf32, L3>          %p = reduce (%x, its axis split: 4 warps) : tensor<4x64xf32, L8>
//   %w = convert %s : tensor<64xf32, L9>              =>    %r = convert %p : tensor<4x64xf32, L10>       the four parts of a sum in one thread
//                                                           %w = reduce %r {axis = 0} : tensor<64xf32, L9>
// The planner of conversions (layout/Conversion.h) places the parts so that neither stores nor loads have bank
// conflicts.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// Rewrites GPU IR in place where the target's costs say that it pays. Everything of the size of the result must be
/// computed for it alone, or for other conversions to the same layout, which move with it then: parts of float32 in
/// several terms. After the passes that make reads of shared memory; what it leaves without users, remove-dead removes.
void hoistConverts(ir::Module &m, const TargetInfo &target);

} // namespace tegula::gpu
