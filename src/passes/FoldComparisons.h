// Comparisons whose result their operands' ranges tell: masks of loops with bounds that are known, above all.
//
//   for %k = 0 to 1024 step 64 { %m = cmpi (%k + range(64)), 1024 {pred = slt} }     true: %k is at most 960
//
// Kernels with sizes as compile-time values (tl.constexpr) keep their masks, which then guard nothing: loads without
// them are wider, and products need no zeroes. Ranges also tell which extrema of 64 bits, and places of extrema, fit
// 32: they are found in those, as a GPU moves them in one register and has an instruction for a warp's.
//
//   %place = reduce (sext(range(64)) + select(%is, 0, 64)) { smin }     sext of the reduction of i32: places that a library keeps in 64 bits
//
// Ranges are exact: an operation that could leave its type has none.
#pragma once
#include "ir/Ir.h"

namespace tegula {

/// True if anything was folded.
bool foldComparisons(ir::Module &m);

} // namespace tegula
