// Folds, canonicalizes (Canonicalize.h), merges equal operations, and straightens control flow, in one walk.
//
// The walk goes forward through each function and rebuilds every block: an operation is folded, rewritten by a rule,
// found equal to an earlier visible one, or kept. Equal means same kind, operands, result types and attributes; scopes
// follow regions. A load equals an earlier one if nothing in between may have written memory and it is not volatile.
// The regions of reduce and scan see nothing of what is outside: they stay functions of their arguments.
//
// Control flow: an `if` on a constant is its arm; inside an arm its condition is a constant; an `if` whose arms compute
// nothing is a select, in the region of a reduction or scan one whose arms only compute; a loop that cannot run gives
// its initial values; a loop that runs once is its body; carried values that never change are not carried. Masks of
// memory operations that are constants disappear.
//
// Ends with removeDead(), because merging leaves dead operations after. One call is enough for almost everything; rules
// that expose work to earlier operations wait for the next call (Pipeline.h makes several).
#pragma once
#include "ir/Ir.h"

namespace tegula {

/// What one call did: operations visited, nodes made or judged (a rule's nodes are judged, too), operations compared
/// for equality.
struct SimplifyWork {
  uint64_t visited = 0, judged = 0, compared = 0;
};

/// Adds to `work`, if there is one.
void simplify(ir::Module &m, SimplifyWork *work = nullptr);

} // namespace tegula
