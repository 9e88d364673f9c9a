#include "targets/common/SplitBlocks.h"
#include "targets/common/Pipeline.h"
#include "targets/cpu/Codegen.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/CommandLine.h"
#include <algorithm>
#include <gtest/gtest.h>

namespace tegula::cpu {

/// One block: `allocas` of them, and as many stores to its argument as make `size` instructions with the return.
static llvm::Function *longBlock(llvm::Module &m, unsigned size, unsigned allocas) {
  llvm::IRBuilder<> b(m.getContext());
  auto *f = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false),
                                   llvm::Function::ExternalLinkage, "f", m);
  b.SetInsertPoint(llvm::BasicBlock::Create(m.getContext(), "entry", f));
  for (unsigned i = 0; i < allocas; ++i)
    b.CreateAlloca(b.getInt8Ty());
  for (unsigned i = allocas; i + 1 < size; ++i)
    b.CreateStore(b.getInt32(i), f->getArg(0), true);
  b.CreateRetVoid();
  return f;
}

// A thousand statements on a tile of 1024 elements, one block, took more than a minute of instruction selection, now
// 2.5 s on a busy machine.
TEST(SplitBlocks, CodeIsMadeOfPieces) {
  DiagEngine diag;
  auto machine = createTargetMachine(*parseTarget("cpu:x86-64"), {}, diag);
  for (auto [size, allocas] : {std::pair{targets::longestBlock, 0u},
                               {5 * targets::longestBlock, 3u},
                               {2 * targets::longestBlock, targets::longestBlock}}) {
    llvm::LLVMContext context;
    llvm::Module m("long", context);
    m.setDataLayout(machine->createDataLayout());
    llvm::Function *f = longBlock(m, size, allocas);
    EXPECT_FALSE(emitAssembly(m, *machine).empty());
    EXPECT_TRUE(targets::verifyModule(m, "after code generation", {}, diag));
    size_t all = 0, longest = 0;
    for (const llvm::BasicBlock &block : *f) {
      all += llvm::count_if(block,
                            [](const llvm::Instruction &i) { return llvm::isa<llvm::StoreInst, llvm::AllocaInst>(i); });
      longest = std::max(longest, block.size());
      EXPECT_TRUE(block.isEntryBlock() ||
                  llvm::none_of(block, [](const llvm::Instruction &i) { return llvm::isa<llvm::AllocaInst>(i); }));
    }
    EXPECT_EQ(all, size - 1);
    EXPECT_EQ(f->size() > 1, size > targets::longestBlock);
    EXPECT_LE(longest, targets::longestBlock + 1);
  }
}

// The simulator's code, and that of large checked kernels: 400 scans on sim took 6.0 s, 200 of them 1.4: now 0.3 and
// 0.2.
TEST(SplitBlocks, WithoutOptimizationToo) {
  DiagEngine diag;
  Options options;
  options.optLevel = 0;
  auto machine = createTargetMachine(*parseTarget("cpu:x86-64"), options, diag);
  llvm::LLVMContext context;
  llvm::Module m("long", context);
  m.setDataLayout(machine->createDataLayout());
  llvm::Function *f = longBlock(m, 3 * targets::longestBlock, 2);
  EXPECT_FALSE(emitAssembly(m, *machine).empty());
  EXPECT_EQ(f->size(), 5u);
}

// 200 divisions of a tile of 64-bit integers, 78,000 instructions in one block of PTX, took 6.9 s of instruction
// selection, now 0.5.
TEST(SplitBlocks, OnlyVeryLongBlocksOfPtx) {
  auto machine = targets::createMachine({"nvptx64-nvidia-cuda", "sm_90", "+ptx84", 2});
  for (auto [size, blocks] : {std::pair{targets::longestBlockOfPtx, 1u}, {3 * targets::longestBlockOfPtx, 5u}}) {
    llvm::LLVMContext context;
    llvm::Module m("long", context);
    m.setDataLayout(machine->createDataLayout());
    llvm::Function *f = longBlock(m, size, 0);
    EXPECT_FALSE(targets::emitAssemblyText(m, *machine).empty());
    EXPECT_EQ(f->size(), blocks);
  }
}

// LLVM has no interface to it but the option: one that is gone would leave 10,000 blocks without a word. 64 calls of
// `tl.rand` (40 blocks) took 4.7 s, now 0.7.
TEST(SplitBlocks, CodeGenPrepareKeepsToWhatChanged) {
  DiagEngine diag;
  ASSERT_TRUE(createTargetMachine(*parseTarget("cpu:x86-64"), {}, diag));
  auto option = llvm::cl::getRegisteredOptions().find("cgpp-huge-func");
  ASSERT_NE(option, llvm::cl::getRegisteredOptions().end());
  EXPECT_EQ(static_cast<llvm::cl::opt<unsigned> *>(option->second)->getValue(), 1u);
}

} // namespace tegula::cpu
