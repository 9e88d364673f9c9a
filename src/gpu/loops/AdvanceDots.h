// Starts a dot of a loop as soon as the one before it has been waited for, where neither needs the other's result.
//
//   for i { s = dot k, q[i];  p = exp2(s - m);  dv = dot p, do[i], dv;  dp = dot v, do[i];  dk = dot p * (dp - d), q[i], dk }
//   =>      s = dot k, q[i];  t = s - m;  dp = dot v, do[i];  p = exp2(t);  dv = ...;  dk = ...
//
// Backward attention, as everybody writes it, names the second of two products after the exponentials of the first; the
// tensor cores are idle meanwhile. (FlashAttention-3, Shah et al. 2024, section 3.1, does the same by hand.) Both
// results live at a time then, as they do where the two meet.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// Changes the order of operations in the loops of the kernel (GPU IR), before dots are made asynchronous. A dot moves
/// after what is computed at once from the result of the dot before it, with the views, loads and addresses that it
/// alone needs there. Loops of at least four asynchronous dots whose results leave registers for it: those of two and
/// three follow from each other, or are no longer than what would wait for them.
void advanceDots(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
