// Widens integers of 8 and 16 bits that exchanges move to 32 bits: the keys of a sort of bf16.
//
//   %other = exchange %key {axis = 0, distance = 8} : tensor<256xi16>         %wide = sext %key : tensor<256xi32>
//   %gt = cmpi %key, %other {pred = sgt} : tensor<256xi1>               =>    %other = exchange %wide {axis = 0, distance = 8} : tensor<256xi32>
//   %kept = select %gt, %other, %key : tensor<256xi16>                        %gt = cmpi %wide, %other {pred = sgt} : tensor<256xi1>
//   store %to, %kept                                                          ... store %to, %(trunc %kept)
// A register holds one of them in either type, a shuffle moves one, and a comparison of narrow integers sign-extends
// both operands each time. Bitwise operations, minima, maxima, selections and comparisons give the same results on
// sign-extended integers, so nothing is converted between the first and the last exchange.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Tile IR with exchanges, before layouts; in place.
void widenKeys(ir::Module &m);

} // namespace tegula::gpu
