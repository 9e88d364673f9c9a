// Stores and reductions of blocks through descriptors: what orders them among each other.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Are the blocks of two stores of one shape, in one tensor, and the same parts of it in each CTA of a cluster?
bool haveSameBlocks(const ir::Op &x, const ir::Op &y);

} // namespace tegula::gpu
