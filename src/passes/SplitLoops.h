// Loops whose iterations several CTAs may share: `tl.range(..., split="auto")`.
//
//   acc = 0                                             part r of n, of every n-th iteration
//   for k in range(0, K, BK):                           acc_r = 0; p_r = p + r * step
//     acc += f(load p, k)       =>                      for k in range(r * BK, K, n * BK): acc_r += f(load p_r, k); p_r += n * step
//     p += step                                         acc = acc_0 + ... + acc_(n-1), in an order that is the same each time
//
// That wants to know of each carried value how it comes from one iteration to the next: as a running sum, which nothing
// in the loop reads (of parts, which are combined in the end), or by steps that do not change (each part knows where it
// starts). Everything else makes an iteration wait for the one before. This is the analysis alone, on tile IR after the
// pipeline, for every target; gpu/parts/DealLoops.h rewrites the loop.
#pragma once
#include "ir/Ir.h"
#include "support/Diag.h"
#include <array>
#include <optional>

namespace tegula {

struct CarriedRole {
  enum class Kind : uint8_t { Sum, Steps, Top, Scaled, Moment, Other } kind = Kind::Other;
  ir::OpKind combine{};              // Sum, Top: of two parts
  bool startsOnce = false;           // Sum: what it starts from counts once; otherwise every part starts from that
  std::vector<const ir::Op *> steps; // Steps: the additions of an iteration, last one first
  const char *why = "";              // Other
  size_t top = 0;                    // Scaled: the number of its Top,
  const ir::Op *scale = nullptr;     // the exponential that it is scaled by,
  std::optional<double> factor;      // and the constant that its difference is multiplied by before; nullopt: none
  bool isWeighted = false;           // Scaled: the exponentials are multiplied by something, or some are left out
  std::array<size_t, 3> moments{};   // Moment: the numbers of mean, sum of squared deviations, weight
  const ir::Op *isFirst = nullptr;   // and the comparison of the counter with its first value, if there is one
  bool isGuarded = false;            // Top, Scaled: no NaN comes of elements of which none was larger than -inf yet
};
/// Of each carried value of a For: Sum, Steps or Other.
std::vector<CarriedRole> carriedRoles(const ir::Op &loop);
/// The same with Top and Scaled in place of those that are Other: a running maximum, and the sums of exponentials
/// relative to it (RelativeSums.h), in f32. Parts (top_i, sum_i) are together top = max(top_i) and sum of sum_i *
/// exp(top_i - top). And Moment for running moments (RunningMoments.h), whose parts a reduction joins.
std::vector<CarriedRole> rolesOfParts(const ir::Op &loop);
/// The operand of an addition of CarriedRole::steps that it adds.
unsigned addedOperand(const ir::Op &step, const ir::Op &loop);

/// The `split` of the kernel's loops: 0: there is none; -1: as the launch says.
int64_t splitOf(const ir::Function &kernel);
/// Reports loops that ask for `split` and cannot be.
void checkSplitLoops(const ir::Module &m, DiagEngine &diag);

} // namespace tegula
