// Equal stretches of a function become one function that computes the same.
#include "targets/common/ShareStretches.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include <gtest/gtest.h>
#include <vector>

namespace tegula::targets {
namespace {

/// `void f(ptr, i32)` whose stretches, one after the other, each store what `work` makes of a number and the element at
/// their place, in a branch.
class Row {
public:
  Row() : m("row", context), b(context) {
    f = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getInt32Ty()}, false),
                               llvm::Function::ExternalLinkage, "f", m);
    b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", f));
  }
  llvm::BasicBlock *block() { return llvm::BasicBlock::Create(context, "", f); }
  /// Adds `by` so many times; the place is computed before the stretch.
  void stretch(unsigned times, unsigned by, bool handsOn = false) {
    llvm::Value *at = b.CreateConstGEP1_32(b.getInt32Ty(), f->getArg(0), static_cast<unsigned>(all.size()));
    llvm::BasicBlock *begin = block(), *then = block(), *join = block(), *end = block();
    b.CreateBr(begin);
    b.SetInsertPoint(begin);
    llvm::Value *x = b.CreateLoad(b.getInt32Ty(), at);
    b.CreateCondBr(b.CreateICmpSGT(x, f->getArg(1)), then, join);
    b.SetInsertPoint(then);
    for (unsigned i = 0; i < times; ++i)
      x = b.CreateXor(b.CreateAdd(x, b.getInt32(by)), x);
    b.CreateStore(x, at);
    b.CreateBr(join);
    b.SetInsertPoint(join);
    llvm::Value *again = b.CreateLoad(b.getInt32Ty(), at);
    b.CreateBr(end);
    b.SetInsertPoint(end);
    if (handsOn)
      b.CreateStore(again, at);
    all.push_back({begin, end});
  }
  /// How many functions there are then, f among them.
  size_t share() {
    b.CreateRetVoid();
    shareStretches(*f, all);
    EXPECT_FALSE(llvm::verifyModule(m, &llvm::errs()));
    return m.size();
  }
  size_t calls() const {
    size_t n = 0;
    for (const llvm::BasicBlock &one : *f)
      for (const llvm::Instruction &i : one)
        n += llvm::isa<llvm::CallInst>(i);
    return n;
  }

private:
  llvm::LLVMContext context;
  llvm::Module m;
  llvm::IRBuilder<> b;
  llvm::Function *f;
  std::vector<Stretch> all;
};

TEST(ShareStretches, EqualOnesAreOneFunction) {
  Row row;
  for (unsigned i = 0; i < 3; ++i) {
    row.stretch(200, 3);
    row.stretch(200, 5); // another constant
  }
  row.stretch(200, 7); // once only
  EXPECT_EQ(row.share(), 3);
  EXPECT_EQ(row.calls(), 6);
}

TEST(ShareStretches, SmallOnesAndValuesThatAreUsedFurtherOn) {
  for (bool handsOn : {false, true}) {
    Row row;
    row.stretch(handsOn ? 200 : 10, 3, handsOn);
    row.stretch(handsOn ? 200 : 10, 3, handsOn);
    EXPECT_EQ(row.share(), 1);
    EXPECT_EQ(row.calls(), 0);
  }
}

} // namespace
} // namespace tegula::targets
