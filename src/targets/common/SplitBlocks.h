// Long rows of instructions are selected piece by piece.
#pragma once
#include "llvm/Pass.h"

namespace tegula::targets {

/// Blocks of more instructions are cut into pieces of half as many (some remain in the last).
constexpr unsigned longestBlock = 2048;

/// Cuts long blocks, for instruction selection: to fold a load it looks through what comes before in the block, so that a thousand statements on one tile
/// took minutes. Stands directly before the selection, as the passes that prepare for it (CodeGenPrepare) would put the pieces together again. Static allocas stay
/// in the entry block. The caller owns the pass.
llvm::FunctionPass *createSplitBlocksPass();

} // namespace tegula::targets
