// The conversion planner: moves the values of a tensor from one distributed layout to another.
//
// The relation of the two layouts decides. If every thread already holds its destination elements, registers are
// renamed. If every warp does, lanes exchange by shuffles. Else the values go through shared memory, in a layout chosen
// so that stores and loads are as wide as possible and free of bank conflicts; ldmatrix and stmatrix are used where
// they fit. A cost model picks the cheapest way. docs/rationale/layouts.md derives the algorithms.
//
// A plan is data that a code generator follows literally: register lists, constants, and linear functions of the
// thread. Follow.h walks it in the right order. Inputs other than register, lane, warp and block are not allowed; both
// layouts must cover the same tensor.
#pragma once
#include "layout/LinearLayout.h"

namespace tegula::layout {

/// A bit that depends on the thread: parity of (lane & this.lane), (warp & this.warp), (block & this.block) together.
struct ThreadBit {
  uint32_t lane = 0, warp = 0, block = 0;
  bool at(uint32_t l, uint32_t w, uint32_t b) const {
    return std::popcount((l & lane)) + std::popcount((w & warp)) + std::popcount((b & block)) & 1;
  }
};

/// A number that depends linearly on the thread: the XOR of the images of the set bits of lane, warp and block.
struct ThreadMap {
  std::vector<uint32_t> lane, warp, block;
  uint32_t at(uint32_t l, uint32_t w, uint32_t b) const;
  /// All bits that some thread can set.
  uint32_t reach() const;
};

/// One step of a selection network over registers or words: value[i] becomes when ? value[from[i]] : value[i], for all
/// i at once.
struct SelectStep {
  ThreadBit when;
  std::vector<uint16_t> from;
};

/// Exchange inside warps. Order: (selectWords: pack, pre | else: pre, pack), rounds, (selectWords: post, unpack | else:
/// unpack, post), then copies.
struct ShufflePlan {
  /// Words before the exchange: the source registers each packs, lowest bits first (one register, if elements are not
  /// packed; a 64-bit element is a word that is shuffled as two halves).
  std::vector<std::vector<uint16_t>> srcWords;
  /// Words after it: the destination registers each unpacks to. Numbers beyond the destination's registers are
  /// temporaries of the selection that follows.
  std::vector<std::vector<uint16_t>> dstWords;
  /// True: pre works on srcWords and post on dstWords. False: they work on single registers (the number is the index).
  bool selectWords = true;
  std::vector<SelectStep> pre, post;
  struct Round {
    uint16_t srcWord, dstWord; // every lane offers its srcWord and receives its dstWord
    uint8_t laneXor;           // from lane sourceLane.at(thread) ^ laneXor
    bool stays;                // the source is the thread itself: no shuffle needed
  };
  std::vector<Round> rounds;
  ThreadMap sourceLane;
};

enum class SharedMove : uint8_t {
  Plain,       // st.shared / ld.shared of a vector
  Matrix,      // stmatrix / ldmatrix
  MatrixTrans, // the same with .trans
};

/// One warp-wide instruction.
struct SharedAccess {
  /// Plain: the registers of the vector in memory order. Matrix moves: for each matrix the elements of the lane's
  /// 32-bit register, lowest bits first, matrix after matrix.
  std::vector<uint16_t> registers;
  uint32_t offset;      // XOR with base: the address in elements
  uint32_t blockXor = 0; // XOR with the block map (cluster scope, loads only)
  uint16_t repetition = 0;
};

/// All stores, or all loads, of a conversion.
struct SharedSide {
  SharedMove move = SharedMove::Plain;
  unsigned elements = 1; // Plain: elements per lane and access
  unsigned matrices = 0; // matrix moves: 1, 2 or 4
  /// Element offset of this thread (for matrix moves: of the row address that this lane supplies).
  ThreadMap base;
  /// Loads in cluster scope: the CTA to read from. Empty otherwise (the own one).
  ThreadMap block;
  /// Stores: threads with (lane & guard.lane) | (warp & guard.warp) | (block & guard.block) != 0 hold copies and do not
  /// store.
  ThreadBit guard;
  std::vector<SharedAccess> accesses; // in order; repetitions ascending
  unsigned wavefronts = 0;            // of each access, as the plan guarantees
  /// Bits in which base never differs from 0: constant offsets within them may be added instead of XORed (immediate
  /// field).
  uint32_t addMask = 0;
};

/// For each repetition: (barrier unless it is the first), its stores, barrier, its loads. The barrier is of the plan's
/// scope. Another barrier is needed before the buffer is used for something else.
struct SharedPlan {
  LinearLayout memory; // offset -> coordinates, of repetition 0
  unsigned repetitions = 1;
  SharedSide store, load;
};

enum class ConversionKind : uint8_t { Nothing, Registers, Shuffles, Shared };
/// The group of threads within which values move, and which a plan through shared memory must synchronize.
enum class ExchangeScope : uint8_t { Thread, Warp, Cta, Cluster };

/// Costs of the plan, per warp.
struct ConversionCost {
  unsigned shuffles = 0;         // 32-bit shuffle instructions
  unsigned selects = 0;          // 32-bit selections
  unsigned bytes = 0;            // scratch in shared memory, per CTA
  unsigned storeWavefronts = 0;  // 128-byte wavefronts of all stores
  unsigned loadWavefronts = 0;
  unsigned conflicts = 0;        // wavefronts beyond the conflict-free number, stores and loads together
  unsigned barriers = 0;
  double clocks = 0;             // estimated issue and transfer time of one warp
};

struct ConversionPlan {
  ConversionKind kind = ConversionKind::Nothing;
  ExchangeScope scope = ExchangeScope::Thread;
  /// Registers: source register of each destination register.
  std::vector<uint16_t> registers;
  ShufflePlan shuffle;
  SharedPlan shared;
  /// Shuffles and Shared: only registers with copyOf[r] == r are produced; the others then repeat register copyOf[r].
  std::vector<uint16_t> copyOf;
  ConversionCost cost;

  /// One line for remarks and tests: "shared 16384 B, stmatrix.x4, ld 8 x 16 bit, 0 conflicts".
  std::string print() const;
};

struct ConversionOptions {
  bool ldmatrix = true, stmatrix = true; // stmatrix needs sm_90
  bool shuffles = true, shared = true;   // tests switch them off to force the other way
  // limit of the scratch memory; 0: none. Within it accesses become narrower or repeat, if the layouts allow it
  unsigned maxBytes = 0;
};

/// Plans the conversion. elemBits: 8, 16, 32 or 64 (1 counts as 8). Deterministic. Layouts of equal outputs required.
ConversionPlan planConversion(const LinearLayout &src, const LinearLayout &dst, unsigned elemBits,
                              const ConversionOptions &options = {});
/// Stores a distributed tensor to (or loads it from) shared memory of a given layout, for instance what TMA or wgmma
/// prescribes: the widest accesses that fit, ldmatrix / stmatrix among them. `memory` maps offset to the coordinates of
/// the CTA's tensor and is invertible; `registers` has no block input. Loads fill only registers that copyOf() keeps.
SharedSide planSharedAccess(const LinearLayout &registers, const LinearLayout &memory, unsigned elemBits, bool store,
                            const ConversionOptions &options = {});
/// For each register the first register that holds the same element.
std::vector<uint16_t> copiesOf(const LinearLayout &layout);
/// The scope within which values move; Thread also if the source register depends on the thread.
ExchangeScope exchangeScope(const LinearLayout &src, const LinearLayout &dst);

} // namespace tegula::layout
