// What elements of a float value are at least, by the operations that made them: 1 + exp(-x) is 1 or more.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// A number that no element is below but those that are NaN; -inf: none is known.
double lowerBound(const ir::Value *v);

} // namespace tegula::gpu
