// See ShareExtensions.h.
#include "targets/common/ShareExtensions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"

namespace tegula::targets {
namespace {

bool isOutside(const llvm::Instruction &def, const llvm::User *u) { return llvm::cast<llvm::Instruction>(u)->getParent() != def.getParent(); }

/// What CodeGenPrepare asks, too: a truncation directly before a store or at the end of a block for a phi may not be free.
bool shouldShare(const llvm::CastInst &extension, const llvm::Instruction &source) {
  if (!source.getType()->isIntegerTy() || source.getParent() != extension.getParent() || source.hasOneUse() || llvm::isa<llvm::PHINode>(source))
    return false;
  bool isLarge = extension.getFunction()->size() >= fewestBlocksToShareIn;
  if (!isLarge && llvm::count_if(source.users(), [&](const llvm::User *u) { return isOutside(source, u); }) < fewestUsesToShare)
    return false;
  bool isTaken = llvm::any_of(source.users(), [&](const llvm::User *u) {
    return isOutside(source, u) && llvm::isa<llvm::PHINode, llvm::LoadInst, llvm::StoreInst>(u);
  });
  return !isTaken && llvm::any_of(extension.users(), [&](const llvm::User *u) { return isOutside(extension, u); });
}

void share(llvm::CastInst &extension, llvm::Instruction &source) {
  extension.moveAfter(&source);
  llvm::IRBuilder<> b(extension.getParent(), std::next(extension.getIterator()));
  llvm::Value *narrow = b.CreateTrunc(&extension, source.getType());
  source.replaceUsesWithIf(narrow, [&](const llvm::Use &u) { return isOutside(source, u.getUser()) || !llvm::isa<llvm::SExtInst, llvm::ZExtInst>(u.getUser()); });
}

} // namespace

void shareExtensions(llvm::Module &m) {
  for (llvm::Function &f : m)
    for (llvm::BasicBlock &block : f)
      for (llvm::Instruction &i : llvm::make_early_inc_range(block))
        if (llvm::isa<llvm::SExtInst, llvm::ZExtInst>(i))
          if (auto *source = llvm::dyn_cast<llvm::Instruction>(i.getOperand(0)); source && shouldShare(llvm::cast<llvm::CastInst>(i), *source))
            share(llvm::cast<llvm::CastInst>(i), *source);
}

} // namespace tegula::targets
