// Facts about integer and pointer tiles along each axis. Every target uses this analysis to find which accesses are
// plain vector loads, how they are aligned, and which masks are uniform.
//
// Along axis d, with all other coordinates fixed, take the elements with coordinates [k*n, (k+1)*n) as group k of size
// n.
//   contiguity  c: every group of size c is x, x+1, ..., x+c-1 (pointers: addresses one element apart)
//   divisibility v: v divides the first element of every group of size c (pointers: in bytes)
//   constancy   s: all elements of a group of size s are equal
// A value of 1 gives no information; all three are at least 1, c and s divide the extent. A scalar has one "axis" of
// extent 1. So for a load, min(contiguity of the pointer, constancy of the mask) elements are one vector access,
// aligned to the divisibility.
//
// The lattice of each number is "divides": the meet of two facts is their gcd (divisibilities after moving both to the
// smaller groups). The analysis is one forward walk. A loop starts from the facts of its initial values, which meet the
// yielded facts until nothing changes. That converges fast, because every step at least halves a number; facts that
// still change after eight rounds are dropped.
//
// Sources: ranges, constants, argument divisibility, hints on operations (divisibility, contiguity, constancy: lists,
// one entry per axis). Operations without a rule below yield no facts. The analysis makes one assumption, as Triton
// does: index arithmetic does not overflow its type inside a tile (a program that overflows there addresses memory 2^31
// elements away). It lets sext keep contiguity and lets sums and products of non-negative values count as non-negative,
// which division rules need. For the same reason a non-negative number divided by an argument counts as non-negative:
// programs are divided by extents, never by negative numbers. Division rules alone assume more (Sign::Taken): an
// argument that counts parts of a grid is not negative, and a variable that a `while` loop compares with an upper bound
// and adds to counts up. A difference is not negative in a branch whose condition says so: grids that several kernels
// share have `pid < n` and `pid - n`.
#pragma once
#include "ir/Ir.h"
#include <unordered_map>

namespace tegula {

struct AxisFact {
  int64_t contiguity = 1, divisibility = 1, constancy = 1;
  bool operator==(const AxisFact &) const = default;
};

/// Whether a number, or each element of a tile, is at least zero. Ordered: the sign of a sum is the least of its
/// operands' signs.
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
  /// Facts of any value of the function; floats have constancy only.
  const ValueFacts &of(const ir::Value *v) const;
  const AxisFact &of(const ir::Value *v, unsigned axis) const { return of(v).axes[axis]; }
  /// Number of elements along `axis` that one access of a load or store may cover, by pointer and mask (null: no mask).
  int64_t vectorWidth(const ir::Value *pointer, const ir::Value *mask, unsigned axis) const;

private:
  std::unordered_map<const ir::Value *, ValueFacts> facts_;
};

} // namespace tegula
