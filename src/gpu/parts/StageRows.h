// Keeps long rows that are live across reductions in shared memory instead of registers. Each thread copies its own
// elements there, reads them again after each reduction, and rematerializes the values computed from them.
//
//   x = load row; m = max(x); e = exp(x - m); s = sum(e); store e / s            the row in registers of 32 bits, from its loads on
//   tile <- row; m = max(tile); s = sum(exp(tile - m)); store exp(tile - m) / s  the row as it is in memory; copies under way take no registers
//
// A multiprocessor of an H200 has 228 KB of shared memory, in which 192 KB of rows are in flight, where registers, of
// which 16-bit elements take 32 bits, hold 64 (softmax of 131072 columns in bf16, a cluster of eight: 16 warps, 55
// registers and two blocks; 8 warps, 40 registers and six). This takes no barrier, as no thread reads an element that
// another one copied. PTX ISA, "Asynchronous copy operations": cp.async takes 4, 8 or 16 bytes and writes zeros where a
// mask is off; where a program needs another value there, the thread writes it at its first read.
//
// Weights and biases that are loaded before the reductions and used after them stay in shared memory in the same way.
//
// Only element-wise operations are rematerialized: conversions, arithmetic, one exponential. Kernels whose rows take
// more work, or that hold other values of the rows' length across a reduction, are left alone.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// The shared memory that the rows of a kernel would take.
struct StagedRows {
  // bytes of a block; 0: no rows can be staged, or other values of their length would stay in registers
  uint64_t bytes = 0;
};

/// For GPU IR without loops and dots; `threads`: the threads of a block.
StagedRows stagedRows(ir::Module &m, int64_t threads);

/// Does a block have room for `rows` bytes of rows, and for the exchanges of reductions beside them?
bool haveRoom(uint64_t rows, const TargetInfo &target);

/// Rewrites the kernel in place if options.stagesRows. False if nothing was staged.
bool stageRows(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
