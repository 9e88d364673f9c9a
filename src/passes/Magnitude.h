// How large the elements of a float tile can be, from what they are made of.
//
//   sitofp(i) * 4.6566e-10 * 6.2832     at most 6.2832, whatever the 32 bits of i are: an angle of random numbers
//
// Targets ask it whether an argument of a sine is within reach of the short reduction.
#pragma once
#include "ir/Ir.h"

namespace tegula {

/// Every element that is a number is at most so large, without sign; infinity: nothing is known. Elements may be NaN or
/// infinite. Looks at a bounded number of operations.
double magnitude(const ir::Value *v);

} // namespace tegula
