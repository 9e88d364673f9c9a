// order-memory: gives every operation its bytes of a block's shared memory, and puts the barriers, fences and waits between the operations that need them.
//
//   %t = to_shared %a {shared = [0, 16384]}                 a tile, until its last user
//   shared_barrier                                          all threads of the block: the tile is there
//   %d = dot %x, %t, %acc {instr = "async_mma", ...}
//   %s = reduce %d {axis = 1, meet = 1, shared = [0, 512]}  scratch, while the operation runs; meet: threads meet before they write it
//   %c = convert %y {own = 1, shared = [16384, 20480]}      own: nothing else ever has these bytes, and only warps exchange
//   store_wait                                              what this thread has stored by desc_store is there
//
// The last pass: what lives at one time, and what came before an access, follow from the order of operations, which code generation keeps. Code
// generation looks neither ahead nor back then: it makes each operation's instructions. Operations that exchange through scratch synchronize between
// their own steps themselves.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// In place. A kernel in which an operation has its bytes already is left alone: it was written with places, barriers and waits of its own, or has been ordered before.
void orderMemory(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
