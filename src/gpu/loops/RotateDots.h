// Moves a loop's first dot one iteration ahead, so that it runs while the iteration computes with the result of the
// last one.
//
//   for i { s = dot q, k[i];  p = f(s);  acc = dot p, v[i], acc }
//   =>  s = dot q, k[lb];  for i (s) { n = dot q, k[i + step];  p = f(s);  acc = dot p, v[i], acc;  yield n }
//
// As in FlashAttention-3 (Shah et al. 2024, section 3.2, pipelining within a warpgroup): f leaves the tensor cores idle
// otherwise. The load for the iteration after the last one reads nothing that matters: through a descriptor zeros, by
// pointers nothing, under a mask.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// Rewrites loops of the kernel (GPU IR) in place, before pipelineLoops. A dot moves if it runs asynchronously, its A
/// and its accumulator do not change in the loop, its B comes from a load whose addresses or offsets can be computed
/// (or, indices, loaded) ahead, and another dot of the loop depends on its result. Not where indices are loaded and a
/// producer may do that (SpecializeWarps.h).
void rotateDots(ir::Module &m, const TargetInfo &target, const Options &options);
/// So many operations right before a loop are of its first iteration: a dot of the kind above, whose place in the loop
/// is taken by the next iteration's, and what only that dot is computed from. 0: the loop has no such dot.
size_t opsOfFirstDot(const ir::Op &loop);

} // namespace tegula::gpu
