// See CutFunctions.h.
#include "targets/common/CutFunctions.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Dominators.h"
#include "llvm/Transforms/Utils/CodeExtractor.h"
#include <algorithm>
#include <vector>

namespace tegula::targets {
namespace {

struct Size {
  size_t blocks = 0, instructions = 0;
};
Size operator+(Size a, Size b) { return {a.blocks + b.blocks, a.instructions + b.instructions}; }
Size operator-(Size a, Size b) { return {a.blocks - b.blocks, a.instructions - b.instructions}; }

bool isLarge(const llvm::Function &f) { return f.size() > mostBlocks || f.getInstructionCount() > mostInstructions; }
bool isPart(Size s) { return s.blocks >= blocksOfPart || s.instructions >= instructionsOfPart; }

/// The path down the dominator tree that stays where most of the function is.
class MainPath {
public:
  explicit MainPath(llvm::Function &f) : tree_(f) {
    for (llvm::DomTreeNode *n : llvm::post_order(&tree_)) {
      Size s{1, n->getBlock()->size()};
      for (llvm::DomTreeNode *child : *n)
        s = s + sizes_[child];
      sizes_[n] = s;
    }
    for (llvm::DomTreeNode *n = tree_.getRootNode(); n; n = heaviestChild(n))
      nodes_.push_back(n);
  }

  size_t length() const { return nodes_.size(); }
  /// What the node at `from` dominates and the one at `to`, which is after it, does not.
  Size size(size_t from, size_t to) const { return sizes_.lookup(nodes_[from]) - sizes_.lookup(nodes_[to]); }
  std::vector<llvm::BasicBlock *> blocks(size_t from, size_t to) const {
    std::vector<llvm::BasicBlock *> result;
    llvm::SmallVector<llvm::DomTreeNode *> left{nodes_[from]};
    while (!left.empty()) {
      llvm::DomTreeNode *n = left.pop_back_val();
      result.push_back(n->getBlock());
      for (llvm::DomTreeNode *child : *n)
        if (child != nodes_[to])
          left.push_back(child);
    }
    return result;
  }

private:
  llvm::DomTreeNode *heaviestChild(llvm::DomTreeNode *n) const {
    auto weight = [&](llvm::DomTreeNode *c) { return sizes_.lookup(c).instructions; };
    auto best = std::max_element(n->begin(), n->end(), [&](auto *a, auto *b) { return weight(a) < weight(b); });
    return best == n->end() ? nullptr : *best;
  }

  llvm::DominatorTree tree_;
  llvm::DenseMap<llvm::DomTreeNode *, Size> sizes_;
  std::vector<llvm::DomTreeNode *> nodes_;
};

/// The rest of a loop whose header is in a part may be after the part, and would come back into its middle.
bool isEnteredAtFirstOnly(llvm::ArrayRef<llvm::BasicBlock *> part) {
  llvm::SmallPtrSet<llvm::BasicBlock *, 32> inside(part.begin(), part.end());
  return llvm::all_of(part.drop_front(), [&](llvm::BasicBlock *b) {
    return llvm::all_of(llvm::predecessors(b), [&](llvm::BasicBlock *p) { return inside.contains(p); });
  });
}

/// Their first blocks first. The function's own first block, which has its static allocas, is in none.
std::vector<std::vector<llvm::BasicBlock *>> partsOf(llvm::Function &f) {
  std::vector<std::vector<llvm::BasicBlock *>> parts;
  MainPath path(f);
  for (size_t from = 1, to = 2; to < path.length();) {
    if (!isPart(path.size(from, to))) {
      ++to;
      continue;
    }
    std::vector<llvm::BasicBlock *> part = path.blocks(from, to);
    if (isEnteredAtFirstOnly(part)) {
      parts.push_back(std::move(part));
      from = to;
    } else {
      ++from;
    }
    to = std::max(to, from + 1);
  }
  return parts;
}

void cut(llvm::Function &f) {
  std::vector<std::vector<llvm::BasicBlock *>> parts = partsOf(f);
  if (parts.empty())
    return;
  llvm::CodeExtractorAnalysisCache cache(f);
  for (const auto &part : parts) {
    llvm::CodeExtractor extractor(part, /*DT=*/nullptr, /*AggregateArgs=*/false, nullptr, nullptr, nullptr,
                                  /*AllowVarArgs=*/false, /*AllowAlloca=*/false,
                                  /*AllocationBlock=*/nullptr, "part");
    if (llvm::Function *made = extractor.isEligible() ? extractor.extractCodeRegion(cache) : nullptr)
      made->addFnAttr(partOfFunction);
  }
}

} // namespace

void cutLargeFunctions(llvm::Module &m) {
  llvm::SmallVector<llvm::Function *> large;
  for (llvm::Function &f : m)
    if (isLarge(f))
      large.push_back(&f);
  for (llvm::Function *f : large)
    cut(*f);
}

} // namespace tegula::targets
