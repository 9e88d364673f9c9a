// Reductions of all of a tile reduce its columns first.
//
//   s = sum(sum(x, 1), 0)        becomes        s = sum(sum(x, 0), 0)
//   s = sum(reshape(x, [n]), 0)
//
// Along the columns whole vectors are combined, and only one row of the tile is left for its lanes to be combined among
// each other; that row by row costs as much as the rest. A flattened tile is one dimension, in which a nest knows no
// rows and columns: masks on them are evaluated for each element.
//
// The order of a reduction is free, so this is done for each operation whose results may be combined in another order
// (isReorderable), where a row is at least a vector and there is more than one.
#pragma once
#include "ir/Ir.h"
#include "targets/cpu/Cpu.h"

namespace tegula::cpu {

/// Is there anything to do for columnsFirst()?
bool hasWholeReductions(const ir::Module &m, const CpuTarget &target);
void columnsFirst(ir::Module &m, const CpuTarget &target);

} // namespace tegula::cpu
