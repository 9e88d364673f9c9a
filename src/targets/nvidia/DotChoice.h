// The choice of the instruction that computes a dot, the layout of its result over warps, and the layouts that its
// operands need.
#pragma once
#include "gpu/shared/Tiles.h"
#include "targets/nvidia/Nvidia.h"

namespace tegula::nvidia {

/// Values equal the TEGULA_MMA_* numbers of SimAbi.h.
enum class MmaType : uint8_t { F16, BF16, TF32, E4M3, E5M2, S8, U8, F64, F32, S32 };

/// One mma.sync (DotKind::Mma) or wgmma.
struct MatrixInstr {
  MmaType a, b, d;
  unsigned n, k; // elements
};
/// The instruction of a choice of kind Mma or Wgmma.
MatrixInstr matrixInstr(const DotChoice &c, const ir::Op &dot);

/// The fastest instruction that meets the dot's `precision` on this target with that many warps.
DotChoice chooseDot(const ir::Op &dot, const NvTarget &target, unsigned warps);
/// Layout of the accumulator and result.
layout::LinearLayout accumulatorLayout(const DotChoice &c, const ir::Op &dot, unsigned warps);
/// Layout of operand 0 or 1 in registers (Fma, Mma; Wgmma: operand 0, which may instead be in shared memory).
layout::LinearLayout dotOperandLayout(const DotChoice &c, const ir::Op &dot, unsigned operand, unsigned warps);

/// A wgmma operand in shared memory: contiguous along K or along the rows (M or N) of the product.
struct SharedOperand {
  layout::LinearLayout memory; // offset in elements -> coordinates
  bool transposed = false;     // contiguous along M or N
  layout::SwizzleMode mode = layout::SwizzleMode::B128;
  uint64_t bytes = 0;
  // Descriptor fields and steps, in bytes (docs/hopper.md, "Shared-memory descriptor").
  uint32_t leading = 0, stride = 0;
  /// Offset of the part that starts at row r (M or N) and contraction index k, both multiples of one instruction's
  /// extents.
  uint32_t offset(unsigned r, unsigned k) const;
  unsigned elemBytes = 2, rows = 0; // rows of an atom column: extent of the axis that is not contiguous
};

/// The order of a wgmma dot's products along K: `rounds` rounds of `products`, emitted as a loop if there are several.
/// The assembler's time grows with the text, in which each product names all accumulators, and not with the trip count;
/// the loop does not slow the tensor cores (docs/performance-history.md).
/// Each round is its own commit group, because the assembler requires commits in the loop.
struct DotRounds {
  unsigned rounds = 1, products = 1;
  unsigned roundStep = 1, productStep = 1; // in products along K
  unsigned at(unsigned round, unsigned product) const { return round * roundStep + product * productStep; }
};
/// `depth`: products along K. There are several rounds only if the descriptors of both operands grow by a constant per
/// round. Narrow products also need `isAlone`: no other code runs beside them that the assembler would interleave.
DotRounds dotRounds(const MatrixInstr &c, const SharedOperand &a, const SharedOperand &b, unsigned depth,
                    bool isAlone = false);

/// Contraction indices per iteration of the loop of a dot by scalar FMAs: a power of two, at most K. `sums`:
/// accumulators per thread.
unsigned fmaStep(const ir::Type &a, const ir::Type &b, unsigned sums);
/// The shared-memory form of a wgmma operand. `fastest`: the axis along which the operand's registers are consecutive.
/// 8- and 32-bit operands are always contiguous along K.
SharedOperand sharedOperand(const ir::Type &operand, bool isA, unsigned fastest);

} // namespace tegula::nvidia
