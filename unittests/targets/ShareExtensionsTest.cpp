#include "PassesOfPtx.h"
#include "targets/common/ShareExtensions.h"
#include "targets/common/Pipeline.h"
#include "targets/cpu/Codegen.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"
#include <gtest/gtest.h>

namespace tegula::cpu {
namespace {

/// Loads a number, stores its extension in a second block, and then, in `blocks` blocks, `uses` sums with it each.
llvm::LoadInst *numberInTwoWidths(llvm::Module &m, unsigned blocks, unsigned uses, unsigned bits = 32) {
  llvm::LLVMContext &context = m.getContext();
  llvm::IRBuilder<> b(context);
  auto *f = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false),
                                   llvm::Function::ExternalLinkage, "f", m);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", f));
  llvm::LoadInst *number = b.CreateLoad(b.getIntNTy(bits), f->getArg(0));
  llvm::Value *first = b.CreateAdd(number, b.getIntN(bits, 1)), *wide = b.CreateSExt(number, b.getInt64Ty());
  b.CreateStore(first, f->getArg(0), true);
  for (unsigned i = 0; i <= blocks; ++i) {
    auto *next = llvm::BasicBlock::Create(context, "", f);
    b.CreateBr(next);
    b.SetInsertPoint(next);
    if (i == 0)
      b.CreateStore(wide, f->getArg(0), true);
    for (unsigned k = 0; i && k < uses; ++k)
      b.CreateStore(b.CreateAdd(number, b.getIntN(bits, k)), f->getArg(0), true);
  }
  b.CreateRetVoid();
  return number;
}

// CodeGenPrepare does this too, but walks over the whole function once for each use: a thousand loops with one bound
// took 12 s, a thousand statements that multiply one number as long.
TEST(ShareExtensions, OneValueIsAlive) {
  DiagEngine diag;
  struct Case {
    unsigned blocks, uses;
    bool isShared;
  };
  for (Case c : {Case{1, 2, false}, {1, targets::fewestUsesToShare, true}, {targets::fewestBlocksToShareIn, 1, true}}) {
    llvm::LLVMContext context;
    llvm::Module m("widths", context);
    llvm::LoadInst *number = numberInTwoWidths(m, c.blocks, c.uses);
    targets::shareExtensions(m);
    EXPECT_TRUE(targets::verifyModule(m, "after sharing", {}, diag));
    EXPECT_EQ(number->hasOneUse(), c.isShared);
    auto *wide = llvm::dyn_cast<llvm::SExtInst>(number->user_back());
    ASSERT_EQ(wide != nullptr, c.isShared);
    if (!wide)
      continue;
    auto *narrow = llvm::dyn_cast<llvm::TruncInst>(wide->getNextNode());
    ASSERT_TRUE(narrow);
    EXPECT_EQ(narrow->getNumUses(), size_t(c.blocks) * c.uses + 1);
  }
}

// GPUs have registers of 16 bits: of a number of 64 it is another one.
TEST(ShareExtensions, OnGpusOnlyHalvesOfRegisters) {
  for (unsigned bits : {16u, 32u}) {
    llvm::LLVMContext context;
    llvm::Module m("widths", context);
    m.setTargetTriple("nvptx64-nvidia-cuda");
    llvm::LoadInst *number = numberInTwoWidths(m, 1, targets::fewestUsesToShare, bits);
    targets::shareExtensions(m);
    EXPECT_EQ(number->hasOneUse(), bits == 32);
  }
}

// The other uses come to read the extension, and must not read poison where the number is negative.
TEST(ShareExtensions, WhatItsUsesKnowIsDropped) {
  llvm::LLVMContext context;
  llvm::Module m("widths", context);
  llvm::LoadInst *number = numberInTwoWidths(m, 1, targets::fewestUsesToShare);
  auto *narrow = llvm::cast<llvm::Instruction>(number->getNextNode()->getNextNode());
  auto *wide = llvm::cast<llvm::Instruction>(
      llvm::IRBuilder<>(narrow).CreateZExt(number, narrow->getType(), "", /*IsNonNeg=*/true));
  narrow->replaceAllUsesWith(wide);
  narrow->eraseFromParent();
  targets::shareExtensions(m);
  EXPECT_TRUE(number->hasOneUse());
  EXPECT_FALSE(wide->hasNonNeg());
}

// What a phi, a load or a store takes stays: CodeGenPrepare leaves all uses alone then.
TEST(ShareExtensions, StoredNumbersStay) {
  llvm::LLVMContext context;
  llvm::Module m("widths", context);
  llvm::LoadInst *number = numberInTwoWidths(m, targets::fewestBlocksToShareIn, 1);
  llvm::IRBuilder<> b(m.getFunction("f")->back().getTerminator());
  b.CreateStore(number, m.getFunction("f")->getArg(0), true);
  targets::shareExtensions(m);
  EXPECT_EQ(number->getNumUses(), targets::fewestBlocksToShareIn + 3);
}

// 400 sorts of 1024 elements, PTX: 1,200 walks over 2,000 blocks, as addresses are extended on the way to
// CodeGenPrepare.
TEST(ShareExtensions, ComesOnceMoreBeforeCodeGenPrepare) {
  std::string passes = nvidia::passesOfPtx();
  size_t ours = passes.find("Share extensions");
  ASSERT_NE(ours, std::string::npos) << passes;
  EXPECT_LT(passes.find("Straight line strength reduction"), ours) << passes;
  EXPECT_LT(ours, passes.find("CodeGen Prepare")) << passes;
}

} // namespace
} // namespace tegula::cpu
