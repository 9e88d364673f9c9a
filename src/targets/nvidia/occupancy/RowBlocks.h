// The number of blocks that should share a multiprocessor if each program, or each cluster, processes a row.
#pragma once
#include "ir/Ir.h"

namespace tegula::nvidia {

/// CTAs of a cluster wait for each other at every exchange, so more blocks on the multiprocessor gain more than
/// registers for dependence chains: cross entropy of 32768 columns in bf16, four CTAs of eight warps, H200: 72
/// registers 1850 GB/s, 64 registers 2233, 48 registers with three spilled 2417. Kernels with loops and dots were not
/// measured.
unsigned blocksOfRows(const ir::Function &kernel, unsigned threads, unsigned most);

/// Rows in shared memory (gpu/parts/StageRows.h): as many blocks as fit into it, with registers for dependence chains
/// of a few vectors.
unsigned blocksOfStaged(unsigned threads, unsigned most);

} // namespace tegula::nvidia
