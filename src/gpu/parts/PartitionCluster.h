// num_ctas > 1: the CTAs of a cluster work on one program together. Tile IR in, tile IR out. Partitioned tensors
// (ClusterParts.h) get the type of one part, and ranges and offsets of descriptors start at the part of this CTA
// (cluster_rank). A reduction along a split axis becomes two: one of the part, then one of the parts' results, which
// cluster_gather exchanges. All scalars are equal in all CTAs, so all CTAs take the same branches.
//
// The rest of the compiler works on the parts as on any kernel, with two exceptions: accesses with `whole` = 1 are not
// partitioned, and program order between accesses of different CTAs takes a barrier of the cluster (MemoryOrder::meet
// in shared/MemoryOrder.h).
#pragma once
#include "gpu/TargetInfo.h"
#include "support/Diag.h"
#include <memory>

namespace tegula::gpu {

/// Null if the work cannot be partitioned (remarks give the reason): one CTA then does the same work as a cluster.
std::unique_ptr<ir::Module> partitionCluster(const ir::Module &module, unsigned ctas, DiagEngine *remarks = nullptr);

} // namespace tegula::gpu
