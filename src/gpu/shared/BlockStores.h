// The order of stores and reductions of blocks through descriptors.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Do two stores have blocks of one shape in one tensor, with the same partition over the CTAs of a cluster?
bool haveSameBlocks(const ir::Op &x, const ir::Op &y);

} // namespace tegula::gpu
