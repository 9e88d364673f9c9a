// The rule for kernels without dots: how many blocks should share a multiprocessor, given the known facts of a launch.
#pragma once
#include "abi/Multiprocessor.h"
#include "targets/nvidia/Nvidia.h"
#include "targets/nvidia/occupancy/HeldBlocks.h"
#include "targets/nvidia/occupancy/Pressure.h"

namespace tegula::nvidia {

/// The facts of a launch, per class of launches.
struct Known {
  uint64_t blocks = 0;        // the grid's blocks per multiprocessor if all ran at once; 0: unknown
  bool isPersistent = false;  // the programs of that grid are persistent and divide all work among them
  bool loadsAhead = false;    // the launch makes loops load ahead
  // indexed like Pressure::iterations and rows: the largest trip count of the class; 0: unknown
  std::vector<int64_t> trips, rowTrips;
};

/// Whether, and with how many CTAs, shared memory can hold rows that loops read again (gpu/loops/HoldRows.h).
struct Holders {
  bool canHold = false;
  unsigned mostCtas = 1; // of a cluster that may hold a row together
};

/// Bytes of reread rows per multiprocessor that stay in the L2 cache between the loops. The other half of the cache
/// holds the blocks' stores.
inline constexpr uint64_t bytesInL2 = abi::multiprocessor::l2Bytes / LaunchFacts::usualCores / 2;
inline constexpr uint64_t mostInAnyCase = bytesInL2 * 3 / 2; // for the number of blocks that keeps memory busy

/// The trip count from which on loads of later iterations save time.
inline constexpr int64_t manyTrips = tegula::gpu::fewTrips;

/// Whether programs take every n-th part of the work, where n is the number of programs. Such a grid should be resident
/// all at once: a program that waits for a place on a multiprocessor begins only when all others are done. Softmax of
/// 8192 columns in bf16, 528 programs of four warps, H200: 126 registers and four blocks take 140 us, 130 registers and
/// three blocks 160.
bool isPersistent(const ir::Block &b);

HeldIterations heldIterations(const Pressure &pressure, size_t row);

/// The limit of blocks per multiprocessor that keeps reread rows cached; 0: as many as registers allow. There is no
/// limit if the cache cannot hold even one row per multiprocessor.
Holding mostInL2(const Pressure &pressure, const Holders &holders, const Options &options, const Known &known);

/// The rule: the number of blocks to request per multiprocessor.
unsigned blocksOfLoops(const Pressure &pressure, const Holders &holders, unsigned most, const Options &options,
                       const Known &known);

} // namespace tegula::nvidia
