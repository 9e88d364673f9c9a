// Transposes dots so that later dots read their results from registers. An asynchronous dot (wgmma) can read its first
// operand from the registers in which another dot has left it, row by row; its second operand, and a transposed one,
// must go through shared memory. Where that concerns the operand of a dot in a loop, the pass computes the tile, and
// everything computed with it element by element, transposed:
//
//   %s = dot %k, %qT                                    %s = dot %q, %kT             (ab)T = bT aT
//   %p = exp2 (%s - broadcast %m)            =>         %p = exp2 (%s - broadcast %m)
//   %o = dot %vT, %p, %acc                              %o = dot %p, %v, %acc        %p stays in registers
//   ... = transpose %o                                  ... = %o
// Reductions along one axis become reductions along the other. A transpose stays, or is added, where a user needs the
// other orientation than the value now has.
//
// The pass counts the tiles that have to move between threads before and after, weighted by loop depth, and rewrites
// the kernel if there are fewer. All transposed dots must then be asynchronous ones, which have at least 64 rows. Flash
// attention with scores of keys by queries is the first form of this. The second form computes dk, dv and dq, which
// read P and its transpose, in one loop.
#pragma once
#include "gpu/TargetInfo.h"
#include <memory>

namespace tegula::gpu {

/// Tile IR to tile IR, before layouts. Null if there is no gain.
std::unique_ptr<ir::Module> turnDots(const ir::Module &module, const TargetInfo &target, unsigned warps);

} // namespace tegula::gpu
