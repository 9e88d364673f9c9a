// Loads that go to shared memory beside the registers, outside of pipelined loops: what descriptors load, by block copies, and operands that asynchronous dots read
// from shared memory, by the threads (async_copy). Either waits for its own copy, right in front of the first use.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// Users of `tensor` among those in `block` that can take `tile`, which holds it, do so: dots by way of to_shared, conversions as loads from the
/// tile, permutations as other views of it. The others stay.
void useTile(ir::Module &m, ir::Block &block, const ir::Value *tensor, ir::Value *tile);

/// What no pipelined loop has taken.
void copyLoadsToTiles(ir::Module &m, const TargetInfo &target);

} // namespace tegula::gpu
