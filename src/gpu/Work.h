// How many instructions an operation takes for each element of its tile: an estimate, for decisions about the size of straight code.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// For one element; 0 for what only names elements.
int64_t instructionsOf(const ir::Op &op);
/// For all of the operation's elements that one of `threads` threads has; 0 for scalars.
int64_t instructionsOf(const ir::Op &op, int64_t threads);

} // namespace tegula::gpu
