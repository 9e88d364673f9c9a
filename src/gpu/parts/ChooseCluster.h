// Chooses which kernels of one CTA (num_ctas = 1) to compile for a cluster, or with their rows in shared memory:
// kernels with rows for which one CTA has too few registers.
//
// A row that is reduced and then used again stays in registers meanwhile (softmax, norms, cross entropy in one block).
// A row that takes at least half of a multiprocessor's registers leaves room for only one CTA, so no loads are in
// flight while it reduces. A row that does not fit at all is spilled, or read again by the loops of split-tiles. Each
// CTA of a cluster holds a part of the row, and the CTAs send each other partial results (PartitionCluster.h,
// shared/MemoryOrder.h), so that several programs share a multiprocessor.
//
// The heuristic counts bytes of rows in flight on a multiprocessor, up to the number that keeps memory busy (Little's
// law): 128 KiB where rows are only read, half of that where as many bytes are stored. It was fitted to 150 kernels
// (softmax, log softmax, cross entropy, layer and RMS norm of 32768 to 262144 columns, bf16 and fp32, 4 to 32 warps),
// each in one CTA and in clusters, on an H200 on 2026-11-29 (docs/performance-history.md):
//   bytes       layer norm bf16: 32 KB in one, two or four CTAs 2277-2410 GB/s, 40 KB 2690, 48 KB 2840-3067, 64 KB 2976-3080
//   a lone CTA  log softmax bf16 of 32768 columns: 64 KB in one 3152, in two 3441; softmax fp32 128 KB 3931 and 4006
//   read only   cross entropy bf16: 128 KB of two CTAs alone 2301, 80 KB of a cluster's ten 2115; of 65536 columns 128 KB of one 2122, 64 KB of a cluster's two 1994
//   spills      layer norm bf16 of 262144: 64 KB in a CTA of 16 warps with 15 registers missing 2456, of 32 warps with 27 missing 1883; loops that read the row again 2253
//   staged      rows of 16 bits in shared memory (StageRows.h), the smallest cluster that has 96 KiB of them under way in two blocks or more: softmax bf16 of 32768 columns 3548 -> 3730 GB/s, of 65536 3404 -> 3666, of
//               131072 3055 -> 3597, of 262144 2590 -> 3482; RMS norm 3627 -> 3747, 3432 -> 3608, 3020 -> 3542, 2933 ->
//                 3430. Of 32 bits they gain nothing: RMS norm fp32 of 131072 3865 -> 3822, of 65536 3960 -> 3925
//   weights     beside them, loaded before the sums instead of after, us: layer norm bf16 of 32768 columns 160 -> 148, of 131072 188 -> 173, of 262144, where one block has room, 195 -> 223; RMS norm of 32768 with 8 and 16 warps 136 and
//               142 -> 134 and 132, with 32, 128 -> 64 KiB of rows under way, 134 -> 142; of 131072 145 -> 133. In fp32
//                 layer norm of 32768 289 -> 291-311
//   elements    softmax fp32 of 32768 columns, 32 warps: 3962 in one CTA, 4056 in two, 3564 in four with 8 elements a thread
// The largest portable cluster is that of the CUDA C++ Programming Guide, "Thread Block Clusters".
#pragma once
#include "gpu/TargetInfo.h"
#include "support/Diag.h"
#include <memory>

namespace tegula::gpu {

constexpr unsigned portableCluster = 8; // CUDA C++ Programming Guide, "Thread Block Clusters"

struct ClusterLimits {
  /// The fewest registers of a thread beside its part of the row, for short dependence chains
  /// (targets/nvidia/occupancy/Occupancy.h). Packed elements are widened while their row is computed, which takes two
  /// fifths more words than the row.
  unsigned overhead = 16;
  /// The fewest elements of a part in a thread, and the fewest bytes that it loads and stores: below these, exchanges
  /// take longer than the work on the part.
  unsigned elements = 16, bytes = 64;
  /// Elements of a thread below which larger clusters are not faster.
  unsigned enough = 32;
  /// Bytes in flight that keep a multiprocessor's share of the memory bandwidth busy, loads and stores together.
  int64_t inFlight = 128 << 10;
  /// Weights of bytes in flight: of the only block of a multiprocessor (`alone`), as nothing is loaded while it
  /// computes; of a row that loops, or many spills, read again (`again`); of the best choice so far, against a larger
  /// cluster with more blocks (`almost`).
  double alone = 0.8, again = 0.5, almost = 0.9;
  /// For rows in shared memory: registers of a thread; the most elements of a thread (code size grows with them); and
  /// the bytes in flight that are enough, as a factor of those that keep memory busy, as blocks that compute hold all
  /// of their rows there.
  unsigned staged = 40, stagedElements = 128;
  double stagedEnough = 1.5;
  /// From this number of missing registers in each thread of one CTA, a cluster pays even if one of its CTAs fills a
  /// multiprocessor,
  unsigned missing = 64;
  /// provided that at most this number are missing in its threads.
  unsigned left = 72;
};

/// Does the operation behave the same whether one CTA or several run the program, and have parts of it been measured?
/// False for loops.
bool isAlikeInClusters(const ir::Op &op);

struct ClusterChoice {
  unsigned ctas = 1;
  std::unique_ptr<ir::Module> part; // the module of one CTA; null: the module is unchanged
  bool stagesRows = false;          // rows are to stay in shared memory (StageRows.h)
};

/// The cluster for a kernel of tile IR whose options request one CTA: the one with the most bytes in flight, and among
/// equals the largest. Not for kernels that can observe it: kernels that wait for other programs or write in an order
/// that others observe (atomics, volatile loads, `while`), read their position or number (smid, clock, num_programs),
/// print, assert, or run assembly with effects. Nor for dots, scans and descriptors, whose tiles other passes place,
/// nor for reductions in loops, where exchanges have not been measured. A remark reports the choice and the reason.
ClusterChoice chooseCluster(const ir::Module &module, const TargetInfo &target, const Options &options,
                            DiagEngine *remarks = nullptr, const ClusterLimits &limits = {});

} // namespace tegula::gpu
