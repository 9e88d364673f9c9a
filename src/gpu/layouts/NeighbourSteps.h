// Finds how far apart neighbouring addresses are where they are not consecutive, from facts about strides that are
// arguments; and how many consecutive elements a layout keeps together.
//
//   x + rows[:, None] + columns[None, :] * stride         stride divisible by 16: along axis 1 addresses are multiples of 16 elements apart, whatever rows are
//   x + (rows % M)[:, None] + columns[None, :] * stride   along axis 0 addresses are consecutive wherever rows do not wrap around
#pragma once
#include "layout/LinearLayout.h"
#include "passes/AxisFacts.h"
#include <optional>

namespace tegula::gpu {

/// A common divisor of the differences between elements of a tile of integers or pointers (in bytes) whose positions
/// differ only along `axis`; 0: the elements are equal; 1: nothing is known. Looks at a bounded number of operations.
int64_t stepOfNeighbours(const ir::Value *v, unsigned axis, const AxisFacts &facts);

/// The difference between one element and the next along `axis` of a tile of integers or pointers (in bytes), nearly
/// everywhere: except at wrap-arounds (x % n for consecutive x and a number n that all elements share), at steps of
/// quotients by such a number, and at clamped ends. Nullopt: not known. Only a heuristic for the order of accesses: it
/// need not hold for any two elements. Looks at a bounded number of operations.
std::optional<int64_t> usualStepOf(const ir::Value *v, unsigned axis, const AxisFacts &facts);

/// The axes of a tile of pointers in the order of accesses. First the axis along which addresses are consecutive, or
/// nearly everywhere so; last one along which each address is in a sector of its own (images by channels, whose stride
/// is an argument); else row-major.
std::vector<unsigned> axesByNeighbours(const ir::Value *pointer, const AxisFacts &facts);

/// The number of elements along `axis` that one access of layout `l` takes: consecutive in registers and in memory,
/// aligned, at most 16 bytes. `mask` may be null.
int64_t vectorIn(const layout::LinearLayout &l, const ir::Value *pointer, const ir::Value *mask, unsigned axis,
                 const AxisFacts &facts);
/// Instructions of a thread for `load` in layout `l`: one for registers of equal addresses, or for a vector along the
/// last axis, whichever gives fewer.
int64_t loadsOf(const ir::Op &load, const layout::LinearLayout &l, const AxisFacts &facts);

} // namespace tegula::gpu
