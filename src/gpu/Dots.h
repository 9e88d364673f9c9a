// How a dot is computed, as far as the GPU level distinguishes instructions: a kind, and how the warps of a program
// partition the result.
#pragma once
#include "ir/Ir.h"
#include "layout/Constructors.h"

namespace tegula::gpu {

enum class DotKind : uint8_t {
  Fma,      // multiply-adds, unrolled, operands in registers: float64, IEEE float32, tiny shapes
  FmaTiles, // multiply-adds in a loop over the contraction, operands in shared memory (plainTile)
  Mma,      // a matrix instruction of one warp, operands in registers
  // an asynchronous matrix instruction of a group of warps (wgmma: four): B in shared memory, A there or in registers
  AsyncMma,
};

struct DotChoice {
  DotKind kind = DotKind::Fma;
  layout::WarpGrid grid; // of Mma and AsyncMma
  /// Of Mma: the number of elements along the contraction that a thread holds consecutively, of both operands; 0: as
  /// many as a word has. After AssignLayouts the operands' layouts say this.
  unsigned run = 0;
  /// Does it read its operands from shared memory?
  bool readsTiles() const { return kind == DotKind::FmaTiles || kind == DotKind::AsyncMma; }
};

/// The choice of a dot of GPU IR (attributes `instr` and `grid`). AssignLayouts writes it, later passes and code
/// generation read it.
DotChoice dotChoice(const ir::Op &dot);
void setDotChoice(ir::Op &dot, const DotChoice &c);
/// Estimates the 32-bit registers of a thread for the results of a loop's dots, plus a constant for everything else in
/// such a loop: addresses and masks of copies, counters.
int64_t registersOfDots(const ir::Block &body, int64_t threads);
/// Does the asynchronous instruction compute this dot of GPU IR?
bool isAsyncMma(const ir::Op &dot);
/// The accumulator operand of a dot if it is a select of zeroes by one condition for all elements,
/// `select(splat(condition), 0, sum)`; else null. An asynchronous dot then does not read `sum` if the condition holds.
const ir::Op *zeroesOf(const ir::Op &dot);

} // namespace tegula::gpu
