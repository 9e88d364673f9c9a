// Skips the selections of a tile where its mask holds for all elements, by a test of scalars instead of one for every
// element.
//
//   s = dot(q, k); s = where(rows[:, None] >= n + columns[None, :], s, -inf)      becomes      if smallest row < n + largest column { s = where(...) }
// Causal attention in one loop masks every tile, but only tiles on the diagonal have elements to mask. The same holds
// for lengths that only the last tile exceeds, and for windows.
#pragma once
#include "gpu/TargetInfo.h"
#include "ir/Ir.h"

namespace tegula::gpu {

/// GPU IR, in place, after waits for dots have been inserted. Puts a branch around selections in loops with
/// asynchronous dots, if the mask is computed in the loop by conjunctions and disjunctions of scalars and of
/// comparisons of sums of ranges, constants and scalars. removeDead removes masks that lose their last user.
void skipMasks(ir::Module &m, const TargetInfo &target, const Options &options);

/// GPU IR, in place. Turns branches around a selection by a mask, in loops with asynchronous dots, into selections, so
/// that dots overlap with the operations between them; skipMasks makes them branches again.
void openMaskBranches(ir::Module &m);

} // namespace tegula::gpu
