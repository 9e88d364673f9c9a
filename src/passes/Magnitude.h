// An upper bound of the absolute value of a float tile's elements, from the operations that compute them.
//
//   sitofp(i) * 4.6566e-10 * 6.2832     at most 6.2832, whatever the 32 bits of i are: an angle of random numbers
//
// Targets use it to decide whether an argument of a sine is small enough for the short range reduction.
#pragma once
#include "ir/Ir.h"

namespace tegula {

/// Bound on the absolute value of every finite element; infinity: nothing is known. Elements may also be NaN or
/// infinite. Looks at a bounded number of operations.
double magnitude(const ir::Value *v);

} // namespace tegula
