// Names of layout dimensions, and small ordered lists of them with their sizes.
#pragma once
#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace tegula::layout {

/// The meaning of an index. Hardware dimensions come first, then the coordinates of a tensor.
enum class Dim : uint8_t {
  Register,  // element within a thread; consecutive values that share a 32-bit word are neighbours
  Lane,      // thread within a warp
  Warp,      // warp within a block (CTA)
  Block,     // CTA within a cluster
  Offset,    // element within a shared-memory buffer
  Iteration, // step of an algorithm that repeats
  Segment,   // scratch names for algebra
  Bank,
  // Coordinates of a tensor, Dim0 its outermost axis. There are kMaxRank of them: tensorDim(i).
  Dim0,
  Dim1,
  Dim2,
  Dim3,
  Dim4,
  Dim5,
};

constexpr unsigned kMaxRank = 24;

/// Coordinate along axis i of a tensor.
constexpr Dim tensorDim(unsigned i) {
  assert(i < kMaxRank);
  return static_cast<Dim>(static_cast<unsigned>(Dim::Dim0) + i);
}
constexpr bool isTensorDim(Dim d) { return d >= Dim::Dim0; }
/// Inverse of tensorDim.
constexpr unsigned axisOf(Dim d) { return static_cast<unsigned>(d) - static_cast<unsigned>(Dim::Dim0); }

/// "register", "lane", "warp", "block", "offset", ..., "dim0" ...
std::string toString(Dim d);

/// A dimension with 2^bits values.
struct DimBits {
  Dim dim;
  uint8_t bits;
  constexpr int64_t size() const { return int64_t{1} << bits; }
  friend constexpr bool operator==(DimBits, DimBits) = default;
};

/// Number of bits of a power of two.
constexpr unsigned log2Exact(int64_t size) {
  assert(size > 0 && (size & (size - 1)) == 0);
  return static_cast<unsigned>(std::countr_zero(static_cast<uint64_t>(size)));
}
/// A dimension given by its size, a power of two.
constexpr DimBits dimOfSize(Dim d, int64_t size) { return {d, static_cast<uint8_t>(log2Exact(size))}; }

/// The shape of a tensor, axis 0 first (outermost, as in the language); every extent a power of two. Converts from any
/// range of integers, ir::Shape among them. A list of axes (an order) has the same form.
class Extents {
public:
  Extents() = default;
  Extents(std::initializer_list<int64_t> e) {
    for (int64_t v : e)
      push(v);
  }
  template <typename Range>
  requires requires(const Range &r) {
    r.begin();
    r.end();
  }
  Extents(const Range &r) {
    for (auto v : r)
      push(static_cast<int64_t>(v));
  }
  /// `rank` times the same value.
  static Extents filled(unsigned rank, int64_t v) {
    Extents e;
    for (unsigned i = 0; i < rank; ++i)
      e.push(v);
    return e;
  }

  unsigned rank() const { return rank_; }
  size_t size() const { return rank_; }
  int64_t operator[](unsigned i) const { return e_[i]; }
  int64_t &operator[](unsigned i) { return e_[i]; }
  void push(int64_t v) {
    assert(rank_ < kMaxRank);
    e_[rank_++] = v;
  }
  const int64_t *begin() const { return e_.data(); }
  const int64_t *end() const { return e_.data() + rank_; }
  int64_t product() const {
    int64_t n = 1;
    for (int64_t v : *this)
      n *= v;
    return n;
  }
  friend bool operator==(const Extents &a, const Extents &b) {
    bool same = a.rank_ == b.rank_;
    for (unsigned i = 0; same && i < a.rank_; ++i)
      same = a.e_[i] == b.e_[i];
    return same;
  }

private:
  uint8_t rank_ = 0;
  std::array<int64_t, kMaxRank> e_{};
};

/// An ordered list of distinct dimensions. A tuple of coordinates is stored flat, in one integer: the first dimension
/// occupies the lowest bits.
class DimList {
public:
  DimList() = default;
  DimList(std::initializer_list<DimBits> dims) {
    for (DimBits d : dims)
      push(d);
  }
  explicit DimList(std::span<const DimBits> dims);

  void push(DimBits d) {
    assert(count_ < dims_.size() && !has(d.dim));
    dims_[count_++] = d;
  }
  unsigned size() const { return count_; }
  bool empty() const { return count_ == 0; }
  DimBits operator[](unsigned i) const { return dims_[i]; }
  DimBits &operator[](unsigned i) { return dims_[i]; }
  const DimBits *begin() const { return dims_.data(); }
  const DimBits *end() const { return dims_.data() + count_; }

  bool has(Dim d) const { return index(d) >= 0; }
  /// Position in the list, -1 if absent.
  int index(Dim d) const {
    for (unsigned i = 0; i < count_; ++i)
      if (dims_[i].dim == d)
        return static_cast<int>(i);
    return -1;
  }
  /// Bits of d; 0 if absent (an absent dimension has one value).
  unsigned bits(Dim d) const {
    int i = index(d);
    return i < 0 ? 0 : dims_[static_cast<unsigned>(i)].bits;
  }
  /// Lowest flat bit of d, which must be present.
  unsigned shift(Dim d) const {
    unsigned s = 0;
    for (const DimBits &e : *this) {
      if (e.dim == d)
        return s;
      s += e.bits;
    }
    assert(false && "no such dimension");
    return 0;
  }
  unsigned totalBits() const {
    unsigned s = 0;
    for (const DimBits &e : *this)
      s += e.bits;
    return s;
  }
  /// Mask of d's bits in a flat value; 0 if absent.
  uint64_t mask(Dim d) const { return has(d) ? ((uint64_t{1} << bits(d)) - 1) << shift(d) : 0; }
  /// Coordinate d of a flat value; 0 if absent.
  uint32_t part(uint64_t flat, Dim d) const {
    return has(d) ? static_cast<uint32_t>((flat >> shift(d)) & ((uint64_t{1} << bits(d)) - 1)) : 0;
  }
  /// The flat value whose coordinate d is `value` and whose other coordinates are 0.
  uint64_t flat(Dim d, uint64_t value) const {
    assert(value < (uint64_t{1} << bits(d)));
    return value == 0 ? 0 : value << shift(d);
  }
  /// Rewrites a flat value of this list as a flat value of `to`, coordinate by coordinate. Coordinates that `to` lacks
  /// must be 0, the others must fit.
  uint64_t regroup(uint64_t flat, const DimList &to) const {
    uint64_t out = 0;
    for (const DimBits &e : *this) {
      uint64_t v = flat & ((uint64_t{1} << e.bits) - 1);
      flat >>= e.bits;
      out |= to.flat(e.dim, v);
    }
    return out;
  }

  friend bool operator==(const DimList &a, const DimList &b) {
    if (a.count_ != b.count_)
      return false;
    for (unsigned i = 0; i < a.count_; ++i)
      if (a.dims_[i] != b.dims_[i])
        return false;
    return true;
  }

private:
  std::array<DimBits, kMaxRank + 4> dims_{};
  uint8_t count_ = 0;
};

} // namespace tegula::layout
