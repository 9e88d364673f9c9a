// See ShareExtensions.h.
#include "targets/common/ShareExtensions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/TargetParser/Triple.h"

namespace tegula::targets {
namespace {

bool isOutside(const llvm::Instruction &def, const llvm::User *u) {
  return llvm::cast<llvm::Instruction>(u)->getParent() != def.getParent();
}

/// Of an i1 it is a test; GPUs have registers of 16 bits, too.
bool isFreeToTruncate(const llvm::CastInst &extension, bool isGpu) {
  return isGpu ? extension.getSrcTy()->isIntegerTy(32) && extension.getDestTy()->isIntegerTy(64)
               : !extension.getSrcTy()->isIntegerTy(1);
}

/// What CodeGenPrepare asks, too: a truncation directly before a store or at the end of a block for a phi may not be
/// free.
bool shouldShare(const llvm::CastInst &extension, const llvm::Instruction &source, bool isLarge) {
  if (!source.getType()->isIntegerTy() || source.getParent() != extension.getParent() || source.hasOneUse() ||
      llvm::isa<llvm::PHINode>(source))
    return false;
  if (!isLarge &&
      llvm::count_if(source.users(), [&](const llvm::User *u) { return isOutside(source, u); }) < fewestUsesToShare)
    return false;
  bool isTaken = llvm::any_of(source.users(), [&](const llvm::User *u) {
    return isOutside(source, u) && llvm::isa<llvm::PHINode, llvm::LoadInst, llvm::StoreInst>(u);
  });
  return !isTaken && llvm::any_of(extension.users(), [&](const llvm::User *u) { return isOutside(extension, u); });
}

void share(llvm::CastInst &extension, llvm::Instruction &source) {
  extension.moveAfter(&source);
  // A zext nneg said something where its own uses are, which the others need not hold to.
  extension.dropPoisonGeneratingFlags();
  llvm::IRBuilder<> b(extension.getParent(), std::next(extension.getIterator()));
  llvm::Value *narrow = b.CreateTrunc(&extension, source.getType());
  source.replaceUsesWithIf(narrow, [&](const llvm::Use &u) {
    return isOutside(source, u.getUser()) || !llvm::isa<llvm::SExtInst, llvm::ZExtInst>(u.getUser());
  });
}

bool shareExtensions(llvm::Function &f) {
  bool isGpu = llvm::Triple(f.getParent()->getTargetTriple()).isNVPTX(), isLarge = f.size() >= fewestBlocksToShareIn,
       changed = false;
  for (llvm::BasicBlock &block : f)
    for (llvm::Instruction &i : llvm::make_early_inc_range(block)) {
      auto *extension = llvm::dyn_cast<llvm::CastInst>(&i);
      if (!extension || !llvm::isa<llvm::SExtInst, llvm::ZExtInst>(i) || !isFreeToTruncate(*extension, isGpu))
        continue;
      if (auto *source = llvm::dyn_cast<llvm::Instruction>(i.getOperand(0));
          source && shouldShare(*extension, *source, isLarge)) {
        share(*extension, *source);
        changed = true;
      }
    }
  return changed;
}

class ShareExtensions final : public llvm::FunctionPass {
public:
  static char id;
  ShareExtensions() : FunctionPass(id) {}
  llvm::StringRef getPassName() const override { return "Share extensions"; }
  bool runOnFunction(llvm::Function &f) override { return shareExtensions(f); }
};

char ShareExtensions::id = 0;

} // namespace

void shareExtensions(llvm::Module &m) {
  for (llvm::Function &f : m)
    shareExtensions(f);
}

llvm::FunctionPass *createShareExtensionsPass() { return new ShareExtensions(); }

} // namespace tegula::targets
