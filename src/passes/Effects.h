// Side effects of operations. The table of traits covers the operation alone; these functions also look into its
// regions: a `reduce` that prints in its region is not pure.
#pragma once
#include "ir/Ir.h"

namespace tegula {

/// Whether memory may have changed after `op`: stores, atomics, barriers, calls. Printing and assertions change none.
bool writesMemory(const ir::Op &op);
/// Whether `op` may be removed if no result is used. Loads may unless volatile; a `while` that reads memory may not (it
/// may be a spin wait).
bool isRemovable(const ir::Op &op);
/// Whether `op` computes its results from its operands alone: it may be moved, merged with an equal one, removed.
bool isPure(const ir::Op &op);
/// Whether the attributes contain no hints (divisibility, contiguity, constancy). A hint holds for this one result, so
/// an operation with hints is not rewritten into another shape.
bool isUnhinted(std::span<const ir::Attr> attrs);

/// Follows Value::forward to the value that stands for `v` now.
inline ir::Value *resolve(ir::Value *v) {
  while (v->forward)
    v = v->forward;
  return v;
}

/// Erases result or carried value `i` of a For, While or If: operand, region arguments, yields, result. It must have no
/// uses.
void eraseCarried(ir::Op &op, unsigned i);

} // namespace tegula
