// Addresses of what is loaded for dots as fixed pointers and one moving offset, so that an iteration computes a sum for
// each copy.
//
//   for k0 {                                                  rows = addptr b, (sext range) * (sext ld) + n    : one pointer for each row
//     k = splat k0 + range                                    for k0 {
//     load addptr (addptr b, k * ld), n             =>          load addptr rows, splat move               : move = k0 * ld, carried
//   }                                                           move = move + step * ld
//                                                             }
// In one loop over tiles and their steps (a persistent kernel by pointers) an `if` computes rows and columns of a tile
// in its first iteration, and yields the carried ones in the others. What addresses take from its results is computed
// in that branch, carried as one offset for each row or column, and added.
//
// Why: copies whose addresses end in a multiplication or its wide sum are slow to start beside asynchronous dots. On an
// H200 (driver 580), matmul 4096^3 by block pointers with tiles of 128 x 256 x 64 and 8 warps made 528 TFLOP/s before
// and 672 so, with offsets computed in each iteration 560 and 651, though as many instructions run; masks, instructions
// that have nothing to do with addresses, the order of copies and asynchronous dots, and slots of rings changed less
// than 5 % of either. So a moving offset is carried where it is linear in what the loop carries, the counter itself
// too, which otherwise is widened where it is added to each pointer: 8192^3 with offsets computed in each iteration
// 1548 us before and 1405 so, with 4 warps 2160 and 1673; with products by unknown numbers alone carried up to 5 %
// slower. Through selections, too (a persistent kernel begins a tile at k = 0 again: 8192^3 1640 us and 1580), but
// beside short dots, where instructions count more (128 x 128 x 32, 4 warps: 2130 us and 2240). Pointers whose offsets
// differ by what does not move share one; numbers that the loop carries alike (of two block pointers) are one.
//
// Offsets of 32 bits are taken apart in 64, where no part can wrap around. For elements that exist the sum is the same
// by the contract of passes/WidenOffsets.h; masked-off ones may have any address. A carried offset is exact where the
// number it is made of would have wrapped around, which the contract excludes in the same way.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// Rewrites the pointers of loads that loops with num_stages >= 2 and asynchronous dots compute from (GPU IR, in place,
/// before those loops are pipelined), where sums, differences and products make them of what does not change in the
/// loop and of scalars that do; not where a thread has no registers for the pointers.
void hoistAddresses(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
