// See ShareStretches.h.
#include "targets/common/ShareStretches.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/Utils/CodeExtractor.h"
#include "llvm/Transforms/Utils/FunctionComparator.h"
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace tegula::targets {
namespace {

struct Blocks {
  llvm::SetVector<llvm::BasicBlock *> all; // in an order that equal stretches have in common, the first one first
  size_t instructions = 0, hash = 0;
};

/// Equal for equal stretches: operations, types, constants of integers.
size_t hashOf(const llvm::Instruction &i) {
  llvm::hash_code h = llvm::hash_combine(i.getOpcode(), i.getType(), i.getNumOperands());
  for (const llvm::Use &u : i.operands())
    if (const auto *c = llvm::dyn_cast<llvm::ConstantInt>(u); c && c->getBitWidth() <= 64)
      h = llvm::hash_combine(h, c->getZExtValue());
    else if (llvm::isa<llvm::Constant>(u) && !llvm::isa<llvm::BasicBlock>(u))
      h = llvm::hash_combine(h, u.get());
  return h;
}

/// None if control comes in elsewhere or leaves it elsewhere, or a value does.
std::optional<Blocks> blocksOf(Stretch s) {
  Blocks r;
  llvm::SmallVector<llvm::BasicBlock *> left{s.begin};
  while (!left.empty()) {
    llvm::BasicBlock *b = left.pop_back_val();
    if (!r.all.insert(b))
      continue;
    if (!b->getTerminator() || llvm::succ_empty(b))
      return std::nullopt;
    for (llvm::BasicBlock *next : llvm::successors(b))
      if (next != s.end)
        left.push_back(next);
  }
  auto isInside = [&](llvm::User *u) { return r.all.contains(llvm::cast<llvm::Instruction>(u)->getParent()); };
  for (llvm::BasicBlock *b : r.all) {
    if (b != s.begin && !llvm::all_of(llvm::predecessors(b), [&](llvm::BasicBlock *p) { return r.all.contains(p); }))
      return std::nullopt;
    for (llvm::Instruction &i : *b) {
      if (!llvm::all_of(i.users(), isInside))
        return std::nullopt;
      r.hash = llvm::hash_combine(r.hash, hashOf(i));
    }
    r.instructions += b->size();
  }
  return r;
}

/// The call of a function that there is one of.
llvm::CallInst *callOf(llvm::Function &f) { return llvm::cast<llvm::CallInst>(f.user_back()); }

} // namespace

void shareStretches(llvm::Function &f, llvm::ArrayRef<Stretch> stretches) {
  std::vector<Blocks> all;
  std::map<size_t, size_t> count; // of each hash
  for (Stretch s : stretches)
    if (std::optional<Blocks> blocks = blocksOf(s); blocks && blocks->instructions >= fewestInstructionsToShare) {
      ++count[blocks->hash];
      all.push_back(std::move(*blocks));
    }
  std::erase_if(all, [&](const Blocks &b) { return count[b.hash] < 2; });
  if (all.empty())
    return;
  llvm::CodeExtractorAnalysisCache cache(f);
  llvm::GlobalNumberState numbers;
  std::map<size_t, std::vector<llvm::Function *>> made;
  for (const Blocks &b : all) {
    llvm::CodeExtractor extractor(b.all.getArrayRef(), /*DT=*/nullptr, /*AggregateArgs=*/false, nullptr, nullptr,
                                  nullptr, /*AllowVarArgs=*/false, /*AllowAlloca=*/false,
                                  /*AllocationBlock=*/nullptr, "shared");
    llvm::Function *one = extractor.isEligible() ? extractor.extractCodeRegion(cache) : nullptr;
    if (!one)
      continue;
    std::vector<llvm::Function *> &others = made[b.hash];
    auto same = std::find_if(others.begin(), others.end(), [&](llvm::Function *other) {
      return llvm::FunctionComparator(one, other, &numbers).compare() == 0;
    });
    if (same == others.end()) {
      others.push_back(one);
      continue;
    }
    callOf(*one)->setCalledFunction(*same);
    one->eraseFromParent();
  }
}

} // namespace tegula::targets
