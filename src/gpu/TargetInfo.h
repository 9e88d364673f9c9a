// The inputs of the passes of the GPU level: the options of a kernel, and the facts and decisions of a target.
//
// A target derives from TargetInfo (targets/nvidia/TargetInfo.h); the caller of the passes passes it to them
// (Passes.h). Facts are numbers. Decisions are which instruction computes a dot and which layouts it needs, and which
// form copies of blocks by a descriptor have.
#pragma once
#include "gpu/Dots.h"
#include "layout/Conversion.h"
#include "support/Bits.h"

namespace tegula {
class AxisFacts;
}

namespace tegula::gpu {

using layout::LinearLayout;

/// May the compiler choose a cluster for a program of one CTA (parts/ChooseCluster.h)?
enum class Clusters : uint8_t {
  Never,
  ByCost,
  Two, Four, Eight, // wherever the work can be shared: for tests and measurements
};
constexpr unsigned ctasOf(Clusters c) {
  return c >= Clusters::Two ? 2u << (static_cast<unsigned>(c) - static_cast<unsigned>(Clusters::Two)) : 1;
}
/// Of 2, 4 or 8 CTAs; else Never.
constexpr Clusters clustersOf(int ctas) {
  return ctas == 2 ? Clusters::Two : ctas == 4 ? Clusters::Four : ctas == 8 ? Clusters::Eight : Clusters::Never;
}

/// How to compile a kernel: the options that the passes read.
struct Options {
  unsigned numWarps = 4;     // 1..32, a power of two
  unsigned numStages = 3;    // 1..255
  unsigned numCtas = 1;      // CTAs of a cluster that work on one program: 1..16, a power of two
  unsigned maxRegisters = 0; // 0: no limit
  Clusters clusters = Clusters::Never;
  // programs on a multiprocessor if all of a launch ran at once, in sixteenths, rounded up; 0: not known
  uint32_t crowd = 0;
  // set by passes where code for many programs differs from code for few (loops/Crowd.h); 0: it does not
  uint32_t askedCrowd = 0;
  bool stagesRows = false;   // rows that are live across reductions stay in shared memory (parts/StageRows.h)

  /// Do the passes accept these numbers? A target may refuse more (targets::Target::refuses).
  constexpr bool valid() const {
    return isPowerOfTwo(numWarps) && numWarps <= 32 && numStages >= 1 && numStages <= 255 && isPowerOfTwo(numCtas) &&
           numCtas <= 16;
  }
};

/// Dedicated warps that start the copies of a kernel, and the registers of a thread of producer and consumer warps (0:
/// not adjusted). No warps: there is no room for them.
struct ProducerWarps {
  unsigned warps = 1, producer = 0, consumer = 0;
};

/// The shared memory that a store or reduction of a block by a descriptor needs.
struct BlockStore {
  uint64_t bytes = 0; // of one buffer for every warp; 0: it is no such operation
  unsigned steps = 0; // times that each warp fills a buffer
};

class TargetInfo {
public:
  virtual ~TargetInfo() = default;

  /// The name of the target in options.
  virtual std::string name() const = 0;
  /// Threads of a warp.
  virtual unsigned lanes() const = 0;
  /// The most registers that a thread of a block of `threads` threads can have.
  virtual unsigned registerLimit(unsigned threads) const = 0;
  /// The most threads that run at once on a multiprocessor.
  virtual unsigned threadLimit() const = 0;
  /// The most bytes of shared memory that a block can have.
  virtual uint32_t sharedLimit() const = 0;
  /// Can one thread start copies of blocks to shared memory by descriptors, with mbarriers that count the bytes
  /// (tma_copy)?
  virtual bool copiesBlocks() const = 0;
  /// The most CTAs of a cluster; 1: there are no clusters.
  virtual unsigned clusterLimit() const = 0;
  /// Which instructions conversions between layouts may use.
  virtual layout::ConversionOptions conversions() const = 0;
  /// The most elements that one instruction of this atomic_rmw updates.
  virtual int64_t atomicElements(const ir::Op &rmw) const = 0;
  virtual ProducerWarps producerWarps(const Options &options) const = 0;
  /// The same for a producer all of whose threads copy (async_copy).
  virtual ProducerWarps gatheringWarps(const Options &options) const = 0;
  /// Instructions that a multiprocessor issues in a clock, one counted per thread.
  virtual unsigned issueRate() const = 0;

  // Dots. `warps`: the warps of a program.
  /// The fastest instruction with the precision that the dot asks for (`precision`).
  virtual DotChoice chooseDot(const ir::Op &dot, unsigned warps) const = 0;
  /// The layout of the accumulator and the result.
  virtual LinearLayout accumulatorLayout(const DotChoice &c, const ir::Op &dot, unsigned warps) const = 0;
  /// The layout of operand 0 or 1 in registers; for DotKind::AsyncMma only operand 0, which may instead be in shared
  /// memory.
  virtual LinearLayout operandLayout(const DotChoice &c, const ir::Op &dot, unsigned operand, unsigned warps) const = 0;
  /// The tile in shared memory, offset in elements -> coordinates, from which a dot of a choice with readsTiles() reads
  /// operand 0 (`isA`) or 1. `registers` is the operand's layout before it is stored to the tile. The tile is
  /// contiguous along the same axis as the registers, as far as the instruction can read that.
  virtual LinearLayout operandTile(const DotChoice &c, const ir::Type &operand, bool isA,
                                   const LinearLayout &registers) const = 0;
  /// The most multiply-adds of such a dot that a multiprocessor does in a clock.
  virtual unsigned dotRate(const DotChoice &c, const ir::Op &dot) const = 0;
  /// The number of groups of products into which a dot of two tiles is divided (attribute `rounds`).
  virtual unsigned dotRounds(const DotChoice &c, const ir::Module &m, const ir::Op &dot) const = 0;

  // Copies of blocks by descriptors.
  /// The tile to which the block of a desc_load is copied, offset in elements -> coordinates.
  virtual LinearLayout blockTile(const ir::Op &load) const = 0;
  /// Can each of `ctas` CTAs copy one part of the tile to all of them?
  virtual bool canMulticast(const ir::Type &tile, unsigned ctas) const = 0;
  /// Adds the attributes that the copies need besides the operands to `now`, the GPU IR of `access` (desc_load,
  /// desc_store, desc_reduce).
  virtual void describeBlock(ir::Op &now, const ir::Op &access, const AxisFacts &facts) const = 0;
  /// The layout in which a block in registers is stored: `have` if the stores support it.
  virtual LinearLayout blockStoreLayout(const LinearLayout &have, const ir::Type &block, unsigned warps) const = 0;
  virtual BlockStore blockStore(const ir::Module &m, const ir::Op &op) const = 0;
};

} // namespace tegula::gpu
