// See SplitBlocks.h.
#include "targets/common/SplitBlocks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Instructions.h"
#include <iterator>

namespace tegula::targets {
namespace {

/// Where a piece may begin at the earliest.
llvm::BasicBlock::iterator firstCut(llvm::BasicBlock &block) {
  auto at = block.getFirstInsertionPt();
  for (llvm::Instruction &i : block)
    if (llvm::isa<llvm::AllocaInst>(i))
      at = std::next(i.getIterator());
  return at;
}

bool split(llvm::BasicBlock &first) {
  llvm::BasicBlock *block = &first;
  for (size_t left = first.size(); left > longestBlock; left -= longestBlock / 2) {
    auto at = firstCut(*block);
    // Allocas and phis may be many; the terminator stays with what it ends.
    for (size_t n = std::distance(block->begin(), at); n < longestBlock / 2 && !at->isTerminator(); ++n)
      ++at;
    if (at->isTerminator())
      break;
    block = block->splitBasicBlock(at);
  }
  return block != &first;
}

class SplitBlocks final : public llvm::FunctionPass {
public:
  static char id;
  SplitBlocks() : FunctionPass(id) {}
  llvm::StringRef getPassName() const override { return "Split long blocks"; }
  bool runOnFunction(llvm::Function &f) override {
    bool changed = false;
    // What is split off comes behind the block, and is done with it.
    llvm::SmallVector<llvm::BasicBlock *> blocks;
    for (llvm::BasicBlock &block : f)
      if (block.size() > longestBlock)
        blocks.push_back(&block);
    for (llvm::BasicBlock *block : blocks)
      changed |= split(*block);
    return changed;
  }
};

char SplitBlocks::id = 0;

} // namespace

llvm::FunctionPass *createSplitBlocksPass() { return new SplitBlocks(); }

} // namespace tegula::targets
