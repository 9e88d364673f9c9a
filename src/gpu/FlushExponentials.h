// Finds exponentials whose subnormal results may be flushed to zero: a one is in the same sum, and the results are only
// added up, multiplied and narrowed, so the difference does not show.
//
//   m = maximum(m_old, max(s, 1)); p = exp(s - m[:, None]); sum(p, 1); dot(p.to(bf16), v)
// An ex2 that keeps subnormal results takes one more comparison and two more products (ex2.approx in PTX ISA; ptxas
// scales its argument and squares its result).
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Marks such exponentials of float32 as `fast`, in place. The argument must be a difference to the maximum of its own
/// row, and sums must be of that row (along the axes of the maximum; a maximum of a row and of a constant need not be
/// an element). Then one term is 1, and the error of flushing a term is below 2^-126 of the sum. The maximum may also
/// be the running maximum of an earlier loop, if a later loop loads the same elements again in the same iterations and
/// the results are narrowed, or added up over all iterations. Exponentials that are only added to constants (`1 +
/// exp(-x)`) are marked whatever their argument is: the sum does not change. An exponential that is stored as float32,
/// compared, or passed to a function keeps its subnormal results.
void flushExponentials(ir::Module &m);

} // namespace tegula::gpu
