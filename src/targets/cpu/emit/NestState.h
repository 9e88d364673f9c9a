// State while a nest is emitted: its loops, which of its bits are lanes, values computed so far, addresses.
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

/// An address as a scalar base and offsets that differ between lanes.
struct LaneAddress {
  llvm::Value *base = nullptr;
  llvm::SmallVector<Coef, 6> lane; // per lane bit
  llvm::Value *extra = nullptr;    // vector of lane offsets that are not linear
  // `x % n` with linear x is linear too in tiles that do not wrap around. If `noWrap` holds at run time, the address is
  // flatBase + flatLane instead of base + lane + extra.
  llvm::Value *noWrap = nullptr, *flatBase = nullptr;
  llvm::SmallVector<Coef, 6> flatLane;
  // The part of `extra` that comes from `x % n`, not evaluated yet: only the rare path that wraps around needs it. If
  // it belongs to a Narrow: the other terms of its 32-bit sum, and the sum's scale.
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

/// The left operand of a dot: its first element, and bytes between rows (i64; null: as packed). holds: i1, whether it
/// can be read in place; null: always. next: bytes to the next tile, i64; 0: none, null: not known.
/// result, resultStride: the destination of the dot's result and bytes between its rows; null: not known. column,
/// columnStride: of an operand packed by columns, if `next` is known: its first column in memory and bytes to the next
/// column; of a kept tile: rows, or columns, of the packed tile. behind: as `next`, of kept tiles: in the last
/// iteration as well, to the first tile of the next program; null: none.
struct InPlace {
  llvm::Value *pointer, *stride, *holds, *next = nullptr, *result = nullptr, *resultStride = nullptr, *column = nullptr,
                                         *columnStride = nullptr, *behind = nullptr;
};

/// The part of a dot that counts, i64, null: all. (row, column) counts only if column - row < above and
/// row - column < below. depthLeft: see PanelWork.
struct Counts {
  llvm::Value *rows = nullptr, *columns = nullptr, *depth = nullptr, *above = nullptr, *below = nullptr,
              *depthLeft = nullptr;
};

/// A kept tile. there: i1, it is packed already (null: never). tile, step: its address, and bytes from one of its
/// panels to the next. far: i1, the kept tiles together take more of L2 than stays in it.
struct Kept {
  llvm::Value *there = nullptr, *tile = nullptr, *step = nullptr, *far = nullptr;
};

/// A kept left operand. there: i1, it is packed already. tile: its address.
struct FoundLeft {
  llvm::Value *there = nullptr, *tile = nullptr;
};

/// The work on the panels that a nest packs.
struct PanelWork {
  unsigned kGroup = 1; // rows are packed in groups of this many (DotPlan)
  unsigned loops = 0; // this many outermost loops run over panels
  // each trip of the innermost loop packs this many whole rows of the panel; 0: a trip packs parts of rows
  int64_t depth = 0;
  // Loop bounds if only a part of the dot counts, i64, else null: the number of columns and of k that count, at least
  // one of each; `packed`: the number of k in the current panel, a multiple of `unit`.
  llvm::Value *columns = nullptr, *depthThere = nullptr, *packed = nullptr;
  int64_t unit = 1;
  // i64: number of k from the tile's first on whose operands may be nonzero, perhaps more than the tile has; null: not
  // known
  llvm::Value *depthLeft = nullptr;
  /// FunctionEmitter::panelAhead(), by the bases of addresses: bytes to the panel that is packed next, and its number
  /// of rows that exist, i64, both 0 if there is none.
  llvm::DenseMap<llvm::Value *, std::pair<llvm::Value *, llvm::Value *>> ahead;
  // the lines of the next panel are prefetched while this one is multiplied, not while it is packed
  bool between = false;
  // these lines, by the load and the position of the first row
  llvm::SmallVector<std::tuple<const ir::Op *, Bits, PanelFetch>, 2> fetches;
  llvm::Value *isKept = nullptr; // i1: all panels are packed already (KeptTiles); null: none ever is
  llvm::Value *keptPanel = nullptr; // then the address of the current panel, set by place()
  llvm::Value *isFar = nullptr;     // i1: prefetching what follows it there pays
  int64_t panelBytes = 0;           // of a packed panel
  /// Callbacks for each panel. place: computes its address, packed already or not. If it is packed now: begin: the
  /// values that the innermost loop carries (none if depth is 0); trip: their new values, given the trip's number; end:
  /// after the loop. rest: multiplies the other rows, or all rows.
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
  bool stored = false;            // the access is a store, or the mask is part of a store's mask
};

/// The end of a comparison in a mask: from the last element of this trip on (of this vector, if `inVectors`) it is
/// false, i64; null: not known. `beside`: it differs between the elements of a trip, but not from trip to trip.
struct MaskEnd {
  llvm::Value *from = nullptr;
  bool beside = false;
  llvm::Value *before = nullptr, *behind = nullptr; // Flip's
  bool rises = false;
};

/// A comparison in a mask that changes once along the row: all elements of the trips before `before` have its first
/// value, all from trip `behind` on the other (i64). rises: the first value is false. stored: part of a store's mask.
struct Flip {
  const ir::Value *mask;
  Bits at;
  bool rises, stored;
  llvm::Value *before, *behind;
};

/// Trips [from, to) in which the values of comparisons are known, with the positions that these were analyzed at
/// (FunctionEmitter::segments).
struct Segment {
  llvm::Value *from, *to;
  std::map<const ir::Value *, Bits> holding, failing;
};

/// The end of a row for a value (FunctionEmitter::sameBehind).
struct Rest {
  // i64: from the last element of this trip on (of this vector, if `inVectors`) all masks are false; null: no such trip
  llvm::Value *from = nullptr;
  llvm::SmallVector<llvm::Value *, 4> masks; // the same of each
  unsigned budget = 200;                    // values that may still be visited
};

/// The innermost `for` being emitted that has dots or nests that prefetch, if it counts up.
struct DotLoop {
  llvm::Value *iv = nullptr, *by = nullptr, *to = nullptr;
  llvm::DenseMap<llvm::Value *, llvm::Value *> steps;      // increment of values per iteration
  llvm::SmallPtrSet<const llvm::BasicBlock *, 16> outside; // before it
};

/// A quotient or remainder, by its first element. holds: i1, all elements of the quotient are equal, or those of the
/// remainder grow like its dividend (FunctionEmitter::unwrapped).
struct Unwrapped {
  llvm::Value *first, *holds;
};

/// Results of a reduction for one setting of the unrolled bits beside the axis.
struct Reduced {
  const Root *root;
  unsigned copy;
  llvm::SmallVector<llvm::Value *, 4> values;
};

/// Does the nest walk its rows backwards?
inline bool isReversed(const Nest &n) { return n.isOnly(RootKind::Scan) && n.roots[0].op->reverse(); }

struct NestState {
  const Nest *nest = nullptr;
  std::vector<NestLoop> loops; // outermost first; the first `open` are open
  unsigned open = 0;           // depth of the insertion point
  unsigned depth = 0;          // depth code is emitted at; < open while hoisting
  std::vector<int> loopOf;     // nest bit -> loop number, -1 if lane or unrolled
  std::vector<int> laneOf;     // nest bit -> lane bit, -1
  unsigned laneBits = 0;
  // if a chunk has several vectors: the number of lane bits of one vector (of the result); else laneBits
  unsigned vectorBits = 0;
  NestLoop vectors{};                      // the lane bits above, if a loop may run over the vectors of a chunk
  bool apart = false;                      // that loop runs, in the code being emitted
  bool ofOneProgram = false;               // of a group (ProgramGroup): the bits of the others are zero
  bool underMask = false;                  // accesses keep masks where all comparisons that fullTrips() found hold
  llvm::SmallVector<unsigned, 4> unrolled; // nest bits
  unsigned copy = 0;                       // the copy being emitted
  std::vector<std::map<std::pair<const ir::Value *, Bits>, llvm::Value *>> memo;
  std::vector<std::map<std::pair<const void *, Bits>, llvm::Value *>> addressMemo;
  // comparisons known to hold in the loop being emitted, and remainders that do not wrap around in a trip, by position
  std::map<const ir::Value *, Bits> assumed;
  std::map<const ir::Value *, Bits> denied;  // comparisons known not to hold there
  std::optional<bool> waitsForDivider; // float divisions dominate its time; computed on first use
  bool assuming = false;
  bool bySegments = false;              // fullTrips() may find `segments`
  llvm::SmallVector<Segment, 3> segments; // of the row, in order; none: the trips before fullTrips() are one segment
  // all loops are open already: each version of the body computes, under its own assumptions, the values that would be
  // hoisted before them
  bool oneTrip = false;
  /// A part of an address that is tested once per trip: whether `part`s of `kind` Quotient and Remainder behave as
  /// described:
  enum class TripPart : uint8_t {
    Quotient,  // `(linear) // n`, the same for all elements
    Remainder, // `(linear) % n`, which grows with the linear value
    Follows,   // computed from such quotients and from values that are invariant in a trip
  };
  struct OfTrip {
    Opaque part;
    Bits at;
    TripPart kind;
  };
  llvm::SmallVector<OfTrip, 4> ofTrip;
  bool staying = false;                      // the test held, in the code being emitted
  /// Consecutive vectors in which no part of `ofTrip` wraps around (EmitRuns.cpp): the number of the first vector, the
  /// parts' values there, and the growth of remainders from vector to vector.
  struct Run {
    llvm::Value *start = nullptr;
    std::map<const ir::Value *, llvm::Value *> first;
    llvm::DenseMap<const ir::Value *, int64_t> moves;
  };
  const Run *run = nullptr;                // of the code being emitted
  bool fromLast = false;                   // the run's parts are those of the last lane
  llvm::Value *onlyLanes = nullptr;        // loads and stores skip the other lanes; null: all lanes
  llvm::Value *movesOn = nullptr;          // set by a trip: number of trips to advance
  llvm::Value *trips = nullptr;            // end of the copy of the innermost loop being emitted
  // of comparisons in `assumed`, i64: from the last element of this trip on (of this vector, if `inVectors`) false
  std::map<const ir::Value *, llvm::Value *> falseFrom;
  // the trip from whose last element on all effects of the roots are masked off; null: not known
  llvm::Value *restFrom = nullptr;
  llvm::Value *restFromVector = nullptr;   // the same in vectors, if `inVectors`
  bool inVectors = false;                  // unrolled copies are adjacent vectors of the row
  bool byVector = false;                   // and the masked loop may process one of them per trip
  llvm::Value *ends = nullptr;             // i1, set by a trip: it is the last one
  bool masked = false;                     // the loop being emitted is the masked one, for partial trips
  bool quick = false;                      // reductions are computed as reduceQuickly() does first
  bool streaming = false;                  // inside the copy of the loop with non-temporal stores
  // loads to prefetch for the next program, and the distances
  llvm::SmallVector<std::pair<const ir::Op *, llvm::Value *>, 4> ahead;
  // induction variables of the outermost loops, which are open already before the nest
  llvm::SmallVector<llvm::Value *, 2> given;
  // `given` selects a row that accumulates over a loop around the nest: keep the whole row in registers if possible
  bool byRow = false;
  int copyFrom = -1;                       // plain copy between buffers
  PanelWork *panel = nullptr;              // of a nest that packs the panels of a dot
  // of a left operand of a dot, [rows][depth]: the number of each that is needed, i64; null: all
  llvm::Value *leftRows = nullptr, *leftDepth = nullptr;
  // while a left operand is analyzed as a whole: how much of its depth is needed, i64; null: all
  llvm::Value *tileDepth = nullptr;
  unsigned lanes() const { return 1u << laneBits; }
  // These hold for sources that are bits of the nest, never for constants.
  bool isLane(BitSource s) const { return s >= 0 && laneOf[static_cast<size_t>(s)] >= 0; }
  size_t laneBit(BitSource s) const { return static_cast<size_t>(laneOf[static_cast<size_t>(s)]); } // for a lane
  bool isOfLoop(BitSource s, size_t loop) const {
    return s >= 0 && loopOf[static_cast<size_t>(s)] == static_cast<int>(loop);
  }
  // varies in a trip of the innermost loop: lanes and unrolled copies
  bool isInTrip(BitSource s) const { return s >= 0 && loopOf[static_cast<size_t>(s)] < 0; }
  // varies in a row: all trips of the innermost loop
  bool isInRow(BitSource s) const { return isInTrip(s) || isOfLoop(s, loops.size() - 1); }
};

/// For each row of lanes along the axis of `scan`: its last lane of `x`, broadcast to the row.
llvm::Value *lastScanned(llvm::IRBuilder<> &b, const NestState &n, const ir::Op &scan, llvm::Value *x);

} // namespace tegula::cpu
