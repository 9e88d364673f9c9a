// Splits long blocks, so that instructions are selected piece by piece.
#pragma once
#include "llvm/Pass.h"

namespace tegula::targets {

/// Blocks of more instructions are split into pieces of half that length (the last piece may be longer). The limit for
/// PTX is higher: its assembler allocates registers and instruction selection folds no loads, so only passes of
/// superlinear time matter. Kernels with tiles of usual size have no block of that length.
// Liger's JSD has 2300: split, its addresses were live twice, in 128 more registers
constexpr unsigned longestBlock = 2048, longestBlockOfPtx = 4096;

/// Splits long blocks for instruction selection. To fold a load, instruction selection searches the preceding part of
/// the block, so a thousand statements on one tile took minutes. The pass runs directly before instruction selection,
/// because the passes that prepare for it (CodeGenPrepare) would merge the pieces again. Without optimization it runs
/// first: each select that becomes a branch there moves the rest of its block (400 scans on sim took 6.0 s, now 0.3).
/// Static allocas stay in the entry block. The caller owns the pass.
llvm::FunctionPass *createSplitBlocksPass(unsigned longest);

} // namespace tegula::targets
