// Removes the register proxies of PTX in linear time.
#pragma once
#include "llvm/Pass.h"

namespace tegula::targets {

/// NVPTX instruction selection emits a `ProxyReg` copy for each value that must not move before a call is complete, and
/// for each pair of halves (or four bytes) that is used as a word. Before register assignment, an LLVM pass replaces
/// the copies by their sources, and walks the whole function for each: 5 of 7 s for 128 dots of halves. This pass does
/// the same along use lists, and leaves no copies to the LLVM pass. It runs after the machine-code optimizations. The
/// caller owns the pass.
llvm::FunctionPass *createForwardProxiesPass();

} // namespace tegula::targets
