// Folds, canonicalizes (Canonicalize.h), merges equal operations, and straightens control flow, in one walk.
//
// The walk goes forward through each function and rebuilds every block: an operation is folded, rewritten by a rule,
// found equal to an earlier visible one, or kept. Equal means same kind, operands, result types and attributes; scopes
// follow regions. A load equals an earlier one if nothing in between may have written memory and it is not volatile.
// The regions of reduce and scan see no outside values: they stay functions of their arguments.
//
// Control flow: an `if` on a constant becomes the taken arm; inside an arm the condition is a constant; an `if` with
// empty arms becomes a select, and in the region of a reduction or scan also one whose arms are pure; a loop with trip
// count zero becomes its initial values; a loop with trip count one becomes its body; loop-carried values that never
// change are not carried. Constant masks of memory operations are removed.
//
// Ends with removeDead(), because merging leaves dead operations. One call suffices almost always; new opportunities at
// earlier operations wait for the next call (Pipeline.h makes several).
#pragma once
#include "ir/Ir.h"

namespace tegula {

/// Statistics of one call: operations visited, nodes that rules were tried on (nodes that rules make included),
/// operations compared for equality.
struct SimplifyWork {
  uint64_t visited = 0, judged = 0, compared = 0;
};

/// Adds its statistics to `work` unless that is null.
void simplify(ir::Module &m, SimplifyWork *work = nullptr);

} // namespace tegula
