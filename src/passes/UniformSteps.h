// Tiles of addresses with uniform strides between neighbours: base + i * s0 + j * s1, with steps that are constants or
// scalars of the kernel.
//
//   x + (first + arange).to(int64)[:, None] * stride + columns[None, :]        steps: stride along axis 0, 1 along axis 1
// A thread then computes the address of one of its registers and derives the others by additions; where only some axes
// have known steps, it derives those along these axes. Sums in 64 bits are exact modulo 2^64 in any order; the analysis
// assumes that extensions of narrower sums are exact (AxisFacts.h: index arithmetic does not overflow inside a tile).
#pragma once
#include "ir/Ir.h"
#include <vector>

namespace tegula {

/// The step from one element to its neighbour along an axis: constant * scalar; `scalar` is null for 1. Steps of
/// pointers count elements.
struct UniformStep {
  int64_t constant = 0;
  const ir::Value *scalar = nullptr;
  bool isKnown = true;
};

struct UniformSteps {
  std::vector<UniformStep> axes;
  // Part of the addresses is computed in 64 bits, element by element, in their own block. Row addresses that a loop
  // keeps in registers (HoistAddresses.h) cost one addition each, and steps would be products: the assembler does not
  // keep a multiple of a stride in a register, and recomputes it between the wgmmas.
  bool isWide = false;

  bool allKnown() const;
};

/// The steps of a tile. Looks at a bounded number of operations; steps that need more are unknown. `narrow`: assumes
/// that products in 32 bits are exact, too; scalars of 32 bits are signed.
UniformSteps uniformSteps(const ir::Value *v, bool narrow = false);

} // namespace tegula
