// Cuts functions of thousands of blocks into several functions.
#pragma once
#include "llvm/IR/Module.h"

namespace tegula::targets {

/// Functions with more than mostBlocks blocks or mostInstructions instructions are cut into parts of at least
/// blocksOfPart or instructionsOfPart. A loop over a tile has about ten blocks, so kernels of usual length stay whole.
constexpr unsigned mostBlocks = 1000, blocksOfPart = 250, mostInstructions = 32000, instructionsOfPart = 8000;

/// Cuts large functions along the path through all their statements. The parts become functions that are called one
/// after the other. This bounds the passes of LLVM whose time grows faster than the function (CodeGenPrepare,
/// ScalarEvolution's walks up a row of loops, register allocation): 1600 masked stores took 23.8 s of code generation.
/// A part is the set of blocks that one block dominates and a later block does not. Control enters a part only at its
/// dominating block, and values that other parts use leave it through memory. Parts have the attribute
/// `partOfFunction`; none calls another.
void cutLargeFunctions(llvm::Module &m);

constexpr const char *partOfFunction = "tegula-part";

} // namespace tegula::targets
