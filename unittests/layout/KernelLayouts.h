// Random choice among the layouts that kernels have.
#pragma once
#include "Random.h"
#include "layout/Constructors.h"

namespace tegula::layout::test {

/// Layouts as kernels have them, of a tensor of this shape.
inline LinearLayout someLayout(Random &rnd, const Extents &shape, unsigned warps, unsigned elemBits) {
  WarpGrid grid{1u << rnd.below(log2Exact(warps) + 1), 1, 1};
  grid.n = warps / grid.m;
  Extents order = rnd.chance(50) ? Extents{1, 0} : Extents{0, 1};
  unsigned bits = std::min(elemBits, 32u);
  switch (rnd.below(9)) {
  case 0:
    return mmaAccumulator(shape, grid);
  case 1:
    return mmaOperandA(shape, grid, bits);
  case 2:
    return mmaOperandB(shape, grid, bits);
  case 3:
    return permute(mmaAccumulator({shape[1], shape[0]}, grid), {1, 0});
  case 4:
    return expandDims(slice(mmaAccumulator({shape[0], 64}, grid), 1), 1) *
           LinearLayout::identity(shape[1], Dim::Register, Dim::Dim1);
  case 5:
    return fmaOperand(dealt({shape[0], 64}, order, 4, {32, warps}), 0, shape[1]);
  default:
    return dealt(shape, order, 1u << rnd.below(5), {32, warps});
  }
}

} // namespace tegula::layout::test
