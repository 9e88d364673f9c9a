// The rule for kernels without products: how many blocks should share a multiprocessor, given what a launch is known to
// be.
#pragma once
#include "abi/Multiprocessor.h"
#include "targets/nvidia/Nvidia.h"
#include "targets/nvidia/occupancy/HeldBlocks.h"
#include "targets/nvidia/occupancy/Pressure.h"

namespace tegula::nvidia {

/// What a launch decides, as classes have it.
struct Known {
  uint64_t blocks = 0;        // of the grid on a multiprocessor if all ran at once; 0: not known
  bool isPersistent = false;  // the programs of that grid share all work among them
  bool loadsAhead = false;    // loops do so by what the launch says
  std::vector<int64_t> trips, rowTrips; // by Pressure::iterations and rows, the most of a class; 0: not known
};

/// What may hold rows that loops read again in shared memory (gpu/loops/HoldRows.h).
struct Holders {
  bool canHold = false;
  unsigned mostCtas = 1; // of a cluster that may hold a row together
};

/// What a multiprocessor's blocks may have of rows that they read again, so that these are in the L2 cache still:
/// beside them it holds what the blocks store.
inline constexpr uint64_t bytesInL2 = abi::multiprocessor::l2Bytes / LaunchFacts::usualCores / 2;
inline constexpr uint64_t mostInAnyCase = bytesInL2 * 3 / 2; // of as many blocks as the memory needs to be busy

/// From this many trips on there is time to gain by loads of later iterations.
inline constexpr int64_t manyTrips = tegula::gpu::fewTrips;

/// Do programs take every n-th part of the work, n being their number? Then the grid is meant to run at once, and one
/// that waits for a place on a multiprocessor begins when all others are done:
/// softmax of 8192 columns in bf16, 528 programs of four warps, H200: 126 registers and four blocks 140 us, 130 and
/// three 160.
bool isPersistent(const ir::Block &b);

HeldIterations heldIterations(const Pressure &pressure, size_t row);

/// Blocks on a multiprocessor at most; 0: as many as registers allow. Of rows of which not even one for each
/// multiprocessor stays, all blocks may read.
Holding mostInL2(const Pressure &pressure, const Holders &holders, const Options &options, const Known &known);

/// The rule: blocks wished for on a multiprocessor.
unsigned blocksOfLoops(const Pressure &pressure, const Holders &holders, unsigned most, const Options &options,
                       const Known &known);

} // namespace tegula::nvidia
