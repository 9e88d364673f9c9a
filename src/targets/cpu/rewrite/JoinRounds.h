// Several rounds of a loop over k as one, where the author's tiles are shallow.
//
//   for k in range(0, cdiv(K, 32)):                          for k in range(0, cdiv(K, 32), 4):
//       acc = dot(load(a, [64, 32]), load(b, [32, 64]), acc)     acc = dot(load(a, [64, 128]), load(b, [128, 64]), acc)
//
// Each round of a dot reads and writes its result once, enters its loops over panels and blocks of rows, and asks once
// for each tile whether it is inside of the matrix. What is shared among so few k is most of the time of small tiles.
// How deep a panel should be, the caches say (DotPlan::kBlock), not the source: Goto and van de Geijn, Anatomy of
// high-performance matrix multiplication, ACM TOMS 34, 2008, 4.
//
// Everything in the loop that differs from round to round gets the rounds as a first dimension, `[r]` of scalars and
// `[r, .., ..]` of tiles; the operands of the dot are `[M, r * BK]` and `[r * BK, N]` of it. To the plan these are
// names of bits (BitMap.h): a tile whose rounds go on where the one before ends is one linear form. After the last
// round both operands are masked off, so that there is one copy of the code, whose loops end there (Part.h).
//
// It is right because a dot adds the products of its k in any order: acc + (sum of the k of one round) + (sum of those
// of the next) has the elements of acc + (sum of all of them). Accumulators that are rounded in each round (f16) stay
// as they are, as do loops in which something but dots and their loads happens.
#pragma once
#include "ir/Ir.h"
#include "targets/cpu/Cpu.h"

namespace tegula::cpu {

/// Is there anything to do for joinRounds()?
bool hasShallowRounds(const ir::Module &m, const CpuTarget &target);
void joinRounds(ir::Module &m, const CpuTarget &target);

} // namespace tegula::cpu
