// Long rows of instructions are selected piece by piece.
#pragma once
#include "llvm/Pass.h"

namespace tegula::targets {

/// Blocks of more instructions are cut into pieces of half as many (some remain in the last). PTX: its assembler
/// allocates registers and the selection folds no loads, so that only what grows faster than the block counts; no
/// kernel of usual tiles is so long.
// Liger's JSD has 2300: in pieces its addresses lived twice, 128 registers more
constexpr unsigned longestBlock = 2048, longestBlockOfPtx = 4096;

/// Cuts long blocks, for instruction selection: to fold a load it looks through what comes before in the block, so that
/// a thousand statements on one tile took minutes. Stands directly before the selection, as the passes that prepare for
/// it (CodeGenPrepare) would put the pieces together again. Without optimization it stands first: each selection that
/// becomes a branch there moves the rest of its block (400 scans on sim took 6.0 s, now 0.3). Static allocas stay in
/// the entry block. The caller owns the pass.
llvm::FunctionPass *createSplitBlocksPass(unsigned longest);

} // namespace tegula::targets
