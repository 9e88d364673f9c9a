// Dots of whose results only the first row counts are sums of products.
//
//   m = arange(16); acc = zeros([16, N])                     acc = zeros([K, N])
//   for ..: acc = dot(a, b, acc)                  becomes    for ..: acc += row 0 of a, as a column * b
//   store(.., acc, mask=m < 1)                               store(.., sum(acc, 0), mask=m < 1)
//
// Kernels for matrices ask for tiles of at least sixteen rows, and are launched for one: a token that is decoded. Such
// a product is as fast as B comes from memory. A dot packs B and turns it around where k lies along memory; a sum of
// products does neither, reads rows from end to end and keeps its sums in registers (CarrySums.h,
// FunctionEmitter::accumulatesRows). Where k lies along memory the tile is [N, K].
//
// It is right because row 0 of a dot is the sum over k of a[0, k] * b[k, n] in any order, in the accumulator's type,
// and nobody looks at the other rows, which become copies of it. Row 0 is all that counts where each store is masked by
// `m < 1` for an m that begins at zero or above and grows by one from row to row. The constant is the argument of the
// launch: one that is 1 is a constant.
#pragma once
#include "ir/Ir.h"
#include "targets/cpu/Cpu.h"

namespace tegula::cpu {

/// Is there anything to do for sumOneRow()?
bool hasOneRow(const ir::Module &m, const CpuTarget &target);
void sumOneRow(ir::Module &m, const CpuTarget &target);

} // namespace tegula::cpu
