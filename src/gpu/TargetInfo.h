// What the passes of the GPU level are told and what they ask: the options of a kernel, and the facts and decisions of
// a target.
//
// A target derives from TargetInfo (targets/nvidia/TargetInfo.h) and is handed to the passes by whoever runs them
// (Passes.h). Facts are numbers; decisions are which instruction computes a dot and which layouts it wants, and which
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

/// How a kernel is to be compiled, as far as passes care.
struct Options {
  unsigned numWarps = 4;     // 1..32, a power of two
  unsigned numStages = 3;    // 1..255
  unsigned numCtas = 1;      // CTAs of a cluster that work on one program: 1..16, a power of two
  unsigned maxRegisters = 0; // 0: no limit
  Clusters clusters = Clusters::Never;
  // programs on a multiprocessor if all of a launch ran at once, in sixteenths, rounded up; 0: not known
  uint32_t crowd = 0;
  // passes set it: code for many programs differs from code for few (loops/Crowd.h); 0: it does not
  uint32_t askedCrowd = 0;
  bool stagesRows = false;   // rows that are live across reductions stay in shared memory (parts/StageRows.h)

  /// Do the passes take these numbers? A target may refuse more (targets::Target::refuses).
  constexpr bool valid() const {
    return isPowerOfTwo(numWarps) && numWarps <= 32 && numStages >= 1 && numStages <= 255 && isPowerOfTwo(numCtas) &&
           numCtas <= 16;
  }
};

/// Dedicated warps that start the copies of a kernel, and registers of a thread on each side; 0: as they come, and no
/// warps: there is no room for them.
struct ProducerWarps {
  unsigned warps = 1, producer = 0, consumer = 0;
};

/// What a store or reduction of a block by a descriptor takes of shared memory.
struct BlockStore {
  uint64_t bytes = 0; // a buffer for every warp; none: it is no such operation
  unsigned steps = 0; // so often each warp fills a buffer
};

class TargetInfo {
public:
  virtual ~TargetInfo() = default;

  /// As options name it.
  virtual std::string name() const = 0;
  /// Threads of a warp.
  virtual unsigned lanes() const = 0;
  /// Most registers that a thread can have if a block has that many threads.
  virtual unsigned registerLimit(unsigned threads) const = 0;
  /// Most threads that run at once on a multiprocessor.
  virtual unsigned threadLimit() const = 0;
  /// Most bytes of shared memory that a block can have.
  virtual uint32_t sharedLimit() const = 0;
  /// Can one thread have blocks copied to shared memory by descriptors, with mbarriers that count their bytes
  /// (tma_copy)?
  virtual bool copiesBlocks() const = 0;
  /// Most CTAs of a cluster; 1: there are no clusters.
  virtual unsigned clusterLimit() const = 0;
  /// Which instructions conversions between layouts may use.
  virtual layout::ConversionOptions conversions() const = 0;
  /// Elements that one instruction takes of this atomic_rmw.
  virtual int64_t atomicElements(const ir::Op &rmw) const = 0;
  virtual ProducerWarps producerWarps(const Options &options) const = 0;
  /// The same of a producer all of whose threads copy (async_copy).
  virtual ProducerWarps gatheringWarps(const Options &options) const = 0;
  /// Instructions that a multiprocessor issues in a clock, counted by thread.
  virtual unsigned issueRate() const = 0;

  // Dots. `warps`: of a program.
  /// The fastest instruction that computes what the dot asks for (`precision`).
  virtual DotChoice chooseDot(const ir::Op &dot, unsigned warps) const = 0;
  /// Layout of the accumulator and result.
  virtual LinearLayout accumulatorLayout(const DotChoice &c, const ir::Op &dot, unsigned warps) const = 0;
  /// Layout of operand 0 or 1 in registers; of DotKind::AsyncMma operand 0, which may as well lie in shared memory.
  virtual LinearLayout operandLayout(const DotChoice &c, const ir::Op &dot, unsigned operand, unsigned warps) const = 0;
  /// The tile that a dot of a choice with readsTiles() reads operand 0 or 1 from, which is in registers in a layout,
  /// offset in elements -> coordinates:
  /// contiguous the way the registers lie as far as the instruction can read that.
  virtual LinearLayout operandTile(const DotChoice &c, const ir::Type &operand, bool isA,
                                   const LinearLayout &registers) const = 0;
  /// Multiply-adds of such a dot that a multiprocessor does in a clock at most.
  virtual unsigned dotRate(const DotChoice &c, const ir::Op &dot) const = 0;
  /// Groups of products that a dot of two tiles is (attribute `rounds`).
  virtual unsigned dotRounds(const DotChoice &c, const ir::Module &m, const ir::Op &dot) const = 0;

  // Copies of blocks by descriptors.
  /// The tile that the block of a desc_load is copied to, offset in elements -> coordinates.
  virtual LinearLayout blockTile(const ir::Op &load) const = 0;
  /// Can so many CTAs copy a part of the tile each, to all of them?
  virtual bool canMulticast(const ir::Type &tile, unsigned ctas) const = 0;
  /// Adds to `now`, the GPU IR of `access` (desc_load, desc_store, desc_reduce), what its copies are told beside the
  /// operands.
  virtual void describeBlock(ir::Op &now, const ir::Op &access, const AxisFacts &facts) const = 0;
  /// The layout in which a block in registers is stored: `have`, if that will do.
  virtual LinearLayout blockStoreLayout(const LinearLayout &have, const ir::Type &block, unsigned warps) const = 0;
  virtual BlockStore blockStore(const ir::Module &m, const ir::Op &op) const = 0;
};

} // namespace tegula::gpu
