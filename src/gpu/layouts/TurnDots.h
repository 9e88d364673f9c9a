// Tiles that are computed the other way round than dots read them. An asynchronous dot (wgmma) takes its first operand
// from the registers in which another dot has left it, row by row; its second one, and a transposed one, has to go
// through shared memory. Where that is the operand of a dot in a loop, the tile and all that is computed with it
// element by element are computed transposed:
//
//   %s = dot %k, %qT                                    %s = dot %q, %kT             (ab)T = bT aT
//   %p = exp2 (%s - broadcast %m)            =>         %p = exp2 (%s - broadcast %m)
//   %o = dot %vT, %p, %acc                              %o = dot %p, %v, %acc        %p stays in registers
//   ... = transpose %o                                  ... = %o
// Reductions along one axis become those along the other. A transpose is left, or added, where a value is wanted the
// other way round than it is computed now.
//
// How many tiles of dots have to be moved between threads is counted before and after, each by the depth of its loops;
// the kernel is written anew if there are fewer. All dots that are turned must be asynchronous ones then, which have 64
// rows at least. Flash attention with scores of keys by queries is the first form of this, dk, dv and dq in one loop,
// which read P and its transpose, the second.
#pragma once
#include "gpu/TargetInfo.h"
#include <memory>

namespace tegula::gpu {

/// Tile IR to tile IR, before layouts. Null: nothing is gained.
std::unique_ptr<ir::Module> turnDots(const ir::Module &module, const TargetInfo &target, unsigned warps);

} // namespace tegula::gpu
