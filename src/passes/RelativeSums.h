// Running maxima of loops with the sums of exponentials relative to them: softmax, cross entropy and entropy over the
// blocks of a row (SplitLoops.h: Top and Scaled).
//
//   now = max(top, x);  sum = sum * exp(top - now) + reduce(w * exp(y - now));  top = now
//
// The maximum may be per element, per row or a scalar, and several sums may share it; x is y, its maximum, or a value
// that the program derives from y for the maximum. Kernels write this in many ways; the analysis recognizes these:
//
//   now = reduce(max(y, top))                              the maximum of a block and of those before
//   now = where((top > x) | (top != top), top, x)          with NaN
//   top = where(mask, now, top), sum likewise              elements after the end of a row leave both as they are
//   safe = where(now == -inf, 0, now)                      in place of `now` in both differences, or
//   where(now == -inf, c, exp(...))                        in place of each of both exponentials, or of their differences: a guard, without which -inf - -inf makes NaN of elements of which none was larger yet
#pragma once
#include "passes/SplitLoops.h"

namespace tegula {

/// Sets the roles of maxima and their sums, which were Other. They have no other uses in the loop.
void findRelativeSums(const ir::Op &loop, std::vector<CarriedRole> &roles);

/// The source of `v` behind splats, broadcasts and added axes of extent one.
const ir::Value *behindSpreads(const ir::Value *v);

/// A maximum of two values `a` and `b`, by MaxNum, Maximum, or the select above, which equals Maximum except for the
/// sign of zero.
struct MaximumOf {
  ir::OpKind kind;
  const ir::Value *a, *b;
};
std::optional<MaximumOf> maximumOf(const ir::Value *v);
/// The same for a reduction of one operand to its maximum: MaxNum or Maximum.
std::optional<ir::OpKind> maximumOfElements(const ir::Op &reduce);

} // namespace tegula
