// A lower bound of the elements of a float value, from the operations that compute it: 1 + exp(-x) is 1 or more.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// A number that no element other than NaN is below; -inf: none is known.
double lowerBound(const ir::Value *v);

} // namespace tegula::gpu
