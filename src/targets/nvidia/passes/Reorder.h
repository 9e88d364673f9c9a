// The order of instructions inside large blocks.
//
// Lowering emits one operation of the kernel after the other, each for all registers of a tile. In a block of a few
// thousand instructions that keeps a tile's worth of intermediate values alive at every point, and the assembler's time
// (LLVM's too) grows with the square of the block: 128 elements of sin, cos, log and erf in each thread took it 28 s,
// and 2 s if they come one element after the other. So large blocks are put into the order in which values are needed.
#pragma once
#include "llvm/IR/Function.h"
#include <cstdint>

namespace tegula::nvidia {

/// In each block of more than `most` instructions, in loops of more than `mostInLoops` where that is less: what has no
/// effect and reads no memory moves to just before its first user (depth first, left operand first); the others keep
/// their order.
void orderByNeed(llvm::Function &f, size_t most, size_t mostInLoops = SIZE_MAX);

} // namespace tegula::nvidia
