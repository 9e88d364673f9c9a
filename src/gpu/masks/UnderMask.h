// Removes selects that a store's mask makes redundant: where(mask, x, other) of which only elements under the same mask
// are stored.
//
//   d = where(mask, x - mean, 0);  store(out, d * rstd, mask)      becomes      store(out, (x - mean) * rstd, mask)
// A sum of squares of the same value keeps the selection, which LowerReduce applies once for each run of registers with
// one mask.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Rewrites the kernel (GPU IR) in place; removeDead removes selections that lose their last user.
void dropSelectsUnderMask(ir::Module &m);

} // namespace tegula::gpu
