// What an operation does beside computing its results. The table of traits speaks of the operation alone; these
// functions look into its regions too: a `reduce` that prints in its region is not pure.
#pragma once
#include "ir/Ir.h"

namespace tegula {

/// Memory may have changed after it: stores, atomics, barriers, calls. Printing and assertions change none.
bool writesMemory(const ir::Op &op);
/// May go away if no result is used. Loads may unless volatile; a `while` that reads memory may not (it may be
/// waiting).
bool isRemovable(const ir::Op &op);
/// Computes its results from its operands and nothing else: may be moved, merged with an equal one, removed.
bool isPure(const ir::Op &op);
/// Are the attributes free of hints (divisibility, contiguity, constancy)? Those speak of this one result, so that an
/// operation that bears them is not rewritten into another shape.
bool isUnhinted(std::span<const ir::Attr> attrs);

/// Follows Value::forward to the value that stands for `v` now.
inline ir::Value *resolve(ir::Value *v) {
  while (v->forward)
    v = v->forward;
  return v;
}

/// Takes result or carried value `i` out of a For, While or If: operand, region arguments, yields, result. Nothing may
/// use it.
void eraseCarried(ir::Op &op, unsigned i);

} // namespace tegula
