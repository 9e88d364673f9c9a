// num_ctas > 1: the CTAs of a cluster work on one program together. Tile IR in, tile IR out: tensors that are shared
// out (ClusterParts.h) get the type of one part, ranges and offsets of descriptors start at the part of this CTA
// (cluster_rank), and a reduction along a split axis is done twice: of the part, then of the parts' results, which
// cluster_gather exchanges. All scalars are equal in all CTAs, so they go the same way.
//
// The rest of the compiler works on the parts as on any kernel. What it has to know: accesses with `whole` = 1 are not
// shared out, and program order between accesses of different CTAs takes a barrier of the cluster (Lower.h: meet).
#pragma once
#include "gpu/TargetInfo.h"
#include "support/Diag.h"
#include <memory>

namespace tegula::gpu {

/// Null if the work cannot be shared (remarks say why): a single CTA is as good as a cluster then.
std::unique_ptr<ir::Module> partitionCluster(const ir::Module &module, unsigned ctas, DiagEngine *remarks = nullptr);

} // namespace tegula::gpu
