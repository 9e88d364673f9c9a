// Floats divided by one number.
#pragma once
#include "targets/common/Vec.h"

namespace tegula::targets {

/// What floats are multiplied by in place of a division by one number: its reciprocal as a sum of two floats, times a
/// power of two for numbers whose reciprocal would not be normal.
struct Divisor {
  llvm::Value *scale = nullptr, *high = nullptr, *low = nullptr;
};

/// Whether the target divides that way: it fuses multiply-adds. GPUs divide in a way of their own.
bool hasDivisors(const VecEmitter &v);
/// Of a float, any number or none (zero, infinity, NaN).
Divisor divisorOf(VecEmitter &v, llvm::Value *y);
/// x / y for floats of d's type, any: as the division gives but for some of a million results, which are off by one
/// step (2 ulp at most where the result is no normal number).
llvm::Value *divideBy(VecEmitter &v, llvm::Value *x, const Divisor &d);

} // namespace tegula::targets
