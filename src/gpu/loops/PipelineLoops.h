// Software pipelining of loops around dots: asynchronous copies bring operands to shared memory some iterations ahead,
// and asynchronous dots stay in flight until their result is needed.
//
//   ring = shared_alloc {slots}                            for each load that a dot is computed from
//   D times: if runs { async_copy ring[i], ... }; commit   the first D iterations' copies
//   for ... {
//     async_wait {D - 1}; shared_barrier                   this iteration's tiles are complete; all threads are done with the last iteration
//     dot ring[r] ... {async}                              waited for where its result is first used
//     if runs D iterations later { async_copy ring[w], ... }; commit
//   }
// Tiles that block copies bring (desc_load) have mbarriers instead: one completes when a stage is full, one when all
// warps are done with it. The warps need no common barrier, so warpgroups may drift apart. A warp is done with the last
// iteration's stage once it has waited for the asynchronous dots that read it, and copies may overwrite the stage from
// there on: D + 1 stages are enough. Where there are more, copies start farther ahead.
//
// One barrier per iteration is enough: a thread that writes a slot has passed a barrier that every thread reached after
// its last read of the slot. A slot is free one iteration after its use, two if the asynchronous dot that reads it is
// still in flight at the end of the iteration; so a ring of async_copy has D + 1 or D + 2 slots. Where memory is short,
// copies start after the wait for that dot and a second barrier, which saves a slot. Operands that are computed (not
// loaded) get rings of two or three slots, or of one where memory is short.
#pragma once
#include "gpu/TargetInfo.h"
#include "support/Diag.h"

namespace tegula::gpu {

/// Rewrites the loops of the kernel (GPU IR) in place. D is num_stages - 1 of the loop or of the options: less if
/// shared memory is short, more with slots to spare. Loops that cannot be pipelined stay as they are; `remarks`, if
/// given, gets the reasons (LoopObstacles.h). Raises options.askedCrowd where the choice depends on the grid (Crowd.h).
void pipelineLoops(ir::Module &m, const TargetInfo &target, Options &options, DiagEngine *remarks = nullptr);

} // namespace tegula::gpu
