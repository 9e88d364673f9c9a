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

bool split(llvm::BasicBlock &block, unsigned longest) {
  llvm::SmallVector<llvm::BasicBlock::iterator> cuts;
  auto at = firstCut(block);
  // Allocas and phis may be many; the terminator stays with what it ends.
  size_t n = std::distance(block.begin(), at);
  for (size_t left = block.size(); left > longest; left -= longest / 2, n = 0) {
    for (; n < longest / 2 && !at->isTerminator(); ++n)
      ++at;
    if (at->isTerminator())
      break;
    cuts.push_back(at);
  }
  // From the end: a cut takes all after it to another block.
  for (auto cut : llvm::reverse(cuts))
    block.splitBasicBlock(cut);
  return !cuts.empty();
}

class SplitBlocks final : public llvm::FunctionPass {
public:
  static char id;
  explicit SplitBlocks(unsigned longest) : FunctionPass(id), longest_(longest) {}
  llvm::StringRef getPassName() const override { return "Split long blocks"; }
  bool runOnFunction(llvm::Function &f) override {
    bool changed = false;
    // What is split off comes after the block, and is done with it.
    llvm::SmallVector<llvm::BasicBlock *> blocks;
    for (llvm::BasicBlock &block : f)
      if (block.size() > longest_)
        blocks.push_back(&block);
    for (llvm::BasicBlock *block : blocks)
      changed |= split(*block, longest_);
    return changed;
  }

private:
  unsigned longest_;
};

char SplitBlocks::id = 0;

} // namespace

llvm::FunctionPass *createSplitBlocksPass(unsigned longest) { return new SplitBlocks(longest); }

} // namespace tegula::targets
