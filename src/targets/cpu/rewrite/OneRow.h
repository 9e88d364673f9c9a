// A dot of whose result only the first row is stored becomes a sum of products.
//
//   m = arange(16); acc = zeros([16, N])                     acc = zeros([K, N])
//   for ..: acc = dot(a, b, acc)                  becomes    for ..: acc += row 0 of a, as a column * b
//   store(.., acc, mask=m < 1)                               store(.., sum(acc, 0), mask=m < 1)
//
// Kernels written for matrices use tiles of at least sixteen rows but are also launched for a single row, e.g. to
// decode one token. Such a product is limited by the bandwidth at which B is read. A dot packs B, and transposes it if
// B is contiguous along k. A sum of products does neither: it reads whole rows and keeps its sums in registers
// (CarrySums.h, accumulatesRows). If B is contiguous along k the tile is [N, K].
//
// Correct because row 0 of a dot is the sum over k of a[0, k] * b[k, n] in any order, in the accumulator's type, and
// the other rows, which become copies of row 0, are never read. Only row 0 is stored if each store is masked by `m < 1`
// for an m that begins at zero or above and grows by one from row to row. The 1 is a launch argument: an argument whose
// value is 1 is a constant.
#pragma once
#include "ir/Ir.h"
#include "targets/cpu/Cpu.h"

namespace tegula::cpu {

/// Does `m` have a dot that sumOneRow() would change?
bool hasOneRow(const ir::Module &m, const CpuTarget &target);
void sumOneRow(ir::Module &m, const CpuTarget &target);

} // namespace tegula::cpu
