// Operands that asynchronous dots read from registers.
#pragma once
#include "gpu/Dots.h"
#include <algorithm>

namespace tegula::gpu {

/// Does an asynchronous dot of the block read `v` as its A from registers? (GPU IR.)
inline bool isFragment(const ir::Block &block, const ir::Value *v) {
  return v->type.isTensor() && std::ranges::any_of(block.ops, [&](const ir::Op *op) {
           return op->kind == ir::OpKind::Dot && isAsyncMma(*op) && op->operands[0] == v;
         });
}

} // namespace tegula::gpu
