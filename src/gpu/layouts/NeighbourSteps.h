// How far apart the addresses of neighbours are where they are not consecutive: what is known of strides that are
// arguments. And how many that are consecutive a layout keeps together.
//
//   x + rows[:, None] + columns[None, :] * stride         stride divisible by 16: along axis 1 addresses are multiples of 16 elements apart, whatever rows are
//   x + (rows % M)[:, None] + columns[None, :] * stride   along axis 0 addresses are consecutive wherever rows do not wrap around
#pragma once
#include "layout/LinearLayout.h"
#include "passes/AxisFacts.h"
#include <optional>

namespace tegula::gpu {

/// Divides the differences between elements of a tile of integers or pointers (in bytes) that differ in their place
/// along `axis` alone; 0: they are equal. 1 says nothing.
/// Looks at a bounded number of operations.
int64_t stepOfNeighbours(const ir::Value *v, unsigned axis, const AxisFacts &facts);

/// By how much elements of a tile of integers or pointers (in bytes) grow from one to the next along `axis` nearly
/// everywhere: but for wrap-arounds (x % n for consecutive x and a number n that all share), quotients by such a number
/// and clamped ends. Nothing: not known. For the order of accesses only: no two elements need to lie so. Looks at a
/// bounded number of operations.
std::optional<int64_t> usualStepOf(const ir::Value *v, unsigned axis, const AxisFacts &facts);

/// The axes of a tile of pointers as accesses take them: the one along which addresses are consecutive first, or nearly
/// everywhere so; one along which each has a sector of its own last (images by channels, whose stride is an argument);
/// else row-major.
std::vector<unsigned> axesByNeighbours(const ir::Value *pointer, const AxisFacts &facts);

/// Elements along `axis` that one access takes if they lie as `l` says: consecutive in registers and in memory,
/// aligned, at most 16 bytes. `mask` may be null.
int64_t vectorIn(const layout::LinearLayout &l, const ir::Value *pointer, const ir::Value *mask, unsigned axis,
                 const AxisFacts &facts);
/// Instructions of a thread for a load in this layout: one for registers of equal addresses, or for a vector along the
/// last axis.
int64_t loadsOf(const ir::Op &load, const layout::LinearLayout &l, const AxisFacts &facts);

} // namespace tegula::gpu
