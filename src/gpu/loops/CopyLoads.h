// Replaces loads outside of pipelined loops by copies to shared memory that bypass the registers. Descriptor loads
// become block copies; operands that asynchronous dots read from shared memory become async_copy by the threads. Each
// copy is waited for right before its first use.
//
//   %k = load %p, %mask, 0 : tensor<128x64xbf16, L2>              async_copy %tile, %p, %mask
//   ...                                                           async_commit
//   %f = convert %k : tensor<128x64xbf16, L16>            =>      ...
//   %s = dot %q, %f, %zero {instr = "mma"}                        async_wait {pending = 0}
//                                                                 %f = shared_load %tile : tensor<128x64xbf16, L16>
// Operands of dots that take fragments in registers are copied, too, where the threads that load an element are not
// those that multiply it: a load in a branch of a loop, or outside of loops. Without this they cross shared memory as
// well, but from registers that are live from the load on: nsa's forward kernel of flash-linear-attention had 220
// registers and two blocks of four warps on a multiprocessor.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// Replaces `tensor` by `tile`, which holds the same elements, in the users in `block` that can read the tile: dots
/// through to_shared, conversions as loads from the tile, permutations as other views of it. Other users stay.
void useTile(ir::Module &m, ir::Block &block, const ir::Value *tensor, ir::Value *tile);

/// Rewrites the kernel (GPU IR) in place: the loads that no pipelined loop has taken.
void copyLoadsToTiles(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
