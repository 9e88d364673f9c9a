// Left operands of dots whose columns lie together in memory: a transposed matrix.
//
// The micro-kernel takes single elements of A, so that any order will do whose rows and columns are a constant apart.
// Packed by rows, a transposed A has to be turned around by shuffles, a quarter of one for each element; packed column
// after column it is copied by whole vectors. (A block of rows takes a piece of each column, and the next block the
// rest of the same line; the packed columns are an odd number of lines apart, DotPlan::aDepthStride, so that those
// lines stay in L1.)
#pragma once
#include "ir/Ir.h"

namespace tegula::cpu {

/// Is the tensor [m][k] read from memory, perhaps converted, in which neighbours along m lie side by side and
/// neighbours along k do not? Where a tile wraps around (`% M`) it is taken as if it did not.
bool columnsLieTogether(const ir::Value *v);

} // namespace tegula::cpu
