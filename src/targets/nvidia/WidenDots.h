// Products of fp8 tiles for which the GPU has no instruction: the operands become fp16 before the dot, which holds every fp8 number
// exactly and has tensor cores everywhere. (As scalar multiply-adds a tile of 128x256x128 is code for hours.)
//
//   dot(a: f8, b: f8, acc)   becomes   dot(fpext a to f16, fpext b to f16, acc)
//
// So do those of which a kernel wants all bits of the sums (max_num_imprecise_acc; precision "wide"): tensor cores keep 14 bits of those of fp8.
//
// Runs on tile IR behind the pipeline: it needs the target, and what follows chooses layouts by the operands' types.
#pragma once
#include "targets/nvidia/Nvidia.h"

namespace tegula::nvidia {

void widenDots(ir::Module &module, const NvTarget &target);

} // namespace tegula::nvidia
