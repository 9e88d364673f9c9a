// Stretches of a function that do the same become one function.
#pragma once
#include "llvm/IR/Module.h"

namespace tegula::targets {

/// What lies between two points of a function: begun by `begin`, which one branch leads to, and over where `end` is
/// reached, which nothing else branches to.
struct Stretch {
  llvm::BasicBlock *begin, *end;
};

/// A stretch of fewer instructions is not worth a call.
constexpr size_t fewestInstructionsToShare = 150;

/// Makes functions of stretches that are equal but for the values they take from outside (arguments of the call), one
/// for all that are. A kernel with two loops of attention computes the same two dots in each, and a dot is a thousand
/// instructions. Left alone are stretches that leave the function, hand values on or hold what is called once only.
void shareStretches(llvm::Function &f, llvm::ArrayRef<Stretch> stretches);

} // namespace tegula::targets
