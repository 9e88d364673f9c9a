// Operands of products in the types that tensor cores take. Each form is computed by scalar multiply-adds else, or by
// slower tensor cores.
//
// Products of fp8 tiles for which the GPU has no instruction: the operands become fp16 before the dot, which holds
// every fp8 number exactly and has tensor cores everywhere. (As scalar multiply-adds a tile of 128x256x128 is code for
// hours.)
//
//   dot(a: f8, b: f8, acc)   becomes   dot(fpext a to f16, fpext b to f16, acc)
//
// So do those of which a kernel wants all bits of the sums (max_num_imprecise_acc; precision "wide"): tensor cores keep
// 14 bits of those of fp8.
//
// Products of float32 that were widened from float16 or bfloat16, both from the same, where tf32 or better is asked
// for: those numbers themselves. Their products are exact in float32 either way, the operands take half the memory, and
// an instruction makes twice as much of them.
//
//   dot(permute (fpext a), fpext b, acc) {precision = "tf32"}   becomes   dot(permute a, b, acc)
//
// Products of float32 in several terms (tf32x3, bf16x3, bf16x6): operands become sums of two or three numbers that
// tensor cores take, and the dot the sum of the products of those parts but the smallest, added from small to large and
// to the accumulator outside of the instruction. An infinity leaves no number for the small parts, whose sum is dropped
// where it is not finite.
//
//   a = big + small:   acc + dot(big, big, dot(big, small, dot(small, big, 0)))
//
// Parts of tf32 are cut, not rounded: what is lost is below 3 * 2^-20 of a product.
//
// Runs on tile IR after the pipeline: it needs the target, and what follows chooses layouts by the operands' types.
#pragma once
#include "targets/nvidia/Nvidia.h"

namespace tegula::nvidia {

void widenDots(ir::Module &module, const NvTarget &target);

} // namespace tegula::nvidia
