// Loads that go to shared memory beside the registers, outside of pipelined loops: what descriptors load, by block
// copies, and operands that asynchronous dots read from shared memory, by the threads (async_copy). Either waits for
// its own copy, right before the first use.
//
//   %k = load %p, %mask, 0 : tensor<128x64xbf16, L2>              async_copy %tile, %p, %mask
//   ...                                                           async_commit
//   %f = convert %k : tensor<128x64xbf16, L16>            =>      ...
//   %s = dot %q, %f, %zero {instr = "mma"}                        async_wait {pending = 0}
//                                                                 %f = shared_load %tile : tensor<128x64xbf16, L16>
// Operands of dots that take fragments in registers are copied, too, where other threads load them than those that
// multiply them: a load in a branch of a loop, or in no loop. They crossed shared memory before, but from registers,
// which were taken from the load on: nsa's forward kernel of flash-linear-attention had 220 registers and two blocks of
// four warps on a multiprocessor.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// Users of `tensor` among those in `block` that can take `tile`, which holds it, do so: dots by way of to_shared,
/// conversions as loads from the tile, permutations as other views of it. The others stay.
void useTile(ir::Module &m, ir::Block &block, const ir::Value *tensor, ir::Value *tile);

/// What no pipelined loop has taken.
void copyLoadsToTiles(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
