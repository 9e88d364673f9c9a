// Tiles of addresses whose elements lie the same way apart for the whole program: base + i * s0 + j * s1, with steps
// that are constants or scalars of the kernel.
//
//   x + (first + arange).to(int64)[:, None] * stride + columns[None, :]        steps: stride along axis 0, 1 along axis 1
// A thread that knows the address of one of its registers has the others by additions then; where the steps of some
// axes alone are known, those along these axes. Sums in 64 bits are exact modulo 2^64 however they are ordered;
// extensions of narrower sums are taken for exact as everywhere (AxisFacts.h: index arithmetic does not overflow inside
// a tile).
#pragma once
#include "ir/Ir.h"
#include <vector>

namespace tegula {

/// From one element to its neighbour along an axis: constant * scalar; `scalar` is null for 1. Of pointers in elements.
struct UniformStep {
  int64_t constant = 0;
  const ir::Value *scalar = nullptr;
  bool isKnown = true;
};

struct UniformSteps {
  std::vector<UniformStep> axes;
  // Something of it is computed in 64 bits, element by element, in the block of the addresses themselves. Rows that a
  // loop finds in registers (HoistAddresses.h) cost one addition each as they are, and steps would be products: the
  // assembler does not keep a multiple of a stride, and puts what computes it between the wgmmas.
  bool isWide = false;

  bool allKnown() const;
};

/// Of a tile. Looks at a bounded number of operations, and knows nothing of what is made of more. `narrow`: products in
/// 32 bits are taken for exact, too; scalars of 32 bits are signed.
UniformSteps uniformSteps(const ir::Value *v, bool narrow = false);

} // namespace tegula
