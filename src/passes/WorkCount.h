// Counts the work of a kernel: turns tile IR after the passes into a Work (support/Work.h).
//
//   for %k = 0 to cdiv(K, 64): %a = load (%pa + pid/8*64*K + range[:, None]*K + range[None, :] + k*64)
//
// is Trips(0, (K+63)/64, 1) times an access of 64x64 elements whose byte c0, c1 is
// 2*(pid/8*64*K + c0*K + c1 + Iteration*64).
//
// Only values that loops, branches, addresses and masks need become symbolic. A loop-carried value is symbolic if each
// iteration adds a loop-invariant value; other values that depend on memory or floats are Unknown.
//
// The counts describe the program, not machine code: the target's cost model decides which unit multiplies and what is
// kept in shared memory. Time: linear in the operations. Expressions that are deeper than some hundred operations, and
// those of a kernel with more than some ten thousand, are Unknown.
#pragma once
#include "ir/Ir.h"
#include "support/Work.h"

namespace tegula {

/// The work of the module's kernel, including the functions that it calls.
Work countWork(const ir::Module &m);

} // namespace tegula
