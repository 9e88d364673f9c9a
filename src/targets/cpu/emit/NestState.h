// What is known while a nest is emitted: its loops, which of its bits are lanes, what has been computed, addresses.
#pragma once
#include "targets/cpu/emit/Dot.h"
#include "targets/cpu/plan/Lin.h"
#include "targets/cpu/plan/Plan.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/Instruction.h"
#include <map>
#include <optional>
#include <tuple>

namespace tegula::cpu {

/// A counted loop of a nest: drives nest bits [firstBit, firstBit + bits).
struct NestLoop {
  unsigned firstBit = 0, bits = 0;
  llvm::Value *iv = nullptr;          // set while the loop is open
  llvm::Instruction *hoist = nullptr; // code for the depth outside goes before this
};

/// A scalar part and what differs from lane to lane.
struct LaneAddress {
  llvm::Value *base = nullptr;
  llvm::SmallVector<Coef, 6> lane; // per lane bit
  llvm::Value *extra = nullptr;    // vector of lane offsets that are not linear
  // `x % n` with linear x: linear too in tiles that do not wrap around. If `noWrap` holds at run time, the address is
  // flatBase + flatLane instead of base + lane + extra.
  llvm::Value *noWrap = nullptr, *flatBase = nullptr;
  llvm::SmallVector<Coef, 6> flatLane;
  // The part of `extra` that comes from `x % n`, not evaluated yet: only the rare path that wraps around needs it. Of a
  // Narrow: what else is added to it in 32 bits, and its scale.
  struct Late {
    Opaque part;
    Bits at;
    llvm::Value *others = nullptr;
    Coef scale{1};
  };
  std::optional<Late> late;
  bool uniform() const {
    for (const Coef &c : lane)
      if (!c.zero())
        return false;
    return !extra && !late;
  }
};

/// The left operand of a dot: where it begins, and bytes between rows (i64; null: as packed). holds: i1, whether it is
/// so, null if it is. next: bytes to the next tile, i64, 0: none, null: not known.
/// result, resultStride: where the dot's result will be stored and bytes between its rows, null: not known. column,
/// columnStride: of one that is packed by columns, if `next` is known: where its first one lies in memory, and bytes to
/// the next; of one that is kept: rows, or columns, of the packed tile. behind: as `next`, of kept tiles: in the last
/// round as well, to what the next program begins with; null: none.
struct InPlace {
  llvm::Value *pointer, *stride, *holds, *next = nullptr, *result = nullptr, *resultStride = nullptr, *column = nullptr,
                                         *columnStride = nullptr, *behind = nullptr;
};

/// What of a dot counts, i64, null: all. (row, column) only if column - row < above, and if row - column < below;
/// depthLeft as PanelWork's.
struct Counts {
  llvm::Value *rows = nullptr, *columns = nullptr, *depth = nullptr, *above = nullptr, *below = nullptr,
              *depthLeft = nullptr;
};

/// Whether a tile is there, packed (i1, null: it never is); where it is or will be, and bytes from one of its panels to
/// the next. far: i1, all that are kept take more of L2 than stays in it.
struct Kept {
  llvm::Value *there = nullptr, *tile = nullptr, *step = nullptr, *far = nullptr;
};

/// Whether a packed left operand is there (i1); where it is or will be.
struct FoundLeft {
  llvm::Value *there = nullptr, *tile = nullptr;
};

/// What is done with the panels that a nest packs.
struct PanelWork {
  unsigned kGroup = 1; // rows are packed in groups of so many (DotPlan)
  unsigned loops = 0; // so many outermost loops run over panels
  // each trip of the innermost loop packs so many whole rows of the panel; 0: no, it packs parts of rows
  int64_t depth = 0;
  // Ends of the loops where only a part of the dot counts, i64, else null: columns and k that count, at least one of
  // each; `packed`: k of the panel at hand, a multiple of `unit`.
  llvm::Value *columns = nullptr, *depthThere = nullptr, *packed = nullptr;
  int64_t unit = 1;
  // i64: k from the tile's first on at which not all operands are zero, perhaps more than the tile has; null: not known
  llvm::Value *depthLeft = nullptr;
  /// FunctionEmitter::panelAhead(), by the bases of addresses: bytes to the panel that is packed next, how many of its
  /// rows are there, i64, both 0 if there is none.
  llvm::DenseMap<llvm::Value *, std::pair<llvm::Value *, llvm::Value *>> ahead;
  // the lines of the next panel are fetched while this one is multiplied, not while it is packed
  bool between = false;
  // which, by the load and the position of the first row
  llvm::SmallVector<std::tuple<const ir::Op *, Bits, PanelFetch>, 2> fetches;
  llvm::Value *isKept = nullptr; // i1: all panels are packed already (KeptTiles); null: none ever is
  llvm::Value *keptPanel = nullptr; // where the panel at hand is then, set by place()
  llvm::Value *isFar = nullptr;     // i1: what follows it there is worth to be fetched
  int64_t panelBytes = 0;           // of a packed panel
  /// At each panel, packed already or not: its place. Where it is packed: what the innermost loop carries (nothing if
  /// depth is 0), what a trip makes of it (its number given), and the end. Then: the other rows, or all rows.
  llvm::function_ref<void()> place;
  llvm::function_ref<llvm::SmallVector<llvm::Value *>()> begin;
  llvm::function_ref<llvm::SmallVector<llvm::Value *>(llvm::Value *, llvm::ArrayRef<llvm::Value *>)> trip;
  llvm::function_ref<void(llvm::ArrayRef<llvm::Value *>)> end;
  llvm::function_ref<void()> rest;
};

/// A mask and the position at which it is needed.
struct MaskAt {
  const ir::Value *mask; // may be null
  Bits at;
  const ir::Op *access = nullptr; // the load or store whose mask it is
  bool stored = false;            // it is a store, or it is a part of a store's mask
};

/// Where a comparison in a mask ends: from the last element of this trip on (of this vector, if `inVectors`) it is
/// false, i64; null: not known. `beside`: it differs between the elements of a trip, but not from trip to trip.
struct MaskEnd {
  llvm::Value *from = nullptr;
  bool beside = false;
  llvm::Value *before = nullptr, *behind = nullptr; // Flip's
  bool rises = false;
};

/// A comparison in a mask that changes once along the row: before trip `before` it is what it begins with in all
/// elements of a trip, from trip `behind` on the other (i64). rises: it begins false. stored: of the mask of a store.
struct Flip {
  const ir::Value *mask;
  Bits at;
  bool rises, stored;
  llvm::Value *before, *behind;
};

/// Trips [from, to) in which comparisons are known, with the positions that they were looked at
/// (FunctionEmitter::segments).
struct Segment {
  llvm::Value *from, *to;
  std::map<const ir::Value *, Bits> holding, failing;
};

/// Where a row ends for a value (FunctionEmitter::sameBehind).
struct Rest {
  // i64: from the last element of this trip on (of this vector, if `inVectors`) all masks are false; null: there is
  // none
  llvm::Value *from = nullptr;
  llvm::SmallVector<llvm::Value *, 4> masks; // the same of each
  unsigned budget = 200;                    // values that may still be looked at
};

/// The innermost `for` with dots, or nests that fetch ahead, that is being emitted, if it counts up.
struct DotLoop {
  llvm::Value *iv = nullptr, *by = nullptr, *to = nullptr;
  llvm::DenseMap<llvm::Value *, llvm::Value *> steps;      // what it adds to numbers in each round
  llvm::SmallPtrSet<const llvm::BasicBlock *, 16> outside; // before it
};

/// A quotient or remainder, by its first element; i1: all others are the same, or, of a remainder, grow from there as
/// what it is taken of (FunctionEmitter::unwrapped).
struct Unwrapped {
  llvm::Value *first, *holds;
};

/// Results of a reduction for one setting of the unrolled bits beside the axis.
struct Reduced {
  const Root *root;
  unsigned copy;
  llvm::SmallVector<llvm::Value *, 4> values;
};

/// Does it go through its rows from their ends?
inline bool isReversed(const Nest &n) { return n.isOnly(RootKind::Scan) && n.roots[0].op->reverse(); }

struct NestState {
  const Nest *nest = nullptr;
  std::vector<NestLoop> loops; // outermost first; the first `open` are open
  unsigned open = 0;           // depth of the insertion point
  unsigned depth = 0;          // depth code is emitted at; < open while hoisting
  std::vector<int> loopOf;     // nest bit -> loop number, -1 if lane or unrolled
  std::vector<int> laneOf;     // nest bit -> lane bit, -1
  unsigned laneBits = 0;
  // of chunks of several vectors: that many of the lane bits are one vector's (of the result), else laneBits
  unsigned vectorBits = 0;
  NestLoop vectors{};                      // the bits above them, if a loop may run over these: the vectors of a chunk
  bool apart = false;                      // it does, in the code being emitted
  bool ofOneProgram = false;               // of a group (ProgramGroup): the bits of the others are zero
  bool underMask = false;                  // loads or stores keep masks where all that fullTrips() looked at holds
  llvm::SmallVector<unsigned, 4> unrolled; // nest bits
  unsigned copy = 0;                       // of these, the one being emitted
  std::vector<std::map<std::pair<const ir::Value *, Bits>, llvm::Value *>> memo;
  std::vector<std::map<std::pair<const void *, Bits>, llvm::Value *>> addressMemo;
  // comparisons known to hold in the loop being emitted, remainders that do not wrap around in a trip, at these
  // positions
  std::map<const ir::Value *, Bits> assumed;
  std::map<const ir::Value *, Bits> denied;  // comparisons known not to hold there
  std::optional<bool> waitsForDivider; // most of its time is divisions of floats; set once asked for
  bool assuming = false;
  bool bySegments = false;              // fullTrips() may find `segments`
  llvm::SmallVector<Segment, 3> segments; // of the row, in order; none: the trips before fullTrips() are one
  // all loops are given: what would be computed before them is computed in that version of the body that needs it,
  // under what it assumes
  bool oneTrip = false;
  /// A part of an address that is asked for once in a whole trip, where `parts` of `kind` Quotient and Remainder are
  /// found to be what they are called:
  enum class TripPart : uint8_t {
    Quotient,  // `(linear) // n`, one number for all elements
    Remainder, // `(linear) % n`, which grows with the linear value
    Follows,   // computed from such quotients and what does not vary in a trip
  };
  struct OfTrip {
    Opaque part;
    Bits at;
    TripPart kind;
  };
  llvm::SmallVector<OfTrip, 4> ofTrip;
  bool staying = false;                      // it has, in the code being emitted
  /// Vectors one after the other in which all of `ofTrip` stay in their rows (EmitRuns.cpp): the first one's number,
  /// the parts there, and what remainders grow by from vector to vector.
  struct Run {
    llvm::Value *start = nullptr;
    std::map<const ir::Value *, llvm::Value *> first;
    llvm::DenseMap<const ir::Value *, int64_t> moves;
  };
  const Run *run = nullptr;                // of the code being emitted
  bool fromLast = false;                   // its parts are those of the last lane
  llvm::Value *onlyLanes = nullptr;        // the others are left alone by loads and stores, null: none are
  llvm::Value *movesOn = nullptr;          // set by a trip: the next one is that many trips on
  llvm::Value *trips = nullptr;            // where the copy of the innermost loop that is being emitted ends
  // of comparisons in `assumed`: from the last element of this trip on (of this vector, if `inVectors`) they are false,
  // i64
  std::map<const ir::Value *, llvm::Value *> falseFrom;
  // the trip from whose last element on all that the roots do is masked off, null: not known
  llvm::Value *restFrom = nullptr;
  llvm::Value *restFromVector = nullptr;   // the same in vectors, if `inVectors`
  bool inVectors = false;                  // unrolled copies are the vectors next to one another in the row
  bool byVector = false;                   // and the loop under masks may do one of them in a trip
  llvm::Value *ends = nullptr;             // i1, set by a trip: no other one follows
  bool masked = false;                     // it is the one for trips that are not inside as a whole
  bool quick = false;                      // reductions are computed as reduceQuickly() does first
  bool streaming = false;                  // inside the copy of the loop with non-temporal stores
  // loads to fetch for the next program: how far away
  llvm::SmallVector<std::pair<const ir::Op *, llvm::Value *>, 4> ahead;
  // the numbers of the outermost loops, which are open around more than the nest
  llvm::SmallVector<llvm::Value *, 2> given;
  // these are the numbers of a row that accumulates what a loop around the nest adds: best all of it in registers
  bool byRow = false;
  int copyFrom = -1;                       // plain copy between buffers
  PanelWork *panel = nullptr;              // of a nest that packs the panels of a dot
  // of a left operand of a dot, [rows][depth]: how many of each are wanted, i64; null: all
  llvm::Value *leftRows = nullptr, *leftDepth = nullptr;
  // while a left operand is looked at as a whole: how much of its depth is wanted, i64, null: all
  llvm::Value *tileDepth = nullptr;
  unsigned lanes() const { return 1u << laneBits; }
  // Of a source that is a bit of the nest; constants are none of these.
  bool isLane(BitSource s) const { return s >= 0 && laneOf[static_cast<size_t>(s)] >= 0; }
  size_t laneBit(BitSource s) const { return static_cast<size_t>(laneOf[static_cast<size_t>(s)]); } // of a lane
  bool isOfLoop(BitSource s, size_t loop) const {
    return s >= 0 && loopOf[static_cast<size_t>(s)] == static_cast<int>(loop);
  }
  // of the innermost loop: lanes, and copies one after the other
  bool isInTrip(BitSource s) const { return s >= 0 && loopOf[static_cast<size_t>(s)] < 0; }
  // all trips of the innermost loop
  bool isInRow(BitSource s) const { return isInTrip(s) || isOfLoop(s, loops.size() - 1); }
};

/// Of each row of lanes along the axis of a scan the last one, for all of them.
llvm::Value *lastScanned(llvm::IRBuilder<> &b, const NestState &n, const ir::Op &scan, llvm::Value *x);

} // namespace tegula::cpu
