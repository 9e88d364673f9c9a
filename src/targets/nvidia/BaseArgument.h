// The kernel argument that an address is derived from.
#pragma once
#include "ir/Ir.h"

namespace tegula::nvidia {

/// Index of the pointer argument of `f` that `pointer` (a scalar or a tensor) was computed from, -1 if that is unknown.
int baseArgument(const ir::Value *pointer, const ir::Function &f);

} // namespace tegula::nvidia
