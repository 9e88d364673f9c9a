// How far apart the addresses of neighbours are where they are not consecutive: what is known of strides that are arguments. And how many that are consecutive a layout keeps together.
//
//   x + rows[:, None] + columns[None, :] * stride     stride divisible by 16: along axis 1 addresses are multiples of 16 elements apart, whatever rows are
#pragma once
#include "layout/LinearLayout.h"
#include "passes/AxisFacts.h"

namespace tegula::gpu {

/// Divides the differences between elements of a tile of integers or pointers (in bytes) that differ in their place along `axis` alone; 0: they are equal. 1 says nothing.
/// Looks at a bounded number of operations.
int64_t stepOfNeighbours(const ir::Value *v, unsigned axis, const AxisFacts &facts);

/// The axes of a tile of pointers as accesses take them: the one along which addresses are consecutive first; one along which each has a sector of its own last (images by channels, whose stride is an
/// argument); else row-major.
std::vector<unsigned> axesByNeighbours(const ir::Value *pointer, const AxisFacts &facts);

/// Elements along `axis` that one access takes if they lie as `l` says: consecutive in registers and in memory, aligned, at most 16 bytes. `mask` may be null.
int64_t vectorIn(const layout::LinearLayout &l, const ir::Value *pointer, const ir::Value *mask, unsigned axis, const AxisFacts &facts);
/// Instructions of a thread for a load in this layout: one for registers of equal addresses, or for a vector along the last axis.
int64_t loadsOf(const ir::Op &load, const layout::LinearLayout &l, const AxisFacts &facts);

} // namespace tegula::gpu
