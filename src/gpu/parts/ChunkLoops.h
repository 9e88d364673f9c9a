// Loops with `split` in a cluster: each CTA does one of equal contiguous chunks of the iterations. Tile IR, changed in place: bounds, starts and sums of the loop are those of
// the chunk of this CTA (cluster_rank) then. What its sums are together, PartitionCluster.cpp asks the other CTAs.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

void chunkLoops(ir::Module &m, unsigned parts);

} // namespace tegula::gpu
