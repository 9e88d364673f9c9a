// A remainder beside the quotient of the same numbers is computed from it, so that there is one division.
//
//   q = sdiv x, y; r = srem x, y      becomes      q = sdiv x, y; p = mul q, y; r = sub x, p
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// In place, for integers of both signs, scalars and tiles, where both stand in one block, in either order: a quotient
/// that stands after the remainder moves before it. Linear.
void shareQuotients(ir::Module &m);

} // namespace tegula::gpu
