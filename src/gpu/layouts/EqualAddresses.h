// Finds, from axis facts, loads in which neighbouring elements have one address: a weight for each channel, a row that
// all rows of a tile read.
#pragma once
#include "ir/Ir.h"
#include "layout/LinearLayout.h"
#include "passes/AxisFacts.h"

namespace tegula::gpu {

/// Are groups of neighbouring addresses known to be equal, and none known to be consecutive? Or do the addresses come
/// from quotients by an argument (offset // size_of_a_channel), most neighbours of which are equal? Then there is
/// nothing to coalesce, and the value may take the layout of its users. Looks at a bounded number of operations.
bool hasEqualNeighbours(const ir::Op &op, const AxisFacts &facts);

/// Are the neighbouring addresses of a tensor of pointers known neither to be equal nor to be consecutive?
bool hasUnknownNeighbours(const ir::Op &access, const AxisFacts &facts);

/// A mask of the register bits of `l` that change neither the address of a load of tensors, nor its mask, nor the value
/// of masked-off elements; 0 for a volatile load.
int64_t sameAddresses(const ir::Op &load, const layout::LinearLayout &l, const AxisFacts &facts);

} // namespace tegula::gpu
