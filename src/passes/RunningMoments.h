// Running means and sums of squared deviations of loops (Welford), by elements:
//
//   delta = x - mean;  weight' = weight + 1;  mean' = mean + delta / weight';  m2' = m2 + delta * (x - mean')
//
// from 0 on, also under a mask that leaves all three as they are, and with (x, 0, 1) in place of the three in the first
// iteration. That is how Inductor writes layer norm.
#pragma once
#include "passes/SplitLoops.h"

namespace tegula {

/// Sets the roles of the three, which were Other or Sum. They have no other uses in the loop.
void findRunningMoments(const ir::Op &loop, std::vector<CarriedRole> &roles);

/// Whether `reduce` reduces running moments that a loop of its block carried, as (mean, m2, weight), to three numbers,
/// and its combination joins the moments of two sets of numbers, also of empty ones. The combination is recognized by
/// its results for a few samples, of weights up to 21, within 1e-5.
bool joinsMoments(const ir::Op &reduce);

} // namespace tegula
