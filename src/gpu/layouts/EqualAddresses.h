// Loads of which axis facts say that neighbours read one address: a weight for each channel, a row that all rows of a
// tile read.
#pragma once
#include "ir/Ir.h"
#include "layout/LinearLayout.h"
#include "passes/AxisFacts.h"

namespace tegula::gpu {

/// Addresses of which is known that groups of neighbours are equal, and nothing of those that differ; or that come from
/// quotients by an argument (offset // size_of_a_channel), of which most neighbours are equal: there is nothing to
/// coalesce, so the value may live with its users. Looks at a bounded number of operations.
bool hasEqualNeighbours(const ir::Op &op, const AxisFacts &facts);

/// Addresses of tensors of which is known neither that neighbours are equal nor that they are consecutive.
bool hasUnknownNeighbours(const ir::Op &access, const AxisFacts &facts);

/// Bits of a register of `l` that change neither the address of a load of tensors nor its mask nor what stands in for
/// masked-off elements; 0 of a volatile one.
int64_t sameAddresses(const ir::Op &load, const layout::LinearLayout &l, const AxisFacts &facts);

} // namespace tegula::gpu
