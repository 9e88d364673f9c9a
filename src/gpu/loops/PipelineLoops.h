// Software pipelining of loops around dots: operands come into shared memory by asynchronous copies some iterations
// ahead, and asynchronous dots stay in flight until their result is needed.
//
//   ring = shared_alloc {slots}                            for each load that a dot is computed from
//   D times: if runs { async_copy ring[i], ... }; commit   the first D iterations' copies
//   for ... {
//     async_wait {D - 1}; shared_barrier                   this iteration's tiles are there; everybody left the last iteration
//     dot ring[r] ... {async}                              waited for where its result is first used
//     if runs D iterations later { async_copy ring[w], ... }; commit
//   }
// Tiles that block copies bring (desc_load) have mbarriers instead: one says that a stage is full, one that all warps
// are done with it; warps need not meet, so warpgroups may drift apart. A warp is done with the last iteration's stage
// where it has waited for the asynchronous dots that read it, and copies may overwrite it from there on: D + 1 stages
// are enough, and where there are more, copies are started farther ahead.
//
// One barrier an iteration is enough: whoever writes a slot has passed a barrier that every thread reached after it was
// done with the slot. A slot is free one iteration after its use, two if the asynchronous dot that reads it is still in
// flight at the end of the iteration; so a ring of async_copy has D + 1 or D + 2 slots. Where memory is short, copies
// start after the wait for that dot and a second barrier, which costs a slot less. Operands that are computed (not
// loaded) get rings of two or three slots.
#pragma once
#include "gpu/TargetInfo.h"
#include "support/Diag.h"

namespace tegula::gpu {

/// Rewrites the loops of the kernel (GPU IR) in place. D is num_stages - 1 of the loop or of the options, or less if
/// shared memory is short, more with slots to spare. Loops it cannot do stay as they are; `remarks`, if given, is told
/// why (LoopObstacles.h).
void pipelineLoops(ir::Module &m, const TargetInfo &target, Options &options, DiagEngine *remarks = nullptr);

} // namespace tegula::gpu
