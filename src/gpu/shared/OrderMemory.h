// order-memory: puts the barriers, fences and waits between the operations that need them.
//
//   %t = to_shared %a {shared = [0, 16384]}
//   shared_barrier                                          all threads of the block: the tile is there
//   %d = dot %x, %t, %acc {instr = "async_mma", ...}
//   %s = reduce %d {axis = 1, meet = 1, shared = [0, 512]}  meet: threads synchronize before they write scratch, where others may still read
//   store_wait                                              what this thread has stored by desc_store is there
//
// The accesses before an access follow from the order of operations, which code generation keeps, and from the bytes of
// shared memory that allocate-shared has assigned. So the pass comes after allocate-shared and all passes that move
// operations. Code generation then needs no context: it generates the instructions of each operation separately.
// Operations that exchange through scratch synchronize between their own steps.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// In place. Leaves a kernel alone that is `ordered`: it was written with its own barriers and waits, or has been
/// ordered before.
void orderMemory(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
