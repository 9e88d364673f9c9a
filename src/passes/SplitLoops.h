// Finds loops whose iterations may be split among several CTAs: `tl.range(..., split="auto")`.
//
//   acc = 0                                             part r of n, of every n-th iteration
//   for k in range(0, K, BK):                           acc_r = 0; p_r = p + r * step
//     acc += f(load p, k)       =>                      for k in range(r * BK, K, n * BK): acc_r += f(load p_r, k); p_r += n * step
//     p += step                                         acc = acc_0 + ... + acc_(n-1), in an order that is the same each time
//
// A split needs the role of each loop-carried value: a running sum that nothing else in the loop reads (the parts are
// combined at the end), or a value that advances by invariant steps (each part computes its start). Any other
// loop-carried value makes an iteration depend on the one before. This file is the analysis alone, on tile IR after the
// pipeline, for every target; gpu/parts/DealLoops.h rewrites the loop.
#pragma once
#include "ir/Ir.h"
#include "support/Diag.h"
#include <array>
#include <optional>

namespace tegula {

struct CarriedRole {
  enum class Kind : uint8_t { Sum, Steps, Top, Scaled, Moment, Other } kind = Kind::Other;
  ir::OpKind combine{};              // Sum, Top: the operation that combines two parts
  bool startsOnce = false;           // Sum: one part starts from the initial value; otherwise every part does
  std::vector<const ir::Op *> steps; // Steps: the additions of an iteration, last first
  const char *why = "";              // Other: the reason
  size_t top = 0;                    // Scaled: the index of its Top,
  const ir::Op *scale = nullptr;     // the exponential that scales it,
  std::optional<double> factor;      // and the constant factor of the difference in its exponent; nullopt: none
  bool isWeighted = false;           // Scaled: the exponentials are multiplied by something, or some are left out
  std::array<size_t, 3> moments{};   // Moment: the indices of mean, sum of squared deviations, weight
  const ir::Op *isFirst = nullptr;   // and the comparison of the counter with its first value, if there is one
  bool isGuarded = false;            // Top, Scaled: no NaN arises while every element so far is -inf
};
/// The role of each carried value of a For: Sum, Steps or Other.
std::vector<CarriedRole> carriedRoles(const ir::Op &loop);
/// The same, with more roles in place of Other. Top and Scaled: a running maximum, and the sums of exponentials
/// relative to it (RelativeSums.h), in f32. Parts (top_i, sum_i) combine to top = max(top_i) and the sum of sum_i *
/// exp(top_i - top). Moment: running moments (RunningMoments.h), whose parts a reduction joins.
std::vector<CarriedRole> rolesOfParts(const ir::Op &loop);
/// Which operand of `step`, an addition of CarriedRole::steps, is the step added to the carried value.
unsigned addedOperand(const ir::Op &step, const ir::Op &loop);

/// The `split` of the kernel's loops. 0: none; -1: the launch decides.
int64_t splitOf(const ir::Function &kernel);
/// Reports loops that request `split` and cannot be split.
void checkSplitLoops(const ir::Module &m, DiagEngine &diag);

} // namespace tegula
