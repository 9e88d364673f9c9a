// Keeps a scalar that is used in two widths in one register.
#pragma once
#include "llvm/IR/Module.h"
#include "llvm/Pass.h"

namespace tegula::targets {

/// In functions of at least fewestBlocksToShareIn blocks every extension is shared (a comparison before a row of loops
/// becomes one before each); in others, those with at least fewestUsesToShare uses in other blocks.
constexpr unsigned fewestBlocksToShareIn = 100, fewestUsesToShare = 16;

/// If a scalar is extended in its own block and other blocks use both values, replaces the uses of the scalar by a
/// truncation of the extension. The truncation is free, and one value is live instead of two. CodeGenPrepare does the
/// same for one use per walk over the function (it follows the use list of the scalar while it removes uses from it),
/// and a bound of a thousand loops has a thousand uses.
void shareExtensions(llvm::Module &m);

/// The same as a pass that runs directly before CodeGenPrepare: earlier LLVM passes extend the operands of PTX
/// addresses, once for all of them. The caller owns the pass.
llvm::FunctionPass *createShareExtensionsPass();

} // namespace tegula::targets
