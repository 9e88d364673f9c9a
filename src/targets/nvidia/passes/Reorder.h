// The order of instructions inside large blocks.
//
// Lowering emits one operation of the kernel after the other, each for all registers of a tile. In a block of a few
// thousand instructions a tile's worth of intermediate values is then live at every point, and the time of the
// assembler (and of LLVM) grows with the square of the block: 128 elements of sin, cos, log and erf per thread took the
// assembler 28 s, and 2 s when computed one element after the other. So this pass reorders large blocks by need.
#pragma once
#include "llvm/IR/Function.h"
#include <cstdint>

namespace tegula::nvidia {

/// In each block of more than `most` instructions (in loops: more than the smaller of `most` and `mostInLoops`), sinks
/// instructions that have no effect and read no memory to just before their first user (depth first, left operand
/// first). The others keep their order.
void orderByNeed(llvm::Function &f, size_t most, size_t mostInLoops = SIZE_MAX);

} // namespace tegula::nvidia
