// Queries over all operations of a block, nested regions included, and about containment in regions.
#pragma once
#include "ir/Ir.h"
#include <algorithm>

namespace tegula::ir {

/// Whether fn(op) is true for an operation of the block or of a region in it. Visits in the order of the text, an
/// operation before its regions, and stops at the first match.
template <typename Fn> bool anyOp(const Block &b, const Fn &fn) {
  return std::any_of(b.ops.begin(), b.ops.end(), [&](const Op *op) {
    return fn(*op) ||
           std::any_of(op->regions.begin(), op->regions.end(), [&](const Region *r) { return anyOp(*r->block, fn); });
  });
}

/// Whether fn(value) is true for an argument of the block, or for a result or an argument in it.
template <typename Fn> bool anyValue(const Block &b, const Fn &fn) {
  auto any = [&](const std::vector<Value *> &values) {
    return std::any_of(values.begin(), values.end(), [&](const Value *v) { return fn(*v); });
  };
  return any(b.args) || anyOp(b, [&](const Op &op) {
           return any(op.results) || std::any_of(op.regions.begin(), op.regions.end(),
                                                 [&](const Region *r) { return any(r->block->args); });
         });
}

/// Whether the block is in a region of `op`, at any depth.
inline bool isInside(const Block *b, const Op &op) {
  for (; b && b->parent; b = b->parent->op ? b->parent->op->parent : nullptr)
    if (b->parent->op == &op)
      return true;
  return false;
}
/// Whether the value is defined in a region of `op`, as a result or an argument.
inline bool isInside(const Value *v, const Op &op) { return isInside(v->def ? v->def->parent : v->block, op); }

/// Whether the value is loop-invariant because it is defined outside. Constants count wherever they stand.
inline bool isInvariant(const Value *v, const Op &loop) {
  return (v->def && v->def->kind == OpKind::Const) || !isInside(v, loop);
}

} // namespace tegula::ir
