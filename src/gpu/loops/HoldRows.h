// Keeps rows that later loops read again (RowsAgain.h) in shared memory between the loops, as far as they fit.
//
//   for i in range(0, n, B): total += load(x + i + cols)            for the first K blocks of a row: all are copied to a ring of K tiles, then
//   for i in range(0, n, B): store(y + i, load(x + i + cols) / total)       for i in range(0, m, B): total += ring[i / B]      m = min(n, K * B)
//                                                                   for i in range(m, n, B): total += load(x + i + cols)       as before
//                                                                   and the second loop likewise
//
// The part of a row that fits is in flight at once, without registers, while other blocks on the multiprocessor
// compute, and is read from memory once. The rest is read again from the caches, so rows may have any length. Each
// thread copies its own elements and reads the same ones back, so no barrier is needed.
//
// The launch decides by the length of its rows how many blocks share a multiprocessor's memory
// (targets/nvidia/occupancy/Occupancy.h): a kernel has one form that holds rows and others that do not. Results do not
// depend on the form.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

struct LoopRows {
  unsigned blocks = 0; // blocks that share a multiprocessor's shared memory; 0: rows are not held
  unsigned ctas = 1;   // CTAs of a cluster that share the iterations (parts/ShareLoops.h)
  uint32_t bytes = 0;  // set by the pass: shared memory that an iteration's rows take; 0: no row can be held
};

/// Rewrites the kernel (GPU IR) in place if rows.blocks is not 0; otherwise it only sets rows.bytes. Only for kernels
/// in which no other code can change the rows between the loops: no atomics, no volatile loads, no opaque operations.
/// Not where the kernel stores to the row's memory before its last read, unless it stores in place: each element in the
/// iteration that has loaded it.
void holdRows(ir::Module &m, const TargetInfo &target, const Options &options, LoopRows &rows);

} // namespace tegula::gpu
