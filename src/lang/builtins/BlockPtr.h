// Block pointers: records of base, shape, strides, offsets, block_shape and order, expanded where they are used.
#pragma once
#include "lang/builtins/Args.h"

namespace tegula::lang {

bool isBlockPtr(const Value &v);

/// The pointers of a block, and the mask of those in bounds along the checked dimensions (null: all are).
struct BlockAccess {
  Dtype pointer;
  ir::Value *pointers = nullptr;
  ir::Value *mask = nullptr;
};
/// `boundaryCheck` is the argument of load or store; reports dimensions that are wrong.
std::optional<BlockAccess> expandBlockPtr(Args &a, const Value &blockPtr, const Value &boundaryCheck, Loc boundaryLoc);

} // namespace tegula::lang
