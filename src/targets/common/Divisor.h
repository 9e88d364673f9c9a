// Division of many floats by the same number.
#pragma once
#include "targets/common/Vec.h"

namespace tegula::targets {

/// The factors that replace a division by one number: its reciprocal as a sum of two floats, and a power of two for
/// numbers whose reciprocal would not be normal.
struct Divisor {
  llvm::Value *scale = nullptr, *high = nullptr, *low = nullptr;
};

/// Whether the target uses divisors: it must have fused multiply-adds. GPUs use another division.
bool hasDivisors(const VecEmitter &v);
/// The divisor for any float y, including zero, infinity and NaN.
Divisor divisorOf(VecEmitter &v, llvm::Value *y);
/// x / y for any floats of d's type. Equal to the correctly rounded quotient, except for a few results in a million
/// that are off by 1 ulp (at most 2 ulp if the result is not a normal number).
llvm::Value *divideBy(VecEmitter &v, llvm::Value *x, const Divisor &d);

} // namespace tegula::targets
