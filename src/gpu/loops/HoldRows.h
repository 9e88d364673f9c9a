// Rows that loops read again (RowsAgain.h) stay in shared memory between the loops, as far as that has room.
//
//   for i in range(0, n, B): total += load(x + i + cols)            for the first K blocks of a row: all are copied to a ring of K tiles, then
//   for i in range(0, n, B): store(y + i, load(x + i + cols) / total)       for i in range(0, m, B): total += ring[i / B]      m = min(n, K * B)
//                                                                   for i in range(m, n, B): total += load(x + i + cols)       as before
//                                                                   and the second loop likewise
//
// So all of a row that has room is under way at once, without registers, while other blocks on the multiprocessor
// compute, and is read from memory once. What has no room (no row is too long) is read again from the caches. Each
// thread copies its own elements and reads them again itself, so no barrier is needed.
//
// How many blocks share a multiprocessor's memory the launch decides by the length of its rows
// (targets/nvidia/occupancy/Occupancy.h): a kernel has one form that holds rows and others that do not. Results do not
// depend on it.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

struct LoopRows {
  unsigned blocks = 0; // that share a multiprocessor's memory; 0: rows do not stay there
  unsigned ctas = 1;   // of a cluster, that share the iterations (parts/ShareLoops.h)
  uint32_t bytes = 0;  // the pass sets it: what an iteration would take there; 0: nothing could stay
};

/// Where rows.blocks says so. Otherwise it only sets rows.bytes. For kernels that nobody else gives elements to
/// meanwhile: without atomics, volatile loads and what nobody can look into. Not where the kernel stores to the row's
/// memory before it is read for the last time, unless that is in place, each element by the iteration that has loaded
/// it.
void holdRows(ir::Module &m, const TargetInfo &target, const Options &options, LoopRows &rows);

} // namespace tegula::gpu
