// Running maxima of loops with the sums of exponentials relative to them: softmax, cross entropy and entropy over the
// blocks of a row (SplitLoops.h: Top and Scaled).
//
//   now = max(top, x);  sum = sum * exp(top - now) + reduce(w * exp(y - now));  top = now
//
// By elements, by rows or for a number; several sums of one maximum; x is y, its maximum, or what the program takes of
// it for the maximum. Kernels write this in many ways, of which these are seen through:
//
//   now = reduce(max(y, top))                              the maximum of a block and of those before
//   now = where((top > x) | (top != top), top, x)          with NaN
//   top = where(mask, now, top), sum likewise              elements after the end of a row leave both as they are
//   safe = where(now == -inf, 0, now)                      in place of `now` in both differences, or
//   where(now == -inf, c, exp(...))                        in place of each of both exponentials, or of their differences: a guard, without which -inf - -inf makes NaN of elements of which none was larger yet
#pragma once
#include "passes/SplitLoops.h"

namespace tegula {

/// Sets the roles of maxima and their sums, which are Other so far. Nobody else in the loop sees any of them.
void findRelativeSums(const ir::Op &loop, std::vector<CarriedRole> &roles);

/// What a value is spread from by splats, broadcasts and axes of one.
const ir::Value *behindSpreads(const ir::Value *v);

/// The operation that a value is the maximum of two others by: MaxNum, Maximum, or the selection above, which is
/// Maximum but for the sign of zero.
struct MaximumOf {
  ir::OpKind kind;
  const ir::Value *a, *b;
};
std::optional<MaximumOf> maximumOf(const ir::Value *v);
/// The same of all elements of a reduction of one operand: MaxNum or Maximum.
std::optional<ir::OpKind> maximumOfElements(const ir::Op &reduce);

} // namespace tegula
