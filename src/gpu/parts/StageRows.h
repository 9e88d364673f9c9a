// Long rows that are live across reductions stay in shared memory instead of registers: the threads copy them there,
// each its own elements, and read them again after each reduction, where what was computed of them is computed again.
//
//   x = load row; m = max(x); e = exp(x - m); s = sum(e); store e / s            the row in registers of 32 bits, from its loads on
//   tile <- row; m = max(tile); s = sum(exp(tile - m)); store exp(tile - m) / s  the row as it is in memory; copies under way take no registers
//
// A multiprocessor of an H200 has 228 KB of shared memory, in which 192 KB of rows are under way where registers, of
// which 16-bit elements take 32 bits, hold 64 (softmax of 131072 columns in bf16, a cluster of eight: 16 warps, 55
// registers and two blocks; 8 warps, 40 registers and six). No barrier is needed for it, as no thread reads what
// another one copied. PTX ISA, "Asynchronous copy operations": cp.async takes 4, 8 or 16 bytes and writes zeros where a
// mask is off; where a program wants something else there, the thread that reads it first writes it.
//
// Weights and biases that are loaded before the reductions and used after them stay there in the same way.
//
// What is computed again are elements: conversions, arithmetic, one exponential. Kernels whose rows cost more, or that
// hold anything else of the rows' length across a reduction, are left alone.
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// What the rows of a kernel would take in shared memory.
struct StagedRows {
  // of a block; 0: there are no rows that can be there, or something else of their length would stay in registers
  uint64_t bytes = 0;
};

/// Of GPU IR without loops and dots; `threads` of a block.
StagedRows stagedRows(ir::Module &m, int64_t threads);

/// Does a block have room for `rows` bytes of them, and for what reductions exchange beside them?
bool haveRoom(uint64_t rows, const TargetInfo &target);

/// Where options.stagesRows. False: nothing was staged.
bool stageRows(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
