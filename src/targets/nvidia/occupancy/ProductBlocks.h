// Blocks that should share a multiprocessor where a kernel has products.
#pragma once
#include "ir/Ir.h"
#include "targets/nvidia/Nvidia.h"

namespace tegula::nvidia {

/// Of `most` blocks at most; 0: no request.
unsigned blocksOfProducts(const ir::Function &kernel, const Options &options, unsigned most);

} // namespace tegula::nvidia
