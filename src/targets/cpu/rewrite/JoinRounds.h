// Unrolls a loop over k and fuses the dots of several iterations into one, where the author's tiles are shallow.
//
//   for k in range(0, cdiv(K, 32)):                          for k in range(0, cdiv(K, 32), 4):
//       acc = dot(load(a, [64, 32]), load(b, [32, 64]), acc)     acc = dot(load(a, [64, 128]), load(b, [128, 64]), acc)
//
// Each dot reads and writes its result once, enters its loops over panels and blocks of rows, and tests once for each
// tile whether it is inside the matrix. With few k per dot, this fixed cost is most of the time of small tiles. The
// caches should determine the depth of a panel (DotPlan::kBlock), not the source: Goto and van de Geijn, Anatomy of
// high-performance matrix multiplication, ACM TOMS 34, 2008, 4.
//
// Every value in the loop that differs between iterations ("rounds") gets the rounds as its first dimension: scalars
// become `[r]` and tiles `[r, .., ..]`. The operands of the dot become `[M, r * BK]` and `[r * BK, N]`. In the plan
// these are renamed index bits (BitMap.h): a tile whose rounds are contiguous is one linear form. After the last round
// both operands are masked off, so one copy of the code suffices, and its loops end there (Part.h).
//
// Correct because a dot adds its products in any order: acc + (sum over the k of one round) + (sum over the k of the
// next) has the same terms as acc + (sum over all of them). Left unchanged: accumulators that are rounded in each
// iteration (f16), and loops that do anything but dots and their loads.
#pragma once
#include "ir/Ir.h"
#include "targets/cpu/Cpu.h"

namespace tegula::cpu {

/// Does `m` have a loop that joinRounds() would change?
bool hasShallowRounds(const ir::Module &m, const CpuTarget &target);
void joinRounds(ir::Module &m, const CpuTarget &target);

} // namespace tegula::cpu
