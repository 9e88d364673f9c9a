// The number of blocks that should share a multiprocessor if a kernel has dots.
#pragma once
#include "ir/Ir.h"
#include "targets/nvidia/Nvidia.h"

namespace tegula::nvidia {

/// At most `most` blocks; 0: no request.
unsigned blocksOfProducts(const ir::Function &kernel, const Options &options, unsigned most);

} // namespace tegula::nvidia
