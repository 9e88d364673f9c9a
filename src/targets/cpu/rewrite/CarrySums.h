// Loops that carry a tile of sums and reduce it after the loop carry the reduced value instead.
//
//   acc = zeros([4, 1024])                          acc = zeros([4])
//   for s: acc += x                   becomes       for s: acc += sum(x, 1)
//   y = sum(acc, 1)                                 y = acc
//
// A loop-carried tile is a buffer that each iteration reads and writes as a whole: three passes over memory instead of
// one. For a row of 1237 columns in tiles of 1024 most of that is zeros. A reduction inside the loop accumulates in
// registers and stops at the end of the row (EmitRest.cpp).
//
// Correct because a reduction may combine its elements in any order. The loop computes
// `acc[i] = init[i] + x1[i] + x2[i] + ..` and the reduction adds up all `acc[i]` along its axis, so the result is the
// sum of all init[i] and xk[i], in some order. The new order has a shorter chain of dependent additions, so the bound
// on its rounding errors (Higham, Accuracy and Stability of Numerical Algorithms, 4.2) does not grow: before and after
// it is that of a reduction over the n elements of a tile plus one addition per iteration. The same holds for each
// operation whose results may be combined in another order (isReorderable). Sums of f16 and bf16 are rounded in each
// iteration, so they are left unchanged, as are products of floats.
//
// Applies to a carried value if each of its uses, on the path from the argument to the yield and through inner loops,
// is one operand of that operation (or of a `select` between the sum before and after: masked-off elements add the
// neutral element), and if its result is used by that one reduction only. A reduction of all axes is left with the
// result of a reduction along the last axis. Rows of at most eight vectors stay tiles: loops over those keep them in
// registers (accumulatesRows).
#pragma once
#include "ir/Ir.h"
#include "targets/cpu/Cpu.h"

namespace tegula::cpu {

/// Does `m` have a loop that carrySums() would change?
bool hasCarriedSums(const ir::Module &m, const CpuTarget &target);
void carrySums(ir::Module &m, const CpuTarget &target);

} // namespace tegula::cpu
