// Masks of tiles that hold for all elements: asked of two numbers, not of every element.
//
//   s = dot(q, k); s = where(rows[:, None] >= n + columns[None, :], s, -inf)      becomes      if smallest row < n + largest column { s = where(...) }
// Causal attention in one loop masks every tile, of which only those on the diagonal have anything to mask; so do
// lengths that no tile but the last one exceeds, and windows.
#pragma once
#include "gpu/TargetInfo.h"
#include "ir/Ir.h"

namespace tegula::gpu {

/// GPU IR, in place, when waits for dots are there. Of selections in loops with asynchronous dots, whose mask is a
/// conjunction of comparisons of sums of ranges, constants and scalars, and changes in the loop: a branch around them.
/// Masks that lose their last user stay for removeDead.
void skipMasks(ir::Module &m, const TargetInfo &target, const Options &options);

/// GPU IR, in place: branches around a selection by a mask, in loops with asynchronous dots, become selections, so that
/// dots run beside what stands between them; skipMasks makes branches again.
void openMaskBranches(ir::Module &m);

} // namespace tegula::gpu
