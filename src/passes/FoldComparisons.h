// Folds comparisons whose result follows from their operands' ranges, above all masks of loops with constant bounds.
//
//   for %k = 0 to 1024 step 64 { %m = cmpi (%k + range(64)), 1024 {pred = slt} }     true: %k is at most 960
//
// Kernels with compile-time sizes (tl.constexpr) keep their masks, which are then always true: loads without masks are
// wider, and dots need no zero fill. Ranges also show which extrema of 64 bits, and indices of extrema, fit 32 bits.
// The pass reduces those in 32 bits, because a GPU moves them in one register and has an instruction for the extremum
// over a warp.
//
//   %place = reduce (sext(range(64)) + select(%is, 0, 64)) { smin }     sext of the reduction of i32: places that a library keeps in 64 bits
//
// Ranges are exact: an operation that could overflow its type has none.
#pragma once
#include "ir/Ir.h"

namespace tegula {

/// True if anything was folded.
bool foldComparisons(ir::Module &m);

} // namespace tegula
