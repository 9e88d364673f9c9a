// Turns gather(x, position ^ constant), in which each element changes places with the one whose coordinate along an
// axis differs in certain bits, into `exchange`. An exchange keeps the layout; it takes place in registers, by
// shuffles, or through shared memory between the same places of two warps. Loops whose counters the constant is
// computed from are unrolled: the steps of a bitonic network, whose distances are 1 << (n - i).
//
// Narrow integers that are exchanged are widened (WidenKeys.h). The pass comes before layouts are assigned, because a
// gather and an exchange give their results different layouts.
#pragma once
#include "ir/Ir.h"

namespace tegula::gpu {

/// Null if there are no such gathers. `threads`: the threads of a program.
std::unique_ptr<ir::Module> findExchanges(const ir::Module &module, unsigned threads);

} // namespace tegula::gpu
