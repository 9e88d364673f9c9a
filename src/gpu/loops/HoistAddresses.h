// Splits the addresses of loads for dots into loop-invariant pointers and one moving offset, so that an iteration
// computes only one sum for each copy.
//
//   for k0 {                                                  rows = addptr b, (sext range) * (sext ld) + n    : one pointer for each row
//     k = splat k0 + range                                    for k0 {
//     load addptr (addptr b, k * ld), n             =>          load addptr rows, splat move               : move = k0 * ld, carried
//   }                                                           move = move + step * ld
//                                                             }
// A persistent kernel by pointers may have one loop over tiles and their steps. An `if` in it computes the rows and
// columns of a tile in the tile's first iteration, and yields the carried ones in the others. The parts of addresses
// that depend on its results are computed in that branch, carried as one offset for each row or column, and added.
//
// Why: copies whose addresses end in a multiplication or its wide sum are slow to start beside asynchronous dots. On an
// H200 (driver 580), matmul 4096^3 by block pointers with tiles of 128 x 256 x 64 and 8 warps made 528 TFLOP/s without
// this pass and 672 with it (560 and 651 with offsets computed in each iteration), though as many instructions run.
// Masks, instructions unrelated to addresses, the order of copies and asynchronous dots, and slots of rings changed
// either by less than 5 %. So a moving offset is loop-carried where it is linear in loop-carried values. That includes
// the counter itself, which is otherwise widened where it is added to each pointer: 8192^3 with offsets computed in
// each iteration 1548 us without and 1405 with it, with 4 warps 2160 and 1673; carrying only products by unknown
// numbers was up to 5 % slower. Offsets are carried through selections, too (a persistent kernel begins a tile at k = 0
// again: 8192^3 1640 us and 1580), but not beside short dots, where instructions count more (128 x 128 x 32, 4 warps:
// 2130 us and 2240). Pointers whose offsets differ by loop-invariant parts share one; equal carried counters (of two
// block pointers) become one.
//
// 32-bit offsets are split in 64-bit arithmetic, where no part can wrap around. For elements that exist the sum is the
// same by the contract of passes/WidenOffsets.h; masked-off elements may have any address. A carried offset is exact
// where the original number would have wrapped around, which the contract excludes in the same way.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// Rewrites the pointers of loads for dots in loops with num_stages >= 2 and asynchronous dots (GPU IR, in place,
/// before those loops are pipelined). The pointers must be sums, differences and products of loop-invariant values and
/// of scalars that change in the loop. Where registers are short, a load gets a short offset (ShortOffsets.h) or stays.
void hoistAddresses(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
