// Warp specialization: one thread of a dedicated warp or warpgroup (the producer) starts all block copies, the other
// warps (the consumers) compute.
//
//   rings, mbarriers
//   partitions { for tile { for k { wait until the stage is full; dots; stage is free }; epilogue } }     the consumers: all of the kernel's computation
//          and { for tile { for k { wait until the stage is free; copies } } }     the producer: only the operations that the copies' operands depend on
// The producer runs as far ahead as the rings allow, also across the ends of loops: the next tile's copies run beside
// any epilogue, and no consumer warp spends instructions on addresses. Consumers never wait for each other because of
// copies, so one warpgroup's epilogue can run beside another's asynchronous dots. (Bauer et al., CudaDMA, SC 2011;
// CUTLASS calls it warp-specialized.)
//
// Where loads are not block copies but can be copied by threads (async_copy), all threads of the producer copy, with
// any pointers and masks, and arrive at the mbarrier when their copies are done.
//
// Consecutive loops with the same tiles share their rings: a loop starts at the stage where the previous loop ended.
#pragma once
#include "gpu/TargetInfo.h"
#include "support/Diag.h"

namespace tegula::gpu {

/// Rewrites the kernel (GPU IR) in place, before pipelineLoops, which then leaves the rewritten loops alone. Applies if
/// a loop asks for it (warp_specialize), or automatically where it pays and no loop forbids it (warp_specialize = 0):
/// in loops over tiles (persistent kernels), and in loops with two dots (attention). All loops with dots must be Fors,
/// inside Fors and branches only. Their loads must be desc_loads, or (automatic, two dots) all be loads of pointers.
/// The kernel may store, but not to memory that those loops load, and has no atomics. If a loop asks and the kernel
/// cannot be rewritten, a remark says why.
void specializeWarps(ir::Module &m, const TargetInfo &target, const Options &options, DiagEngine *remarks = nullptr);

} // namespace tegula::gpu
