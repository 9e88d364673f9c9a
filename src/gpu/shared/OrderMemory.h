// order-memory: puts the barriers, fences and waits between the operations that need them.
//
//   %t = to_shared %a {shared = [0, 16384]}
//   shared_barrier                                          all threads of the block: the tile is there
//   %d = dot %x, %t, %acc {instr = "async_mma", ...}
//   %s = reduce %d {axis = 1, meet = 1, shared = [0, 512]}  meet: threads synchronize before they write scratch, where others may still read
//   store_wait                                              what this thread has stored by desc_store is there
//
// The last pass: what came before an access follows from the order of operations, which code generation keeps, and from
// the bytes of shared memory that allocate-shared has given them. Code generation looks neither ahead nor back then: it
// makes each operation's instructions. Operations that exchange through scratch synchronize between their own steps
// themselves.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// In place. A kernel that is `ordered` is left alone: it was written with barriers and waits of its own, or has been
/// ordered before.
void orderMemory(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
