// Linear algebra over GF(2) on columns of at most 64 bits: the basis of every layout operation.
//
// A vector is a uint64_t (bit i = coordinate i), addition is XOR. A matrix is the list of its columns: column i is the
// image of input bit i, so the image of x is the XOR of the columns that x selects.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <span>

namespace tegula::layout {

/// Image of x under the matrix with these columns.
inline uint64_t multiply(std::span<const uint64_t> columns, uint64_t x) {
  uint64_t y = 0;
  for (; x; x &= x - 1)
    y ^= columns[static_cast<size_t>(std::countr_zero(x))];
  return y;
}

/// A growing linear subspace in echelon form. Every stored vector records the inserted columns that sum to it, so one
/// structure answers membership, rank, solving and kernels.
class Subspace {
public:
  struct Reduced {
    uint64_t rest;  // v minus the part that lies in the subspace; 0 means v is a member
    uint64_t combo; // labels of the inserted vectors whose sum is v - rest
  };

  /// Writes v as (element of the subspace) + rest.
  Reduced reduce(uint64_t v) const {
    uint64_t combo = 0;
    for (uint64_t hit = v & leads_; hit;) {
      unsigned p = 63u - static_cast<unsigned>(std::countl_zero(hit));
      v ^= vectors_[p];
      combo ^= combos_[p];
      hit = v & leads_ & ((uint64_t{1} << p) - 1);
    }
    return {v, combo};
  }

  /// Adds v, labelled `label` (one bit, usually 1 << column). False if v was a member already: then `dependency()` is a
  /// set of labels, including this one, whose vectors sum to zero.
  bool insert(uint64_t v, uint64_t label) {
    auto [rest, combo] = reduce(v);
    if (rest == 0) {
      dependency_ = combo ^ label;
      return false;
    }
    unsigned p = 63u - static_cast<unsigned>(std::countl_zero(rest));
    vectors_[p] = rest;
    combos_[p] = combo ^ label;
    leads_ |= uint64_t{1} << p;
    return true;
  }

  bool contains(uint64_t v) const { return reduce(v).rest == 0; }
  unsigned rank() const { return static_cast<unsigned>(std::popcount(leads_)); }
  /// Positions of the leading bits of the echelon form: the unit vectors outside this mask complete it to a full basis.
  uint64_t leads() const { return leads_; }
  uint64_t dependency() const { return dependency_; }

private:
  // Only the entries named in leads_ are meaningful, so the arrays stay uninitialized.
  std::array<uint64_t, 64> vectors_, combos_;
  uint64_t leads_ = 0, dependency_ = 0;
};

inline unsigned rankOf(std::span<const uint64_t> columns) {
  Subspace s;
  for (uint64_t c : columns)
    s.insert(c, 0);
  return s.rank();
}

} // namespace tegula::layout
