// What is known about integer and pointer tiles along each axis: the analysis from which every target learns which
// accesses are plain vector loads, how they are aligned, and which masks are uniform.
//
// Along axis d, with all other coordinates fixed, take the elements with coordinates [k*n, (k+1)*n) as group k of size
// n.
//   contiguity  c: every group of size c is x, x+1, ..., x+c-1 (pointers: addresses one element apart)
//   divisibility v: v divides the first element of every group of size c (pointers: in bytes)
//   constancy   s: all elements of a group of size s are equal
// 1 says nothing; all three are at least 1, c and s divide the extent. A scalar has one "axis" of extent 1. So for a
// load:
// min(contiguity of the pointer, constancy of the mask) elements are one vector access, aligned to the divisibility.
//
// The lattice of each number is "divides": the meet of two facts is their gcd (divisibilities after moving both to the
// smaller groups). One forward walk; loops start from their initial values and meet with the yielded facts until
// nothing changes, which is soon, because every step at least halves a number; after eight rounds what still changes is
// dropped.
//
// Sources: ranges, constants, argument divisibility, hints on operations (divisibility, contiguity, constancy: lists,
// one entry per axis). What has no rule below knows nothing. One assumption is made, as Triton makes it: index
// arithmetic does not overflow its type inside a tile (a program that overflows there addresses memory 2^31 elements
// away). It lets sext keep contiguity and lets sums and products of non-negative values count as non-negative, which
// division rules need. For the same reason a non-negative number divided by an argument counts as non-negative:
// programs are divided by extents, never by negative numbers.
// Division alone goes further (Sign::Taken): programs have as many parts of a grid as an argument says, not fewer than
// none, and a variable that is less than something as long as a `while` loop goes on, and to which the loop adds,
// counts up. A difference is not negative in a branch whose condition says so: grids that several kernels share have
// `pid < n` and `pid - n`.
#pragma once
#include "ir/Ir.h"
#include <unordered_map>

namespace tegula {

struct AxisFact {
  int64_t contiguity = 1, divisibility = 1, constancy = 1;
  bool operator==(const AxisFact &) const = default;
};

/// Is a number, or are all elements of a tile, at least zero? Ordered: what holds for a sum is the least of what holds
/// for its operands.
enum class Sign : uint8_t { Unknown, Taken, NonNegative };

/// Facts of one value, one entry per axis (one for scalars).
struct ValueFacts {
  std::vector<AxisFact> axes;
  Sign sign = Sign::Unknown;

  bool isNonNegative() const { return sign == Sign::NonNegative; }

  /// Divides every element.
  int64_t divisorOfAll() const;
  /// Divides the elements whose coordinate along `axis` is a multiple of `group`.
  int64_t divisorAt(unsigned axis, int64_t group) const;
  bool operator==(const ValueFacts &) const = default;
};

class AxisFacts {
public:
  /// Analyses one function; the facts hold as long as the function is not changed.
  explicit AxisFacts(const ir::Function &f);
  /// Facts of any value of the function; floats know their constancy only.
  const ValueFacts &of(const ir::Value *v) const;
  const AxisFact &of(const ir::Value *v, unsigned axis) const { return of(v).axes[axis]; }
  /// Elements along `axis` that one access of a load or store may take, by pointer and mask (null: no mask).
  int64_t vectorWidth(const ir::Value *pointer, const ir::Value *mask, unsigned axis) const;

private:
  std::unordered_map<const ir::Value *, ValueFacts> facts_;
};

} // namespace tegula
