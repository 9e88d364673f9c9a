// How a dot is computed, as far as the GPU level knows instructions: a kind, and how the warps of a program share the
// result.
#pragma once
#include "ir/Ir.h"
#include "layout/Constructors.h"

namespace tegula::gpu {

enum class DotKind : uint8_t {
  Fma,      // multiply-adds, unrolled, operands in registers: float64, IEEE float32, tiny shapes
  FmaTiles, // multiply-adds in a loop over the contraction, operands in shared memory (plainTile)
  Mma,      // a matrix instruction of one warp, operands in registers
  // a matrix instruction of a group of warps (wgmma: four) that runs asynchronously: B in shared memory, A there or in
  // registers
  AsyncMma,
};

struct DotChoice {
  DotKind kind = DotKind::Fma;
  layout::WarpGrid grid; // of Mma and AsyncMma
  /// Of Mma: elements along the contraction that a thread holds side by side of both operands, whose layouts say it
  /// after AssignLayouts; 0: a word of them.
  unsigned run = 0;
  /// Does it read its operands from shared memory?
  bool readsTiles() const { return kind == DotKind::FmaTiles || kind == DotKind::AsyncMma; }
};

/// The choice as it stands on a dot of GPU IR (attributes `instr` and `grid`): AssignLayouts writes it, everybody after
/// reads it.
DotChoice dotChoice(const ir::Op &dot);
void setDotChoice(ir::Op &dot, const DotChoice &c);
/// Registers that a thread has for the results of a loop's dots, and for what else such a loop has: addresses and masks
/// of copies, counters.
int64_t registersOfDots(const ir::Block &body, int64_t threads);
/// A dot of GPU IR: is it computed by the asynchronous instruction?
bool isAsyncMma(const ir::Op &dot);
/// The selection of zeroes by one condition for all elements that a dot adds to, if it is one:
/// `select(splat(condition), 0, sum)`; else null. An asynchronous dot does not read its sum then.
const ir::Op *zeroesOf(const ir::Op &dot);

} // namespace tegula::gpu
