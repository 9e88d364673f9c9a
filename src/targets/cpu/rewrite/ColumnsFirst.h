// Reductions of a whole tile reduce its columns first.
//
//   s = sum(sum(x, 1), 0)        becomes        s = sum(sum(x, 0), 0)
//   s = sum(reshape(x, [n]), 0)
//
// A reduction along the columns combines whole vectors and leaves one row, whose lanes are then combined with each
// other. Combining lanes in every row would cost as much as the rest of the reduction. A flattened tile has one
// dimension, so its nest cannot tell rows from columns and evaluates masks on them for each element.
//
// Applies to each operation whose results may be combined in another order (isReorderable), if the tile has more than
// one row and a row is at least a vector.
#pragma once
#include "ir/Ir.h"
#include "targets/cpu/Cpu.h"

namespace tegula::cpu {

/// Does `m` have a reduction that columnsFirst() would change?
bool hasWholeReductions(const ir::Module &m, const CpuTarget &target);
void columnsFirst(ir::Module &m, const CpuTarget &target);

} // namespace tegula::cpu
