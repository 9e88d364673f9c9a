// Warp specialization: one thread of a warp or warpgroup that is there for it alone starts all block copies (the
// producer), the others compute (the consumers).
//
//   rings, mbarriers
//   partitions { for tile { for k { wait until the stage is full; dots; stage is free }; epilogue } }     the consumers: all that the kernel did
//          and { for tile { for k { wait until the stage is free; copies } } }     the producer: what the copies' operands need of the kernel, and no more
// The producer runs as far ahead as the rings allow, over the borders of loops: the next tile's copies run beside the
// epilogue whatever it does, and no warp that computes spends instructions on addresses. Consumers never wait for each
// other on account of copies, so one warpgroup's epilogue can run beside another's asynchronous dots. (Bauer et al.,
// CudaDMA, SC 2011; CUTLASS calls it warp-specialized.)
//
// Where loads are no block copies, but could be copied by threads (async_copy), all threads of the producer do that,
// and arrive when their copies are done: any pointers and masks.
//
// Loops that follow each other with the same tiles share their rings: the stages go on where the loop before has left
// them.
#pragma once
#include "gpu/TargetInfo.h"
#include "support/Diag.h"

namespace tegula::gpu {

/// Rewrites the kernel (GPU IR) in place, before pipelineLoops, which leaves its loops alone then. Done if a loop asks
/// for it (warp_specialize), or unasked where it pays and no loop forbids it (warp_specialize = 0): loops over tiles
/// (persistent kernels), and loops with two dots (attention). All loops with dots must be Fors inside Fors and branches
/// whose loads are desc_loads, or (unasked, two dots) all loads of pointers; the kernel may store, but not to the
/// memory that is loaded, and has no atomics. If a loop asks and it cannot be done, a remark says why.
void specializeWarps(ir::Module &m, const TargetInfo &target, const Options &options, DiagEngine *remarks = nullptr);

} // namespace tegula::gpu
