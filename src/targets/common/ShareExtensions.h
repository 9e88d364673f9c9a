// Scalars that are used in both of two widths stay in one register.
#pragma once
#include "llvm/IR/Module.h"
#include "llvm/Pass.h"

namespace tegula::targets {

/// In functions of that many blocks everything is shared (a comparison before a row of loops becomes one before each),
/// in others what has so many uses in other blocks.
constexpr unsigned fewestBlocksToShareIn = 100, fewestUsesToShare = 16;

/// Where a scalar is extended in its own block, and both are used in others, all other uses take what is truncated from
/// the extension: the truncation is free, and one value is alive instead of two. CodeGenPrepare does the same by one
/// use in each walk over the function (it follows the use list of the scalar while it takes uses out of it), and a
/// bound of a thousand loops has a thousand uses.
void shareExtensions(llvm::Module &m);

/// The same directly before CodeGenPrepare: on the way there LLVM extends what addresses of PTX are made of, once for
/// all of them. The caller owns the pass.
llvm::FunctionPass *createShareExtensionsPass();

} // namespace tegula::targets
