// renewMasks: masks that many loads share with later stores are compared again.
#include "targets/nvidia/passes/RenewMasks.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include <gtest/gtest.h>

namespace tegula::nvidia {
namespace {

/// `count` loads under masks, and stores under the same ones: comparisons of integers or of floats, or with a second
/// condition each.
struct Accesses {
  llvm::LLVMContext context;
  llvm::Module module{"m", context};
  llvm::Function *f;
  std::vector<llvm::CallInst *> loads, stores;

  explicit Accesses(unsigned count, bool areFloats = false, bool isTwo = false, bool isSelected = false) {
    llvm::IRBuilder<> b(context);
    auto *type = llvm::FunctionType::get(
        b.getVoidTy(), {b.getPtrTy(), b.getInt32Ty(), b.getInt32Ty(), b.getFloatTy(), b.getInt1Ty()}, false);
    f = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, "f", module);
    b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", f));
    llvm::Value *p = f->getArg(0), *first = b.CreateMul(f->getArg(1), b.getInt32(4)), *n = f->getArg(2);
    auto *load = llvm::InlineAsm::get(llvm::FunctionType::get(b.getInt32Ty(), {b.getPtrTy(), b.getInt1Ty()}, false),
                                      "@$2 ld.global.v1.b32 $0, [$1];", "=r,l,b", true);
    auto *store = llvm::InlineAsm::get(
        llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getInt32Ty(), b.getInt1Ty()}, false),
        "@$2 st.global.v1.b32 [$0], $1;", "l,r,b", true);
    std::vector<llvm::Value *> masks;
    for (unsigned i = 0; i < count; ++i) {
      llvm::Value *is = areFloats ? b.CreateFCmpOLT(f->getArg(3), llvm::ConstantFP::get(b.getFloatTy(), i))
                                  : b.CreateICmpSLT(b.CreateAdd(first, b.getInt32(128 * i)), n);
      masks.push_back(isTwo ? b.CreateAnd(is, f->getArg(4)) : is);
    }
    std::vector<llvm::Value *> values;
    for (llvm::Value *mask : masks)
      values.push_back(loads.emplace_back(b.CreateCall(load, {p, mask})));
    for (size_t i = 0; isSelected && i < masks.size(); ++i)
      values[i] = b.CreateSelect(masks[i], values[i], b.getInt32(7));
    for (unsigned i = 0; i < count; ++i)
      stores.push_back(b.CreateCall(store, {p, values[i], masks[i]}));
    b.CreateRetVoid();
    renewMasks(*f);
  }
  unsigned renewed() const {
    unsigned out = 0;
    for (size_t i = 0; i < loads.size(); ++i)
      out += loads[i]->getArgOperand(1) != stores[i]->getArgOperand(2);
    return out;
  }
};

TEST(RenewMasks, ComparesMoreThanSixAgain) {
  for (bool isTwo : {false, true}) {
    Accesses a(8, false, isTwo);
    EXPECT_EQ(a.renewed(), 8u);
    EXPECT_FALSE(llvm::verifyFunction(*a.f, &llvm::errs()));
  }
}

TEST(RenewMasks, KeepsSix) { EXPECT_EQ(Accesses(6).renewed(), 0u); }

TEST(RenewMasks, KeepsWhatSelectsReadToo) { EXPECT_EQ(Accesses(8, false, false, /*isSelected=*/true).renewed(), 0u); }

TEST(RenewMasks, KeepsWhatIsNoComparisonOfIntegers) { EXPECT_EQ(Accesses(8, /*areFloats=*/true).renewed(), 0u); }

TEST(RenewMasks, AddsOneZeroForAll) {
  Accesses a(16);
  unsigned zeros = 0, sums = 0;
  for (const llvm::Instruction &i : a.f->getEntryBlock()) {
    const auto *call = llvm::dyn_cast<llvm::CallInst>(&i);
    const auto *text = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
    zeros += text && llvm::StringRef(text->getAsmString()).contains("%nctaid.x");
    sums += i.getOpcode() == llvm::Instruction::Add;
  }
  EXPECT_EQ(zeros, 1u);
  // of the loads' masks, of what they have in common with the zero, of the stores' masks
  EXPECT_EQ(sums, 16u + 1u + 16u);
}

} // namespace
} // namespace tegula::nvidia
