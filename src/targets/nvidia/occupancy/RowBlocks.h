// Blocks that should share a multiprocessor where each program, or each cluster, has a row.
#pragma once
#include "ir/Ir.h"

namespace tegula::nvidia {

/// CTAs of a cluster wait for each other at every exchange, so that others on the multiprocessor are worth more than
/// registers for chains: cross entropy of 32768 columns in bf16, four CTAs of eight warps, H200: 72 registers 1850
/// GB/s, 64 2233, 48 and three of them spilled 2417. Kernels with loops and dots were not measured.
unsigned blocksOfRows(const ir::Function &kernel, unsigned threads, unsigned most);

/// Rows in shared memory (gpu/parts/StageRows.h): as many blocks as that has room for, with registers for chains of a
/// few vectors.
unsigned blocksOfStaged(unsigned threads, unsigned most);

} // namespace tegula::nvidia
