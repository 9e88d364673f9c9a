// Computes a remainder from a quotient of the same numbers, so that there is one division.
//
//   q = sdiv x, y; r = srem x, y      becomes      q = sdiv x, y; p = mul q, y; r = sub x, p
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// In place, for signed and unsigned integers, scalars and tiles, where both operations are in one block, in either
/// order: a quotient after the remainder moves before it. Takes linear time.
void shareQuotients(ir::Module &m);

} // namespace tegula::gpu
