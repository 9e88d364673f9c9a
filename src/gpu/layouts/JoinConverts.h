// Conversions of the two operands of a dot through shared memory meet once, not one after the other.
//
//   %a1 = convert %a                          shared_store %x, %a
//   %b1 = convert %b                   =>     shared_store %y, %b
//   %d = dot %a1, %b1, %acc                   %a1 = shared_load %x
//                                             %b1 = shared_load %y
//                                             %d = dot %a1, %b1, %acc
// A conversion stores, meets and loads, and the next one may store only when all have loaded: four barriers an iteration. With bytes of their own both
// store, meet and load: two.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// Rewrites GPU IR in place: pairs of small tiles that cross warps, in kernels whose shared memory is not planned for rings. Behind the passes that change conversions.
void joinConverts(ir::Module &m, const TargetInfo &target);

} // namespace tegula::gpu
