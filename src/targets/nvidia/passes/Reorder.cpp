// See Reorder.h.
#include "targets/nvidia/passes/Reorder.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include <algorithm>

namespace tegula::nvidia {

/// Stays where it is in the order of effects; convergent ones, as they are executed by all threads of a warp together.
static bool isAnchored(const llvm::Instruction &i) {
  const auto *call = llvm::dyn_cast<llvm::CallBase>(&i);
  return i.isTerminator() || llvm::isa<llvm::PHINode, llvm::AllocaInst, llvm::DbgInfoIntrinsic>(i) ||
         i.mayHaveSideEffects() || i.mayReadOrWriteMemory() || (call && call->isConvergent());
}

/// Everything of the block that `root` needs and that has not been placed, then `root`, before nothing: at the block's
/// end.
static void place(llvm::Instruction *root, llvm::BasicBlock &b, llvm::DenseSet<const llvm::Instruction *> &placed) {
  llvm::SmallVector<std::pair<llvm::Instruction *, unsigned>, 32> stack{{root, 0}};
  while (!stack.empty()) {
    auto &[i, operand] = stack.back();
    if (operand == i->getNumOperands()) {
      if (placed.insert(i).second)
        i->moveBefore(b, b.end());
      stack.pop_back();
      continue;
    }
    auto *from = llvm::dyn_cast<llvm::Instruction>(i->getOperand(operand++));
    // Anchored ones have been placed: they stood before this user, in the same order.
    if (from && from->getParent() == &b && !llvm::isa<llvm::PHINode>(from) && !placed.count(from))
      stack.push_back({from, 0});
  }
}

static void orderBlock(llvm::BasicBlock &b) {
  llvm::SmallVector<llvm::Instruction *, 0> anchors, rest;
  for (llvm::Instruction &i : b)
    if (!llvm::isa<llvm::PHINode>(i))
      (isAnchored(i) ? anchors : rest).push_back(&i);
  llvm::DenseSet<const llvm::Instruction *> placed;
  llvm::Instruction *end = anchors.pop_back_val();
  for (llvm::Instruction *i : anchors)
    place(i, b, placed);
  // What other blocks use.
  for (llvm::Instruction *i : rest)
    place(i, b, placed);
  place(end, b, placed);
}

void orderByNeed(llvm::Function &f, size_t most, size_t mostInLoops) {
  mostInLoops = std::min(most, mostInLoops);
  if (llvm::none_of(f, [&](const llvm::BasicBlock &b) { return b.size() > mostInLoops; }))
    return;
  const llvm::DominatorTree dominators(f);
  const llvm::LoopInfo loops(dominators);
  for (llvm::BasicBlock &b : f)
    if (b.size() > (loops.getLoopFor(&b) ? mostInLoops : most))
      orderBlock(b);
}

} // namespace tegula::nvidia
