// Rewrites dots so that their operands have types that tensor cores take. Without it these dots would run as scalar
// multiply-adds, or on slower tensor cores.
//
// Dots of fp8 tiles for which the GPU has no instruction: the operands become fp16 before the dot. fp16 holds every fp8
// number exactly, and all targets have tensor cores for it. (As scalar multiply-adds, a tile of 128x256x128 takes hours
// to compile.)
//
//   dot(a: f8, b: f8, acc)   becomes   dot(fpext a to f16, fpext b to f16, acc)
//
// The same happens to fp8 dots of which a kernel needs all bits of the sums (max_num_imprecise_acc; precision "wide"):
// tensor cores keep 14 bits of fp8 sums.
//
// float32 dots whose two operands were widened from the same type, float16 or bfloat16, with precision tf32 or better:
// the dot takes the narrow operands. Their products are exact in float32 either way, the operands take half the memory,
// and an instruction computes twice as many products.
//
//   dot(permute (fpext a), fpext b, acc) {precision = "tf32"}   becomes   dot(permute a, b, acc)
//
// float32 dots in several terms (tf32x3, bf16x3, bf16x6): each operand becomes a sum of two or three parts that tensor
// cores take. The dot becomes the sum of the products of those parts, except the smallest products. The products are
// added from small to large, and to the accumulator outside the instruction. An infinite operand has no finite small
// parts, so the sum of the small products is dropped where it is not finite.
//
//   a = big + small:   acc + dot(big, big, dot(big, small, dot(small, big, 0)))
//
// tf32 parts are truncated, not rounded: the error is below 3 * 2^-20 of a product.
//
// Runs on tile IR after the pipeline: it needs the target, and later passes choose layouts by the operands' types.
#pragma once
#include "targets/nvidia/Nvidia.h"

namespace tegula::nvidia {

void widenDots(ir::Module &module, const NvTarget &target);

} // namespace tegula::nvidia
