// orderByNeed: element after element instead of operation after operation.
#include "targets/nvidia/passes/Reorder.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include <gtest/gtest.h>

namespace tegula::nvidia {
namespace {

struct TwoElements {
  llvm::LLVMContext context;
  llvm::Module module{"m", context};
  llvm::Function *f;

  TwoElements() {
    llvm::IRBuilder<> b(context);
    auto *type = llvm::FunctionType::get(b.getInt32Ty(), {b.getPtrTy(), b.getInt32Ty()}, false);
    f = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, "f", module);
    b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", f));
    llvm::Value *p = f->getArg(0), *n = f->getArg(1);
    llvm::Value *x = b.CreateLoad(b.getInt32Ty(), p, "x"), *y = b.CreateLoad(b.getInt32Ty(), p, "y");
    llvm::Value *last = b.CreateMul(n, n, "last");
    llvm::Value *x1 = b.CreateMul(x, n, "x1"), *y1 = b.CreateMul(y, n, "y1");
    llvm::Value *x2 = b.CreateAdd(x1, x, "x2"), *y2 = b.CreateAdd(y1, y, "y2");
    b.CreateStore(x2, p);
    b.CreateStore(y2, p);
    b.CreateRet(last);
  }
  std::string order() const {
    std::string out;
    for (const llvm::Instruction &i : f->getEntryBlock())
      out += (i.hasName() ? i.getName().str() : std::string(i.getOpcodeName())) + " ";
    return out;
  }
};

TEST(Reorder, PutsLargeBlocksInOrderOfNeed) {
  TwoElements t;
  orderByNeed(*t.f, 9);
  EXPECT_EQ(t.order(), "x y x1 x2 store y1 y2 store last ret ");
}

TEST(Reorder, LeavesSmallBlocks) {
  TwoElements t;
  orderByNeed(*t.f, 10);
  EXPECT_EQ(t.order(), "x y last x1 y1 x2 y2 store store ret ");
}

} // namespace
} // namespace tegula::nvidia
