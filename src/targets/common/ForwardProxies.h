// Register proxies of PTX are taken out in linear time.
#pragma once
#include "llvm/Pass.h"

namespace tegula::targets {

/// The selection for NVPTX copies by `ProxyReg` what must not move before a call is over, and each pair of halves (or
/// four bytes) that is taken for a word. Before registers are assigned a pass of LLVM replaces the copies by what they
/// copy, and walks the whole function for each: 5 of 7 s for 128 dots of halves. This pass does the same by the lists
/// of uses, and leaves that one nothing. Stands after the passes that optimize machine code. The caller owns the pass.
llvm::FunctionPass *createForwardProxiesPass();

} // namespace tegula::targets
