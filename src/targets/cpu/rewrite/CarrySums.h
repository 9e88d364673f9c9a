// Loops that carry a tile of sums only to reduce it after the loop carry what it is reduced to.
//
//   acc = zeros([4, 1024])                          acc = zeros([4])
//   for s: acc += x                   becomes       for s: acc += sum(x, 1)
//   y = sum(acc, 1)                                 y = acc
//
// A loop-carried tile is a buffer, which each round reads and writes as a whole: three passes over memory for one, and
// for a row of 1237 columns in tiles of 1024 most of that is zeros. A reduction inside of the loop accumulates in
// registers and ends with the row (EmitRest.cpp).
//
// It is right because the order of a reduction is free: the loop computes `acc[i] = init[i] + x1[i] + x2[i] + ..`, the
// reduction adds up all `acc[i]` along its axis, so the result is the sum of all init[i] and xk[i], in some order. The
// new order has fewer additions one after the other, so the bound on its rounding errors (Higham, Accuracy and
// Stability of Numerical Algorithms, 4.2) does not grow: that of a reduction over n elements of a tile plus one for
// each round, where it was one for each round plus that of the reduction. The same holds for each operation whose
// results may be combined in another order (isReorderable): sums of f16 and bf16 are rounded in each round and stay, as
// do products of floats.
//
// Done for a carried value of which each use, on the way from the argument to the yield and through loops inside, is
// one operand of that operation (or of a `select` between the sum before and after: what is masked off adds the neutral
// element), and whose result only that one reduction sees. A reduction of all axes leaves what one along the last axis
// leaves. Rows of at most eight vectors stay tiles: loops over those keep them in registers (accumulatesRows).
#pragma once
#include "ir/Ir.h"
#include "targets/cpu/Cpu.h"

namespace tegula::cpu {

/// Is there anything to do for carrySums()?
bool hasCarriedSums(const ir::Module &m, const CpuTarget &target);
void carrySums(ir::Module &m, const CpuTarget &target);

} // namespace tegula::cpu
