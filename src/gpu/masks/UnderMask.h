// Selections that nobody can tell from their first choice: where(mask, x, other) of which only elements under the same
// mask are stored.
//
//   d = where(mask, x - mean, 0);  store(out, d * rstd, mask)      becomes      store(out, (x - mean) * rstd, mask)
// The sum of squares beside it keeps its selection, which LowerReduce does once for each run of registers with one
// mask.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Rewrites the kernel (GPU IR) in place; selections that lose their last user stay for removeDead.
void dropSelectsUnderMask(ir::Module &m);

} // namespace tegula::gpu
