// Questions about all operations of a block, those in its regions included, and about what stands in which region.
#pragma once
#include "ir/Ir.h"
#include <algorithm>

namespace tegula::ir {

/// Is fn(op) true for an operation of the block or of a region in it? In the order of the text, an operation before its
/// regions; the first that is ends it.
template <typename Fn> bool anyOp(const Block &b, const Fn &fn) {
  return std::any_of(b.ops.begin(), b.ops.end(), [&](const Op *op) {
    return fn(*op) ||
           std::any_of(op->regions.begin(), op->regions.end(), [&](const Region *r) { return anyOp(*r->block, fn); });
  });
}

/// Is fn(value) true for an argument of the block, or for a result or an argument in it?
template <typename Fn> bool anyValue(const Block &b, const Fn &fn) {
  auto any = [&](const std::vector<Value *> &values) {
    return std::any_of(values.begin(), values.end(), [&](const Value *v) { return fn(*v); });
  };
  return any(b.args) || anyOp(b, [&](const Op &op) {
           return any(op.results) || std::any_of(op.regions.begin(), op.regions.end(),
                                                 [&](const Region *r) { return any(r->block->args); });
         });
}

/// Does the block stand in a region of `op`, at any depth?
inline bool isInside(const Block *b, const Op &op) {
  for (; b && b->parent; b = b->parent->op ? b->parent->op->parent : nullptr)
    if (b->parent->op == &op)
      return true;
  return false;
}
/// Is the value made there, as a result or an argument?
inline bool isInside(const Value *v, const Op &op) { return isInside(v->def ? v->def->parent : v->block, op); }

/// Is the value the same in all iterations of the loop, as it comes from outside? Constants may stand anywhere.
inline bool isInvariant(const Value *v, const Op &loop) {
  return (v->def && v->def->kind == OpKind::Const) || !isInside(v, loop);
}

} // namespace tegula::ir
