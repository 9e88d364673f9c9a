// Delays the second of two dots of a loop, whose A is computed from the first one's result: it starts in the next
// iteration, after that iteration's first dot.
//
//   for i { s = dot(q, k[i]); p = softmax(s); acc = dot(p, v[i], acc * scale) }
// becomes
//   s = dot(q, k[0]); p = softmax(s); for i from 1 { s = dot(q, k[i]); acc = dot(p, v[i - 1], acc); p = softmax(s); acc
//     = acc * scale }; acc = dot(p, v[last], acc)
// or, without a peeled first iteration, where acc begins at zero and is at most multiplied by one factor per row:
//   p = 0; for i { s = dot(q, k[i]); acc = dot(p, v[last], is i the second? 0 : acc); p = softmax(s); acc = acc *
//     scale; z = is i the first? 0 * scale : z }; acc = dot(p, v[last], acc) + z
// The second dot runs beside the softmax of the next iteration, and only one result of the first is live at a time.
// Moving the first dot ahead instead (RotateDots.h) takes two live results. The first form computes no unused dot; in
// the second form the result of the first iteration's delayed dot is unused. (Shah et al., FlashAttention-3, 2024.)
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// Does the loop qualify? It must have two asynchronous dots of that kind, at least two warpgroups, and tiles that
/// block copies bring or products that take much longer than the work beside them. Both results and the A must fit in a
/// thread's registers. May be called on GPU IR at any stage; rotateDots leaves such loops alone.
bool canStagger(const ir::Module &m, const ir::Op &loop, const TargetInfo &target, const Options &options);

/// Rewrites the loops that canStagger accepts and that have one wait for both dots (GPU IR, in place), after the passes
/// that make rings and waits. Rings stay as they are: the delayed dot reads its slot no longer than a dot that stays in
/// flight into the next iteration.
void staggerDots(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
