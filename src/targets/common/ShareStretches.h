// Outlines equal stretches of a function into one function.
#pragma once
#include "llvm/IR/Module.h"

namespace tegula::targets {

/// The blocks between two points of a function. A single branch leads to `begin`; the stretch ends at `end`, which is
/// reached only from the stretch.
struct Stretch {
  llvm::BasicBlock *begin, *end;
};

/// A call does not pay for a stretch of fewer instructions.
constexpr size_t fewestInstructionsToShare = 150;

/// Outlines stretches that are equal except for the values they use from outside; those become arguments of the call.
/// Equal stretches share one function. A kernel with two loops of attention computes the same two dots in each, and a
/// dot is a thousand instructions. Left alone are stretches that leave the function, define values used after them, or
/// hold what is called once only.
void shareStretches(llvm::Function &f, llvm::ArrayRef<Stretch> stretches);

} // namespace tegula::targets
