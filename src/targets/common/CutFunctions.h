// Functions of thousands of blocks are made several.
#pragma once
#include "llvm/IR/Module.h"

namespace tegula::targets {

/// A function of more blocks or instructions is cut into parts of at least that many. A loop over a tile is some ten
/// blocks, so no kernel of usual length is touched.
constexpr unsigned mostBlocks = 1000, blocksOfPart = 250, mostInstructions = 32000, instructionsOfPart = 8000;

/// Cuts large functions along the path that all their statements are on, the parts become functions that are called one
/// after the other, so that what grows faster than its function in LLVM (CodeGenPrepare, ScalarEvolution's walks up a
/// row of loops, register allocation) is bounded: 1600 masked stores took 23.8 s of code generation. A part is what one
/// block dominates and another, which is further on, does not; control comes into it by that block only, and values
/// that others need leave it through memory. Parts have the attribute `partOfFunction`; none calls another.
void cutLargeFunctions(llvm::Module &m);

constexpr const char *partOfFunction = "tegula-part";

} // namespace tegula::targets
