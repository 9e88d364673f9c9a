// Where a thread has no registers for the pointers of what a loop loads for dots: offsets of 32 bits that stay, and one
// pointer that moves.
//
//   rows = addptr (addptr p, m * ld), k                       fixed = m * ld + k                    : 32 bits for each element that is loaded by itself
//   for ... {                                                 for ... {
//     load addptr rows, splat move                  =>          load addptr splat (addptr p, move), fixed
//   }                                                         }
// Rows that are not aligned are loaded element by element, so that a thread of 128x128x32 by four warps has 64 pointers
// beside 128 sums; of each offset it needs half, and an access takes one wide multiply-add in place of an addition of
// 64 bits.
//
// The parts of an offset may be added in 32 bits: for elements that exist the sum is one of them by the contract of
// passes/WidenOffsets.h; masked-off ones may have any address.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Rewrites the pointers of a load of the loop's body in place (GPU IR) if they are fixed ones, made of 32-bit offsets
/// of one pointer, and a number of the whole tile that moves. Was it so?
bool shortenOffset(ir::Module &m, ir::Op &loop, ir::Op &load);

} // namespace tegula::gpu
