// Counts what a kernel does: tile IR after the passes in, a Work (support/Work.h) out.
//
//   for %k = 0 to cdiv(K, 64): %a = load (%pa + pid/8*64*K + range[:, None]*K + range[None, :] + k*64)
//
// is Trips(0, (K+63)/64, 1) times an access of 64x64 elements whose byte c0, c1 is
// 2*(pid/8*64*K + c0*K + c1 + Iteration*64).
//
// Symbolic values are made for what loops, branches, addresses and masks need and for nothing else. Loop-carried values
// are understood if an iteration adds something that the loop does not change; everything else that memory or floats
// decide is Unknown.
//
// Counts are of the program, not of machine code: what a target does with them (which unit multiplies, what is kept in
// shared memory) is the model's business. Time: linear in the operations. Expressions that are deeper than some hundred
// operations, and those of a kernel with more than some ten thousand, are Unknown.
#pragma once
#include "ir/Ir.h"
#include "support/Work.h"

namespace tegula {

/// Of the module's kernel, with the functions it calls.
Work countWork(const ir::Module &m);

} // namespace tegula
