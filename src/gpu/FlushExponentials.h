// Exponentials that stand beside a one, and are only added up, multiplied and narrowed: whether they may be zero
// instead of subnormal is not visible in what is computed from them.
//
//   m = maximum(m_old, max(s, 1)); p = exp(s - m[:, None]); sum(p, 1); dot(p.to(bf16), v)
// ex2 that keeps subnormal results takes a comparison and two products more (ex2.approx in PTX ISA; ptxas scales its
// argument and squares its result).
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Marks such exponentials of float32 as `fast`, in place. The argument has to be a difference to a maximum of its own
/// row, and sums have to be of that row (along the axes of the maximum; a maximum of a row and of a constant need not
/// be an element): one term is 1 then, and what flushing takes away is below 2^-126 of the sum. Also to a running
/// maximum of a loop, of what a later one loads again in the same iterations, where the results are narrowed, or added
/// up over all iterations. Exponentials that are only added to constants (`1 + exp(-x)`) are marked whatever their
/// argument is: the sum is the same. An exponential that is stored as float32, compared, or given to a function keeps
/// its subnormal numbers.
void flushExponentials(ir::Module &m);

} // namespace tegula::gpu
