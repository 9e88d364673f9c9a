// See RenewMasks.h.
#include "targets/nvidia/passes/RenewMasks.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Instructions.h"

namespace tegula::nvidia {
namespace {

/// An access to a vector under a mask: "@$5 st.global.v4.b32 ...".
struct Masked {
  llvm::Use *mask = nullptr;
  bool isLoad = false, isStore = false;
};

Masked maskedAccess(llvm::Instruction &i) {
  auto *call = llvm::dyn_cast<llvm::CallInst>(&i);
  const auto *text = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
  llvm::StringRef s = text ? text->getAsmString() : llvm::StringRef();
  unsigned number = 0;
  if (!s.consume_front("@$") || s.consumeInteger(10, number) || !s.consume_front(" "))
    return {};
  const bool isVector = s.split(' ').first.contains(".v"), isLoad = isVector && s.starts_with("ld.global"),
             isStore = isVector && s.starts_with("st.global");
  const llvm::Type *results = call->getType();
  const unsigned outputs = results->isVoidTy() ? 0 : results->isStructTy() ? results->getStructNumElements() : 1;
  if ((!isLoad && !isStore) || number < outputs || number - outputs >= call->arg_size())
    return {};
  return {&call->getArgOperandUse(number - outputs), isLoad, isStore};
}

/// Computes values of one block again, before an instruction.
class Again {
public:
  Again(llvm::BasicBlock &block, llvm::Instruction *before) : block_(block), b_(before) {}

  /// `v` itself where there is nothing to compare anew.
  llvm::Value *mask(llvm::Value *v) {
    auto *i = here(v);
    if (!i || !v->getType()->isIntegerTy(1))
      return v;
    if (auto it = made_.find(v); it != made_.end())
      return it->second;
    llvm::Value *out = v;
    if (auto *compare = llvm::dyn_cast<llvm::ICmpInst>(i)) {
      // The side that the other masks do not have: what is computed.
      llvm::Value *left = compare->getOperand(0), *right = compare->getOperand(1);
      const bool isLeft =
          !llvm::isa<llvm::Constant>(left) && (llvm::isa<llvm::Instruction>(left) || llvm::isa<llvm::Constant>(right));
      llvm::Value *side = isLeft ? left : right;
      if (const auto *t = llvm::dyn_cast<llvm::IntegerType>(side->getType());
          t && t->getBitWidth() >= 32 && !llvm::isa<llvm::Constant>(side))
        out = b_.CreateICmp(compare->getPredicate(), isLeft ? number(left) : left, isLeft ? right : number(right));
    } else if (i->getOpcode() == llvm::Instruction::And || i->getOpcode() == llvm::Instruction::Or ||
               i->getOpcode() == llvm::Instruction::Xor) {
      llvm::Value *left = mask(i->getOperand(0)), *right = mask(i->getOperand(1));
      if (left != i->getOperand(0) || right != i->getOperand(1))
        out = b_.CreateBinOp(static_cast<llvm::BinaryOperator *>(i)->getOpcode(), left, right);
    }
    return made_[v] = out;
  }

private:
  llvm::Instruction *here(llvm::Value *v) const {
    auto *i = llvm::dyn_cast<llvm::Instruction>(v);
    return i && i->getParent() == &block_ ? i : nullptr;
  }

  /// Sums with constants from what they are sums of, of which there is one for many.
  llvm::Value *number(llvm::Value *v) {
    if (auto it = made_.find(v); it != made_.end())
      return it->second;
    auto *i = here(v);
    const bool isSum = i && (i->getOpcode() == llvm::Instruction::Add || i->getOpcode() == llvm::Instruction::Or) &&
                       llvm::isa<llvm::ConstantInt>(i->getOperand(1));
    llvm::Value *out = isSum ? b_.CreateBinOp(static_cast<llvm::BinaryOperator *>(i)->getOpcode(),
                                              number(i->getOperand(0)), i->getOperand(1))
                             : b_.CreateAdd(v, zero(v->getType()));
    return made_[v] = out;
  }

  llvm::Value *zero(llvm::Type *t) {
    if (!zero_) {
      llvm::IRBuilder<> entry(&*block_.getParent()->getEntryBlock().getFirstInsertionPt());
      auto *type = llvm::FunctionType::get(entry.getInt32Ty(), false);
      zero_ = entry.CreateCall(
          llvm::InlineAsm::get(type, "mov.u32 $0, %nctaid.x;\n\tshr.u32 $0, $0, 31;", "=r", /*hasSideEffects=*/false));
    }
    return b_.CreateZExt(zero_, t);
  }

  llvm::BasicBlock &block_;
  llvm::IRBuilder<> b_;
  llvm::DenseMap<llvm::Value *, llvm::Value *> made_;
  llvm::Value *zero_ = nullptr;
};

/// Do accesses alone read it? What is selected by a mask after the loads would be done load by load, in one predicate
/// register, once no store needs the mask any more.
bool isOfAccesses(const llvm::Value *mask) {
  return llvm::none_of(mask->users(), [](const llvm::User *u) { return llvm::isa<llvm::SelectInst>(u); });
}

void renewInBlock(llvm::BasicBlock &block) {
  constexpr size_t predicates = 6; // of seven: one is for what is computed between the loads and the stores
  llvm::SmallPtrSet<llvm::Value *, 16> loaded;
  llvm::SmallSetVector<llvm::Value *, 16> kept;
  llvm::SmallVector<llvm::Use *, 16> stores;
  llvm::Instruction *first = nullptr;
  for (llvm::Instruction &i : block) {
    const Masked m = maskedAccess(i);
    if (m.isLoad && !first)
      loaded.insert(m.mask->get());
    if (!m.isStore || !loaded.contains(m.mask->get()) || !isOfAccesses(m.mask->get()))
      continue;
    first = first ? first : &i;
    kept.insert(m.mask->get());
    stores.push_back(m.mask);
  }
  if (kept.size() <= predicates)
    return;
  Again again(block, first);
  for (llvm::Use *use : stores)
    use->set(again.mask(use->get()));
}

} // namespace

void renewMasks(llvm::Function &f) {
  for (llvm::BasicBlock &block : f)
    renewInBlock(block);
}

} // namespace tegula::nvidia
