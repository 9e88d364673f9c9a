// Fragments of the matrix instructions.
//
// All of mma.sync and wgmma share one pattern. With s = log2(elements per 32-bit register):
//   accumulator {m, n}: register n1, m8; lane n2, n4, m1, m2, m4
//   A {m, k}:           register k(1 ... 2^(s-1)), m8, further k; lane k(2^s), k(2^(s+1)), m1, m2, m4
//   B {k, n}:           register k(1 ... 2^(s-1)), further k;     lane k(2^s), k(2^(s+1)), n1, n2, n4
// and four consecutive warps of a wgmma stack the 16-row tile four times. See docs/rationale/layouts.md.
#include "layout/Constructors.h"
#include <algorithm>

namespace tegula::layout {

namespace {

/// Collects bases of a tensor {rows, columns} or {batch, rows, columns}, cutting coordinates beyond the shape to zero.
class Fragment {
public:
  explicit Fragment(const Extents &shape) : shape_(shape), outs_(tensorDims(shape)) {
    assert(shape.rank() == 2 || shape.rank() == 3);
  }
  enum Axis { Row, Column, Batch };

  /// One bit of `in` that steps by `step` along an axis.
  void bit(Dim in, Axis axis, int64_t step) {
    uint64_t image = step < extent(axis) ? outs_.flat(dim(axis), static_cast<uint64_t>(step)) : 0;
    bases_[static_cast<size_t>(in)].push_back(image);
  }
  /// Bits of `in` that step by from, 2 * from, ... below `to`.
  void bits(Dim in, Axis axis, int64_t from, int64_t to) {
    for (int64_t step = from; step < to; step *= 2)
      bit(in, axis, step);
  }
  /// A copy: this bit of `in` changes nothing.
  void copies(Dim in, unsigned count) {
    for (; count > 1; count /= 2)
      bases_[static_cast<size_t>(in)].push_back(0);
  }
  int64_t extent(Axis axis) const {
    if (axis == Batch)
      return shape_.rank() == 3 ? shape_[0] : 1;
    return shape_[shape_.rank() - (axis == Row ? 2 : 1)];
  }
  LinearLayout take() const {
    DimList ins;
    std::vector<uint64_t> all;
    for (Dim d : {Dim::Register, Dim::Lane, Dim::Warp}) {
      const std::vector<uint64_t> &b = bases_[static_cast<size_t>(d)];
      ins.push({d, static_cast<uint8_t>(b.size())});
      all.insert(all.end(), b.begin(), b.end());
    }
    return LinearLayout(ins, outs_, all);
  }

private:
  Dim dim(Axis axis) const { return tensorDim(axis == Batch ? 0 : shape_.rank() - (axis == Row ? 2 : 1)); }
  Extents shape_;
  DimList outs_;
  std::vector<uint64_t> bases_[3];
};

using Axis = Fragment::Axis;

/// Extent along an axis that each of `parts` warps (or warpgroups) owns, at least `atom`.
int64_t share(int64_t extent, unsigned parts, int64_t atom) { return std::max(extent / parts, atom); }

/// Rows beyond the 16 of one warp, then all warps over rows (m), columns and batches. `columnAxis`: the axis that warps
/// of grid.n divide; its per-warp part is `columns`. A negative value: operand that all of them share.
void spreadRows(Fragment &f, WarpGrid grid, bool warpgroup, int64_t columns) {
  int64_t atom = warpgroup ? 64 : 16;
  unsigned groups = warpgroup ? grid.m / 4 : grid.m;
  int64_t rows = share(f.extent(Axis::Row), groups, atom);
  f.bits(Dim::Register, Axis::Row, atom, rows);
  f.bits(Dim::Register, Axis::Batch, grid.batch, f.extent(Axis::Batch));
  if (warpgroup)
    f.bits(Dim::Warp, Axis::Row, 16, 64);
  f.bits(Dim::Warp, Axis::Row, rows, rows * groups);
  if (columns > 0)
    f.bits(Dim::Warp, Axis::Column, columns, columns * grid.n);
  else
    f.copies(Dim::Warp, grid.n);
  f.bits(Dim::Warp, Axis::Batch, 1, grid.batch);
}

LinearLayout accumulator(const Extents &shape, WarpGrid grid, bool warpgroup) {
  Fragment f(shape);
  int64_t columns = share(f.extent(Axis::Column), grid.n, 8);
  f.bit(Dim::Register, Axis::Column, 1);
  f.bit(Dim::Register, Axis::Row, 8);
  f.bits(Dim::Register, Axis::Column, 8, columns);
  f.bits(Dim::Lane, Axis::Column, 2, 8);
  f.bits(Dim::Lane, Axis::Row, 1, 8);
  spreadRows(f, grid, warpgroup, columns);
  return f.take();
}

/// The contraction axis of an operand: `native` elements share a 32-bit register, a thread holds `width` consecutive
/// ones.
struct Contraction {
  int64_t native, width;
  Contraction(unsigned elemBits, unsigned kWidth) : native(std::max(1, 32 / static_cast<int>(elemBits))) {
    width = std::max<int64_t>(kWidth, native);
  }
};

LinearLayout operandA(const Extents &shape, WarpGrid grid, unsigned elemBits, unsigned kWidth, bool warpgroup) {
  Fragment f(shape);
  Contraction c(elemBits, kWidth);
  f.bits(Dim::Register, Axis::Column, 1, c.native);
  f.bit(Dim::Register, Axis::Row, 8);
  f.bits(Dim::Register, Axis::Column, c.native, c.width);
  f.bits(Dim::Register, Axis::Column, 4 * c.width, f.extent(Axis::Column));
  f.bits(Dim::Lane, Axis::Column, c.width, 4 * c.width);
  f.bits(Dim::Lane, Axis::Row, 1, 8);
  spreadRows(f, grid, warpgroup, -1);
  return f.take();
}

} // namespace

LinearLayout mmaAccumulator(const Extents &shape, WarpGrid grid) { return accumulator(shape, grid, false); }

LinearLayout wgmmaAccumulator(const Extents &shape, WarpGrid grid) {
  assert(grid.m % 4 == 0 && "a warpgroup is four warps along m");
  return accumulator(shape, grid, true);
}

LinearLayout mmaOperandA(const Extents &shape, WarpGrid grid, unsigned elemBits, unsigned kWidth) {
  return operandA(shape, grid, elemBits, kWidth, false);
}

LinearLayout wgmmaOperandA(const Extents &shape, WarpGrid grid, unsigned elemBits, unsigned kWidth) {
  assert(grid.m % 4 == 0);
  return operandA(shape, grid, elemBits, kWidth, true);
}

LinearLayout mmaOperandB(const Extents &shape, WarpGrid grid, unsigned elemBits, unsigned kWidth) {
  Fragment f(shape);
  Contraction c(elemBits, kWidth);
  int64_t columns = share(f.extent(Axis::Column), grid.n, 8);
  f.bits(Dim::Register, Axis::Row, 1, c.width);
  f.bits(Dim::Register, Axis::Row, 4 * c.width, f.extent(Axis::Row));
  f.bits(Dim::Register, Axis::Column, 8, columns);
  f.bits(Dim::Register, Axis::Batch, grid.batch, f.extent(Axis::Batch));
  f.bits(Dim::Lane, Axis::Row, c.width, 4 * c.width);
  f.bits(Dim::Lane, Axis::Column, 1, 8);
  f.copies(Dim::Warp, grid.m);
  f.bits(Dim::Warp, Axis::Column, columns, columns * grid.n);
  f.bits(Dim::Warp, Axis::Batch, 1, grid.batch);
  return f.take();
}

LinearLayout fmaOperand(const LinearLayout &result, unsigned operand, int64_t k) {
  unsigned gone = shapeOf(result).rank() - (operand == 0 ? 1 : 2);
  // Forget the other operand's axis (threads along it share the rows), then put k in its place, in the highest
  // registers.
  return expandDims(slice(result, gone), gone) * LinearLayout::identity(k, Dim::Register, tensorDim(gone));
}

LinearLayout matrixMove(unsigned count, bool transposed) {
  assert(count == 1 || count == 2 || count == 4);
  using Images = std::vector<std::vector<int64_t>>;
  Images half = {{0, 0, 1}}, lane = {{0, 0, 2}, {0, 0, 4}, {0, 1, 0}, {0, 2, 0}, {0, 4, 0}};
  if (transposed) {
    half = {{0, 1, 0}};
    lane = {{0, 2, 0}, {0, 4, 0}, {0, 0, 1}, {0, 0, 2}, {0, 0, 4}};
  }
  for (int64_t step = 1; step < count; step *= 2)
    half.push_back({step, 0, 0});
  return LinearLayout::tensor({count, 8, 8}, {{Dim::Register, half}, {Dim::Lane, lane}});
}

} // namespace tegula::layout
