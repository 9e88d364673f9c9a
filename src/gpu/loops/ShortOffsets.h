// Replaces pointers of loads for dots by loop-invariant 32-bit offsets and one moving pointer, where a thread has no
// registers for that many pointers.
//
//   rows = addptr (addptr p, m * ld), k                       fixed = m * ld + k                    : 32 bits for each element that is loaded by itself
//   for ... {                                                 for ... {
//     load addptr rows, splat move                  =>          load addptr splat (addptr p, move), fixed
//   }                                                         }
// Rows that are not aligned are loaded element by element, so that a thread of 128x128x32 by four warps has 64 pointers
// beside 128 accumulators. An offset takes half the registers of a pointer, and an access takes one wide multiply-add
// in place of a 64-bit addition.
//
// The parts of an offset may be added in 32 bits: for elements that exist the sum fits by the contract of
// passes/WidenOffsets.h; masked-off elements may have any address.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Rewrites the pointers of a load of the loop's body in place (GPU IR) if they are the sum of loop-invariant pointers,
/// which are one pointer plus 32-bit offsets, and of one moving offset for the whole tile. Returns whether it did.
bool shortenOffset(ir::Module &m, ir::Op &loop, ir::Op &load);

} // namespace tegula::gpu
