// The second of two dots of a loop, whose A is computed from the first one's result, is started in the next iteration,
// after that one's first dot.
//
//   for i { s = dot(q, k[i]); p = softmax(s); acc = dot(p, v[i], acc * scale) }
// becomes
//   s = dot(q, k[0]); p = softmax(s); for i from 1 { s = dot(q, k[i]); acc = dot(p, v[i - 1], acc); p = softmax(s); acc
//     = acc * scale }; acc = dot(p, v[last], acc)
// or, where acc begins at zero and is multiplied by numbers of rows, if by anything, without a copy of the first
// iteration:
//   p = 0; for i { s = dot(q, k[i]); acc = dot(p, v[last], is i the second? 0 : acc); p = softmax(s); acc = acc *
//     scale; z = is i the first? 0 * scale : z }; acc = dot(p, v[last], acc) + z
// The second dot runs beside the softmax of the next iteration, and only one result of the first is alive at a time,
// which is what moving that one ahead (RotateDots.h) takes two of. No dot is computed in vain. (Shah et al.,
// FlashAttention-3, 2024.)
#pragma once
#include "gpu/TargetInfo.h"

namespace tegula::gpu {

/// Has the loop two asynchronous dots of that kind, with two warpgroups, and tiles that block copies bring or products
/// that take much longer than the work beside them; and do a thread's registers hold what is alive then? Asked of GPU
/// IR at any stage; rotateDots leaves such loops alone.
bool canStagger(const ir::Module &m, const ir::Op &loop, const TargetInfo &target, const Options &options);

/// GPU IR, in place, after what makes rings and waits: loops that canStagger, with one wait for both dots. Rings stay
/// as they are: the late dot reads its slot no longer than one that runs on into the next iteration.
void staggerDots(ir::Module &m, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
