// A linear layout: the element of a tensor that each place of the hardware holds, as a linear map over GF(2).
//
// Inputs are hardware indices (register, lane, warp, block; or the offset in a shared-memory buffer), outputs are
// tensor coordinates. All sizes are powers of two, so indices are bit vectors; the map is given by the images of the
// single input bits (its bases), and L(a ^ b) = L(a) ^ L(b). Example, the accumulator of mma.m16n8 (rows dim0, columns
// dim1):
//
//   register: (0,1) (8,0)                 register bit 0 steps one column, bit 1 steps eight rows
//   lane:     (0,2) (0,4) (1,0) (2,0) (4,0)
//
//   L(register 3, lane 5) = (0,1)^(8,0)^(0,2)^(1,0) = (9,3).
//
// A zero basis says that the bit changes nothing: both places hold the same element (broadcast). Swizzles are bases
// with several coordinates: in a 128-byte swizzled bf16 tile, row 1 starts at element offset 72 = 64 ^ 8.
//
// Why linear maps: composition is matrix product, "how do I get from layout A to layout B" is B^-1 A, contiguity and
// bank conflicts are ranks, and every layout of the GPU (blocked, mma, wgmma, swizzled shared) is one of them.
//
// Flat values: a tuple of coordinates is one integer, the first dimension in the lowest bits. Layouts of tensors list
// their outputs minor first: dim(r-1), ..., dim1, dim0. So the flat output is the row-major index of the element, and
// reshaping a tensor only relabels bits. Printing is always in the order (dim0, dim1, ...).
//
// A value class of fixed size (no heap); all operations are const and return new layouts. Preconditions are asserted.
#pragma once
#include "layout/Dim.h"
#include "layout/Gf2.h"
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tegula::layout {

/// One row of a table of bases: the images of the bits of `in`, lowest bit first, each as tensor coordinates (dim0,
/// dim1, ...).
struct BasisRow {
  Dim in;
  std::vector<std::vector<int64_t>> images;
};

class LinearLayout {
public:
  static constexpr unsigned kMaxInBits = 62;

  /// No inputs, no outputs: maps 0 to 0. The neutral element of operator*.
  LinearLayout() = default;
  /// bases[i] is the flat image of flat input bit i.
  LinearLayout(const DimList &ins, const DimList &outs, std::span<const uint64_t> bases);
  /// The layout of a tensor of this shape given by its bases, written as in the tables of the hardware manuals:
  /// tensor({16, 8}, {{Dim::Register, {{0,1},{8,0}}}, {Dim::Lane, {{0,2},{0,4},{1,0},{2,0},{4,0}}}}).
  static LinearLayout tensor(const Extents &shape, std::initializer_list<BasisRow> rows);
  /// in -> out, i -> i, both of `size` values.
  static LinearLayout identity(int64_t size, Dim in, Dim out);
  /// in -> out, every i -> 0; the output has outSize values.
  static LinearLayout zeros(int64_t size, Dim in, Dim out, int64_t outSize = 1);
  /// in -> out, i -> i * stride; the output has size * stride values.
  static LinearLayout strided(int64_t size, int64_t stride, Dim in, Dim out);
  /// The identity on all of `dims` at once.
  static LinearLayout identity(const DimList &dims);

  // Shape of the map.
  const DimList &ins() const { return ins_; }
  const DimList &outs() const { return outs_; }
  unsigned inBits(Dim d) const { return ins_.bits(d); }
  unsigned outBits(Dim d) const { return outs_.bits(d); }
  int64_t inSize(Dim d) const { return int64_t{1} << ins_.bits(d); }
  int64_t outSize(Dim d) const { return int64_t{1} << outs_.bits(d); }
  unsigned totalInBits() const { return count_; }
  unsigned totalOutBits() const { return outs_.totalBits(); }
  bool hasIn(Dim d) const { return ins_.has(d); }
  bool hasOut(Dim d) const { return outs_.has(d); }

  // Bases.
  /// Flat images of all input bits, in flat order.
  std::span<const uint64_t> bases() const { return {bases_.data(), count_}; }
  /// Flat images of the bits of d; empty if d is no input.
  std::span<const uint64_t> bases(Dim d) const;
  /// Flat image of bit i of d.
  uint64_t basis(Dim d, unsigned i) const { return bases(d)[i]; }
  /// One coordinate of the image of bit i of d.
  uint32_t basis(Dim d, unsigned i, Dim out) const { return outs_.part(basis(d, i), out); }

  // Evaluation.
  /// Flat input to flat output.
  uint64_t apply(uint64_t in) const { return multiply(bases(), in); }
  /// Inputs that are not named are 0. Result in the order of outs().
  std::vector<std::pair<Dim, uint32_t>> apply(std::initializer_list<std::pair<Dim, uint64_t>> in) const;
  /// Flat input of named coordinates.
  uint64_t flatIn(std::initializer_list<std::pair<Dim, uint64_t>> in) const;

  // Composition.
  /// x -> outer(this(x)). The outputs of this must be inputs of outer by name, and fit.
  LinearLayout compose(const LinearLayout &outer) const;
  /// The inverse map; isInvertible() required.
  LinearLayout invert() const;
  /// P from outputs to inputs with L(P(y)) = y for every y that L reaches. Among the preimages it takes the one that
  /// uses the earliest input bits (registers before lanes before warps before blocks): the result never refers to
  /// redundant copies.
  LinearLayout pseudoInvert() const;
  /// C from the inputs of this to the inputs of `other` with other(C(x)) = this(x): the place in `other` of the element
  /// that x holds here. Requires image(this) within image(other). Where several solutions exist, an input bit is mapped
  /// to the bit of the same name if that is one of them (data already in place does not move), else to the earliest
  /// bits.
  LinearLayout invertAndCompose(const LinearLayout &other) const;
  /// Direct sum: inputs and outputs side by side. Dimensions of the same name are joined: this gets the low bits, `hi`
  /// the high bits. Dimensions keep the order of this, new ones of `hi` follow.
  LinearLayout operator*(const LinearLayout &hi) const;
  LinearLayout &operator*=(const LinearLayout &hi) { return *this = *this * hi; }
  /// C with lo * C == this (up to the order of dimensions), if there is one: "this repeats the tile lo".
  std::optional<LinearLayout> divideLeft(const LinearLayout &lo) const;
  /// C with C * hi == this (up to the order of dimensions), if there is one.
  std::optional<LinearLayout> divideRight(const LinearLayout &hi) const;

  // Parts.
  /// The map restricted to some inputs (the others 0) and projected to some outputs; in the given order.
  LinearLayout sublayout(std::span<const Dim> inDims, std::span<const Dim> outDims) const;
  LinearLayout sublayout(std::initializer_list<Dim> inDims, std::initializer_list<Dim> outDims) const;
  /// True if these inputs never change these outputs.
  bool sublayoutIsZero(std::initializer_list<Dim> inDims, std::initializer_list<Dim> outDims) const;
  /// Input d becomes the constant 0 and disappears. (Nothing happens if it is absent.)
  LinearLayout removeIn(Dim d) const;
  /// Output d is dropped.
  LinearLayout removeOut(Dim d) const;
  /// Keeps only the bits of input d that `mask` selects, renumbered.
  LinearLayout selectIn(Dim d, uint64_t mask) const;
  /// Drops the bits of d whose basis is zero (copies within d), renumbering the rest.
  LinearLayout removeZeroBases(Dim d) const;
  /// True if d is both an input and an output and the map is the identity on it: bit i of d goes to bit i of d alone,
  /// and no other input reaches d. (Both sizes must agree.) Dimensions that occur nowhere are trivial.
  bool isTrivialOver(std::initializer_list<Dim> dims) const;
  /// The map without dimensions over which it is trivial; nothing if it is not.
  std::optional<LinearLayout> quotient(std::initializer_list<Dim> dims) const;

  // Relabelling (the map on flat values is unchanged, except by transposition).
  LinearLayout transposeIns(std::span<const Dim> order) const;
  LinearLayout transposeOuts(std::span<const Dim> order) const;
  LinearLayout transposeIns(std::initializer_list<Dim> order) const;
  LinearLayout transposeOuts(std::initializer_list<Dim> order) const;
  /// New names and sizes for the same flat bits; the totals must agree.
  LinearLayout reshapeIns(const DimList &dims) const;
  LinearLayout reshapeOuts(const DimList &dims) const;
  LinearLayout flattenIns(Dim d) const { return reshapeIns({{d, static_cast<uint8_t>(count_)}}); }
  LinearLayout flattenOuts(Dim d) const { return reshapeOuts({{d, static_cast<uint8_t>(totalOutBits())}}); }
  LinearLayout renameIn(Dim from, Dim to) const;
  LinearLayout renameOut(Dim from, Dim to) const;
  /// Output d with at least `bits` bits (the new values are not reached); added as the last one if absent.
  LinearLayout growOut(Dim d, unsigned bits) const;
  /// Input d present, with at least `bits` bits; the new bits are zero bases. Added as the last one if absent.
  LinearLayout growIn(Dim d, unsigned bits) const;

  // Questions.
  unsigned rank() const { return rankOf(bases()); }
  /// Every output value is reached.
  bool isSurjective() const { return rank() == totalOutBits(); }
  /// No element is held twice.
  bool isInjective() const { return rank() == count_; }
  bool isInvertible() const { return count_ == totalOutBits() && rank() == count_; }
  /// Invertible and every basis is one output bit: only the order of bits changes.
  bool isPermutation() const;
  /// Every non-zero basis is one output bit and no two are the same: a permutation with copies and gaps.
  bool isProjectedPermutation() const;
  /// Flat mask of redundant input bits: the dependent columns, seen from the lowest bit. A place with one of these bits
  /// set holds a copy of an element of a place with all of them clear.
  uint64_t freeMask() const;
  /// The part of freeMask() in d, as bits of d. A thread with (lane & freeMask(Lane)) == 0 holds the first copy.
  uint32_t freeMask(Dim d) const { return ins_.part(freeMask(), d); }
  /// Flat inputs that span the kernel: the x with L(x) = 0, so x and y hold the same element iff x ^ y is in their
  /// span.
  std::vector<uint64_t> kernel() const;
  /// Bits of input d that step along output `out`, copies (freeMask) left out: `pure` ones change nothing else, `mixed`
  /// ones do. Without mixed bits, a reduction along `out` combines exactly the places that differ in pure bits.
  struct AxisBits {
    uint32_t pure = 0, mixed = 0;
  };
  AxisBits axisBits(Dim d, Dim out) const;
  /// Largest n such that input d's values 0 ... n-1 are consecutive in the flat output, starting anywhere a multiple of
  /// n:
  /// the bases of d begin 1, 2, 4, ... and no other basis touches these bits.
  int64_t contiguous(Dim d) const;

  friend bool operator==(const LinearLayout &a, const LinearLayout &b);
  /// Equal after bringing b's dimensions into the order of a and dropping dimensions of size 1.
  bool sameMap(const LinearLayout &b) const;
  uint64_t hash() const;

  /// One line: "register: (0,1) (8,0); lane: (0,2) ... -> dim0 16, dim1 8". Coordinates in the order of the dimension
  /// numbers; a single output prints as plain numbers. A dimension without bits prints as "-".
  std::string print() const;
  /// The tile as a picture: see Draw.cpp. At most maxCells cells per side are drawn.
  std::string draw(unsigned maxCells = 64) const;

private:
  DimList ins_, outs_;
  std::array<uint64_t, kMaxInBits> bases_{};
  uint8_t count_ = 0;
};

/// Output dimensions of a tensor in the canonical order (minor first).
DimList tensorDims(const Extents &shape);
/// Shape of the tensor that a layout describes: its tensor dimensions, which must be dim0 ... dim(r-1).
Extents shapeOf(const LinearLayout &layout);

} // namespace tegula::layout
