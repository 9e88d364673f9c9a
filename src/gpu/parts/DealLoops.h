// Loops with `split` in a cluster: of n CTAs, CTA r does iterations r, r + n, r + 2n ... Tile IR, changed in place:
// starts, steps and sums of the loop are those of this CTA (cluster_rank) then. What its sums are together,
// PartitionCluster.cpp asks the other CTAs.
//
// Not contiguous chunks: CTAs of a cluster run at one pace, and what iterations next to each other read lies next to
// each other in rows of A, where a CTA alone reads 128 bytes of each at a time. The loops alone, without an exchange,
// of bf16 matmuls on an H200 by 4 and 8 parts, in chunks and dealt: 1024^2 x 8192 34.7 -> 28.1 and 42.6 -> 31.7 us,
// 512^2 x 16384 37.4 -> 21.9 by 8.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

void dealLoops(ir::Module &m, unsigned parts);

} // namespace tegula::gpu
