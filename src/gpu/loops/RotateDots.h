// Moves a loop's first dot one iteration ahead, so that it runs beside the computation on the previous dot's result.
//
//   for i { s = dot q, k[i];  p = f(s);  acc = dot p, v[i], acc }
//   =>  s = dot q, k[lb];  for i (s) { n = dot q, k[i + step];  p = f(s);  acc = dot p, v[i], acc;  yield n }
//
// As in FlashAttention-3 (Shah et al. 2024, section 3.2, pipelining within a warpgroup): f leaves the tensor cores idle
// otherwise. The load for the iteration after the last one is harmless: through a descriptor it reads zeros, by
// pointers it is masked off.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// Rewrites loops of the kernel (GPU IR) in place, before pipelineLoops. Only loops with two dots, where registers have
/// room for two results of the first. The first dot moves if it runs asynchronously, its A and its accumulator are
/// loop-invariant, its B comes from a load whose addresses or offsets can be computed ahead (indices may be loaded
/// ahead), and the second dot depends on its result. Not where a producer may load the indices (SpecializeWarps.h), and
/// not in loops that canStagger (StaggerDots.h) accepts.
void rotateDots(ir::Module &m, const TargetInfo &target, const Options &options);
/// The number of operations right before `loop` that rotateDots moved out of its first iteration: the dot, and the
/// operations that are used only for it. 0: the loop has no such dot.
size_t opsOfFirstDot(const ir::Op &loop);

} // namespace tegula::gpu
