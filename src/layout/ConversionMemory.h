// Internals of the planner for conversions through shared memory: the input (Problem), the places of elements (Memory),
// the accesses of one side (Access), and the search for the best memory layout (solve).
#pragma once
#include "layout/ConversionDetail.h"

namespace tegula::layout::detail {

/// Vectors: directions in the space of elements, or the columns of a map.
using Columns = std::vector<uint64_t>;

/// Basis of (a + floor) modulo floor, as vectors of a.
Columns modulo(const Columns &a, const Columns &floor);

/// One side's view: element directions of its registers and threads.
struct Side {
  Places places;
  Columns threads; // lanes, warps, blocks: image of each thread bit inside the memory's space; 0 for guarded copies
  bool lanesDistinct = true; // no lane bit is guarded
  const Columns &reg() const { return places.reg; }
};

/// The place of each element: coordinates in a basis of the elements. The first `stored` basis vectors are the bits of
/// the offset, then come the bits of the repetition, then (cluster scope) those of the CTA that holds the element.
class Memory {
public:
  Columns basis;
  unsigned stored = 0, repeated = 0;
  void finish() {
    for (size_t i = 0; i < basis.size(); ++i)
      space_.insert(basis[i], uint64_t{1} << i);
  }
  uint64_t offset(uint64_t element) const { return label(element) & ((uint64_t{1} << stored) - 1); }
  uint64_t repetition(uint64_t element) const { return label(element) >> stored & ((uint64_t{1} << repeated) - 1); }
  uint64_t owner(uint64_t element) const { return label(element) >> (stored + repeated); }

private:
  uint64_t label(uint64_t element) const {
    auto [rest, combo] = space_.reduce(element);
    assert(rest == 0 && "the source does not hold this element");
    return combo;
  }
  Subspace space_;
};

/// A conversion as the search sees it.
struct Problem {
  Side src, dst;
  // dst as seen inside one CTA: without the directions that select the CTA (differs in cluster scope only)
  Side near;
  Columns space;  // basis of the elements that one CTA stores
  Columns blocks; // directions between CTAs: the owner bits
  unsigned byteShift; // log2 of the bytes of an element
  const ConversionOptions *options;
  unsigned chunkBits() const { return 4 - byteShift; }
};

/// How one side accesses a given memory layout.
struct Access {
  SharedMove move = SharedMove::Plain;
  unsigned vecBits = 0;      // Plain
  Columns rowBits;           // matrix moves: element directions of lane bits 0 ... 4 as suppliers of row addresses
  Columns sub;               // directions inside a lane's vector or 32-bit register
  Columns outer;             // register directions of separate accesses (after sub and matrices)
  Columns matrices;          // register directions between the matrices of one instruction
  unsigned wavefronts = 0, count = 0, ideal = 0;
  double moves = 0;          // estimated time of one warp to bring registers into the order of the accesses
};

/// The cheapest accesses of one side to its elements in a given memory. Only m, side, p.byteShift matter.
Access bestAccess(const Problem &p, const Side &side, const Memory &m, bool matrixAllowed);
/// Estimated time of one warp for all accesses of a side.
inline double sideClocks(const Access &x) { return x.count * (x.wavefronts + 0.5) + x.moves; }

/// A memory layout and how both sides use it.
struct Solution {
  Memory memory;
  Access store, load;
  double clocks = 0;
};

/// The best memory layout over all candidate chunks.
Solution solve(const Problem &p);

} // namespace tegula::layout::detail
