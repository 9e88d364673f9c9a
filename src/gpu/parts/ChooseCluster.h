// Which programs of one CTA (num_ctas = 1) are compiled for a cluster: those that hold rows which the registers of one CTA are too few for.
//
// A row that is reduced and then used again stays in registers meanwhile (softmax, norms, cross entropy in one block). Where it takes half of a multiprocessor's registers and more, one CTA runs there alone, and
// nothing is under way while it reduces; where it has no room at all it is spilled, or read again by the loops of split-tiles. The CTAs of a cluster hold a part of the row each and send each other
// partial results (PartitionCluster.h, shared/MemoryOrder.h), so that several programs share a multiprocessor.
//
// The rule is what an H200 showed on 2026-11-29 (docs/performance.md, long rows): 32 elements a thread are best, 16 where 32 leave room for one CTA only; fewer lose (softmax fp32 of 32768 columns, 32 warps: 3962 GB/s
// in one CTA, 4056 in two, 3564 in four), as do few bytes (cross entropy bf16 of 32768, 32 warps: 1993, two CTAs 1857). A cluster of which one CTA fills a multiprocessor gains only where one CTA
// spills or reads again (cross entropy bf16, 32 warps: 65536 columns, 60 bytes spilled, 2061 -> 1753; 131072, 724 bytes, 703 -> 1577). What decides is how much of rows is on a multiprocessor at once, in how
// many CTAs: layer norm of 32768 columns bf16 holds weights, too, which leaves 32 KB: 16 warps 2955, two or four CTAs 2308 and 2275; fp32, 64 KB in two CTAs of four: 3211 -> 3664.
// The largest portable cluster is that of the CUDA C++ Programming Guide, "Thread Block Clusters".
#pragma once
#include "gpu/TargetInfo.h"
#include "support/Diag.h"
#include <memory>

namespace tegula::gpu {

struct ClusterLimits {
  /// Registers of a thread beside a part: of chains that are kept short (targets/nvidia/Occupancy.h).
  unsigned overhead = 16;
  /// Elements of a part in a thread, and bytes that it loads and stores, at least: below that exchanges take longer than what they are for.
  unsigned elements = 16, bytes = 64;
  /// Elements that are enough: larger clusters are not faster.
  unsigned enough = 32;
  /// Bytes of the row that should be on a multiprocessor at once, in registers of several CTAs.
  int64_t resident = 64 << 10;
  /// Registers that are missing in each thread of one CTA, from which on a cluster is worth it even where one of its CTAs fills a multiprocessor,
  unsigned missing = 64;
  /// if no more are missing there.
  unsigned left = 32;
};

struct ClusterChoice {
  unsigned ctas = 1;
  std::unique_ptr<ir::Module> part; // of one CTA; null for one
};

/// The cluster for a kernel of tile IR whose options ask for one CTA: the smallest that suffices. Not for kernels that can notice: that wait for other programs or change what those read in an order
/// (atomics, volatile loads, `while`), ask where or how many they are (smid, clock, num_programs), print, assert, or run assembly with effects; nor for dots, scans and descriptors, whose
/// tiles other passes place, nor for reductions in loops, where exchanges have not been measured. A remark says what was chosen and why.
ClusterChoice chooseCluster(const ir::Module &module, const TargetInfo &target, const Options &options, DiagEngine *remarks = nullptr, const ClusterLimits &limits = {});

} // namespace tegula::gpu
