// The verifier's rules about layouts (Verifier.cpp): which layouts a module may have, and which accesses fit one.
#pragma once
#include "ir/Type.h"
#include "layout/LinearLayout.h"

namespace tegula::ir {

/// Whether `l` maps offsets in shared memory to coordinates; other layouts map threads and their registers.
bool isOfTile(const layout::LinearLayout &l);

/// The defect of a layout by itself, as the beginning of a message that ends with the layout; null if it is valid.
/// Every element of a tensor must have a place, and every element of a tile exactly one offset.
const char *layoutProblem(const layout::LinearLayout &l);

/// Whether the first `n` registers of each thread hold neighbours along one axis of the tensor (attribute `vec` of
/// accesses). n: any number.
bool holdsVectors(const layout::LinearLayout &l, int64_t n);

} // namespace tegula::ir
