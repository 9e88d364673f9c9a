// Starts a dot of a loop right after the wait for the dot before it, where neither needs the other's result.
//
//   for i { s = dot k, q[i];  p = exp2(s - m);  dv = dot p, do[i], dv;  dp = dot v, do[i];  dk = dot p * (dp - d), q[i], dk }
//   =>      s = dot k, q[i];  t = s - m;  dp = dot v, do[i];  p = exp2(t);  dv = ...;  dk = ...
//
// The usual source of backward attention names the second of two products after the exponentials of the first, and the
// tensor cores are idle during the exponentials. (FlashAttention-3, Shah et al. 2024, section 3.1, does the same by
// hand.) The live ranges of both results overlap then, as they do anyway where an operation reads both.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// Reorders operations in the loops of the kernel (GPU IR, in place), before dots are made asynchronous. A dot moves up
/// to the place after the cheap arithmetic on the result of an earlier dot. The views, loads and addresses that the
/// moved dot needs move with it. Changes only loops with at least four asynchronous dots whose results leave enough
/// registers: two or three dots depend on each other, or take no longer than the work that would wait for them.
void advanceDots(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
