// allocate-shared: assigns every operation its bytes of a block's shared memory.
//
//   %t = to_shared %a {shared = [0, 16384]}                 a tile, until its last user
//   %s = reduce %d {axis = 1, shared = [0, 512]}            scratch, while the operation runs
//   %c = convert %y {own = 1, shared = [16384, 20480]}      own: nothing else ever has these bytes, and only warps exchange
//   for ... {shared = [0, 8192]}                            the buffers of the stores by descriptors in it, while it runs
//   desc_store ... {shared = [0, 8192], buffers = 2, held = 1, turn = 1}
//
// The pass walks structured code in order: live ranges follow from the order of operations, which code generation
// keeps. So it comes after all passes that move or create operations, and before order-memory, which places barriers
// between accesses to the same bytes.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// In place. Leaves a kernel alone in which an operation already has its bytes.
void allocateShared(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
