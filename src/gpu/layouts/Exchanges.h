// Elements that change places with those whose coordinate along an axis differs in certain bits: gather(x, position ^
// constant) becomes `exchange`, which keeps the layout and is done in registers, by shuffles, or through shared memory
// between the same places of two warps. Loops that such a constant is computed from are unrolled for it: the steps of a
// bitonic network, whose distances are 1 << (n - i).
//
// Narrow integers that are exchanged are widened (WidenKeys.h). Before layouts are assigned: a gather's result lives
// elsewhere than an exchange's.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Null: there are none. `threads` of a program.
std::unique_ptr<ir::Module> findExchanges(const ir::Module &module, unsigned threads);

} // namespace tegula::gpu
