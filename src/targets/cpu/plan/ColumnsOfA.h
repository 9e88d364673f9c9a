// Left operands of dots that are column-major in memory: a transposed matrix.
//
// The micro-kernel reads single elements of A, so it supports any layout with constant row and column strides. To pack
// a transposed A by rows takes shuffles, a quarter of one per element; packed column after column, whole vectors are
// copied. (A block of rows reads a piece of each column, and the next block the rest of the same line; the packed
// columns are an odd number of lines apart, DotPlan::aDepthStride, so that those lines stay in L1.)
#pragma once
#include "ir/Ir.h"

namespace tegula::cpu {

/// Is the tensor [m][k] read from memory, perhaps converted, that is contiguous along m and not along k? Ignores that a
/// tile may wrap around (`% M`).
bool columnsLieTogether(const ir::Value *v);

} // namespace tegula::cpu
