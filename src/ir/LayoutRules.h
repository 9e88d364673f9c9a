// The verifier's rules about layouts (Verifier.cpp): which layouts a module may have, and which accesses fit one.
#pragma once
#include "ir/Type.h"
#include "layout/LinearLayout.h"

namespace tegula::ir {

/// From offsets in shared memory to coordinates; other layouts go from threads and their registers.
bool isOfTile(const layout::LinearLayout &l);

/// What is wrong with a layout by itself, as the beginning of a message that the layout ends; null: nothing. Every
/// element of a tensor is somewhere, and every element of a tile at one offset.
const char *layoutProblem(const layout::LinearLayout &l);

/// Do the first `n` registers of each thread hold neighbours along one axis of the tensor (attribute `vec` of
/// accesses)? n: any number.
bool holdsVectors(const layout::LinearLayout &l, int64_t n);

} // namespace tegula::ir
