// Partitions the iterations of loops with `split` over a cluster: of n CTAs, CTA r executes iterations r, r + n, r + 2n
// ... Changes tile IR in place: the loop then has the start, step and sums of this CTA (cluster_rank).
// PartitionCluster.cpp combines the sums of all CTAs.
//
// Iterations are interleaved, not in contiguous chunks. The CTAs of a cluster run at the same speed, and neighbouring
// iterations read neighbouring data in rows of A, of which one CTA reads 128 bytes at a time. The loops alone, without
// an exchange, of bf16 matmuls on an H200 by 4 and 8 parts, in chunks and dealt: 1024^2 x 8192 34.7 -> 28.1 and 42.6 ->
// 31.7 us, 512^2 x 16384 37.4 -> 21.9 by 8.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

void dealLoops(ir::Module &m, unsigned parts);

} // namespace tegula::gpu
