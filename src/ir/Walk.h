// Questions about all operations of a block, those in its regions included.
#pragma once
#include "ir/Ir.h"
#include <algorithm>

namespace tegula::ir {

/// Is fn(op) true for an operation of the block or of a region in it? In the order of the text, an operation before its regions; the first that is ends it.
template <typename Fn> bool anyOp(const Block &b, const Fn &fn) {
  return std::any_of(b.ops.begin(), b.ops.end(), [&](const Op *op) {
    return fn(*op) || std::any_of(op->regions.begin(), op->regions.end(), [&](const Region *r) { return anyOp(*r->block, fn); });
  });
}

/// Is fn(value) true for an argument of the block, or for a result or an argument in it?
template <typename Fn> bool anyValue(const Block &b, const Fn &fn) {
  auto any = [&](const std::vector<Value *> &values) { return std::any_of(values.begin(), values.end(), [&](const Value *v) { return fn(*v); }); };
  return any(b.args) || anyOp(b, [&](const Op &op) {
           return any(op.results) || std::any_of(op.regions.begin(), op.regions.end(), [&](const Region *r) { return any(r->block->args); });
         });
}

} // namespace tegula::ir
