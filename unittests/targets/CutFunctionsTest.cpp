// Large functions become several small ones that compute the same.
#include "targets/common/CutFunctions.h"
#include "KernelHarness.h"
#include "targets/common/Pipeline.h"
#include "targets/cpu/Codegen.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"
#include <algorithm>
#include <gtest/gtest.h>

namespace tegula::cpu {
namespace {

enum class Around { Nothing, Loop };

/// `count` branches in a row on a value that each of them changes; the function returns in the middle of the row if the
/// value is 7 there. With a loop around them whose first block is not the row's.
void branchesInARow(llvm::Module &m, unsigned count, Around around) {
  llvm::LLVMContext &context = m.getContext();
  llvm::IRBuilder<> b(context);
  auto *f = llvm::Function::Create(llvm::FunctionType::get(b.getInt32Ty(), {b.getPtrTy(), b.getInt32Ty()}, false),
                                   llvm::Function::ExternalLinkage, "f", m);
  auto block = [&] { return llvm::BasicBlock::Create(context, "", f); };
  llvm::BasicBlock *early = block();
  b.SetInsertPoint(early);
  b.CreateRet(b.getInt32(7));
  llvm::BasicBlock *entry = block(), *head = block();
  entry->moveBefore(early);
  b.SetInsertPoint(entry);
  llvm::Value *room = b.CreateAlloca(b.getInt32Ty());
  b.CreateBr(head);
  b.SetInsertPoint(head);
  llvm::PHINode *carried = b.CreatePHI(b.getInt32Ty(), 2);
  carried->addIncoming(f->getArg(1), entry);
  llvm::Value *v = carried;
  for (unsigned i = 0; i < count; ++i) {
    llvm::BasicBlock *before = b.GetInsertBlock(), *then = block(), *after = block();
    b.CreateCondBr(b.CreateICmpSGT(v, b.getInt32(i)), then, after);
    b.SetInsertPoint(then);
    llvm::Value *more =
        b.CreateAdd(b.CreateLoad(b.getInt32Ty(), b.CreateConstGEP1_32(b.getInt32Ty(), f->getArg(0), i)), v);
    b.CreateStore(more, room);
    b.CreateBr(after);
    b.SetInsertPoint(after);
    llvm::PHINode *joined = b.CreatePHI(b.getInt32Ty(), 2);
    joined->addIncoming(v, before);
    joined->addIncoming(more, then);
    v = joined;
    if (i == count / 2) {
      llvm::BasicBlock *on = block();
      b.CreateCondBr(b.CreateICmpEQ(v, b.getInt32(7)), early, on);
      b.SetInsertPoint(on);
    }
  }
  llvm::BasicBlock *end = block();
  carried->addIncoming(v, b.GetInsertBlock());
  if (around == Around::Loop)
    b.CreateCondBr(b.CreateICmpSLT(v, b.getInt32(1000)), head, end);
  else {
    carried->removeIncomingValue(b.GetInsertBlock());
    b.CreateBr(end);
  }
  b.SetInsertPoint(end);
  b.CreateRet(b.CreateAdd(v, b.CreateLoad(b.getInt32Ty(), room)));
}

size_t storesIn(const llvm::Module &m) {
  size_t n = 0;
  for (const llvm::Function &f : m)
    for (const llvm::BasicBlock &block : f)
      n += llvm::count_if(block, [](const llvm::Instruction &i) { return llvm::isa<llvm::StoreInst>(i); });
  return n;
}

// 1600 masked stores took 23.8 s, 400 of them 1.7: now 5.6 and 1.5.
TEST(CutFunctions, PartsAreBounded) {
  DiagEngine diag;
  for (Around around : {Around::Nothing, Around::Loop})
    for (unsigned count : {100u, 2000u}) {
      llvm::LLVMContext context;
      llvm::Module m("row", context);
      branchesInARow(m, count, around);
      ASSERT_TRUE(targets::verifyModule(m, "as made", {}, diag));
      size_t blocks = m.getFunction("f")->size();
      targets::cutLargeFunctions(m);
      EXPECT_TRUE(targets::verifyModule(m, "cut", {}, diag)) << renderAll(diag);
      if (count == 100) {
        EXPECT_EQ(m.size(), 1u);
        EXPECT_EQ(m.getFunction("f")->size(), blocks);
        continue;
      }
      EXPECT_GE(llvm::count_if(m, [](const llvm::Function &f) { return !f.isDeclaration(); }), 10);
      EXPECT_GE(storesIn(m), count); // and those of values that leave a part
      for (const llvm::Function &f : m) {
        if (f.isDeclaration()) // markers of lifetimes
          continue;
        EXPECT_LE(f.size(), targets::mostBlocks / 2) << f.getName().str();
        EXPECT_EQ(f.hasFnAttribute(targets::partOfFunction), f.getName() != "f");
        EXPECT_EQ(f.hasLocalLinkage(), f.getName() != "f");
        for (const llvm::User *u : f.users())
          EXPECT_EQ(llvm::cast<llvm::Instruction>(u)->getFunction(), m.getFunction("f"));
      }
    }
}

// What is long but has few blocks: by instructions.
TEST(CutFunctions, OrHaveAsManyInstructions) {
  DiagEngine diag;
  llvm::LLVMContext context;
  llvm::Module m("row", context);
  branchesInARow(m, 300, Around::Loop);
  for (llvm::BasicBlock &block : *m.getFunction("f"))
    if (auto *store = llvm::dyn_cast<llvm::StoreInst>(&*std::prev(block.end(), std::min<size_t>(block.size(), 2))))
      for (unsigned i = 0; i < 200; ++i)
        store->clone()->insertBefore(store);
  size_t before = m.getInstructionCount();
  ASSERT_GT(before, targets::mostInstructions);
  targets::cutLargeFunctions(m);
  EXPECT_TRUE(targets::verifyModule(m, "cut", {}, diag)) << renderAll(diag);
  for (const llvm::Function &f : m)
    EXPECT_LE(f.getInstructionCount(), 2 * targets::instructionsOfPart) << f.getName().str();
}

// Scalars, tiles and memory go from part to part; stacks of parts are not added up.
TEST(CutFunctions, PartsComputeTheSame) {
  constexpr unsigned count = 150;
  std::string text =
      "kernel @k(%x: ptr<f32>, %o: ptr<f32>, %n: i32) {\n  %i = range {start = 0} : tensor<64xi32>\n  %p = splat %x : tensor<64xptr<f32>>\n"
      "  %q = addptr %p, %i : tensor<64xptr<f32>>\n  %v0 = load %q : tensor<64xf32>\n  %zero = const {value = 0} : i32\n  %one = const {value = 1} : i32\n"
      "  %three = const {value = 3} : i32\n  %so = splat %o : tensor<64xptr<f32>>\n  %sn = splat %n : tensor<64xi32>\n  %a0 = add %n, %zero : i32\n";
  for (unsigned i = 0; i < count; ++i) {
    std::string s = std::to_string(i), next = std::to_string(i + 1);
    text += "  %c" + s + " = const {value = " + s + "} : i32\n  %a" + next + ", %v" + next +
            " = for %zero, %n, %one, %a" + s + ", %v" + s + " : i32, tensor<64xf32> (%j" + s + ": i32, %b" + s +
            ": i32, %w" + s + ": tensor<64xf32>) {\n    %t" + s + " = srem %b" + s + ", %three : i32\n    %e" + s +
            " = cmpi %t" + s + ", %zero {pred = eq} : i1\n    %f" + s + ", %g" + s + " = if %e" + s +
            " : tensor<64xf32>, i32 {\n      %k" + s + " = sitofp %b" + s + " : f32\n      %l" + s + " = splat %k" + s +
            " : tensor<64xf32>\n      %m" + s + " = fadd %w" + s + ", %l" + s + " : tensor<64xf32>\n      %h" + s +
            " = addptr %so, %i : tensor<64xptr<f32>>\n" + "      %y" + s +
            " = cmpi %i, %sn {pred = slt} : tensor<64xi1>\n      store %h" + s + ", %m" + s + ", %y" + s +
            "\n      %z" + s + " = add %b" + s + ", %one : i32\n      yield %m" + s + ", %z" + s +
            "\n    } else {\n      %u" + s + " = add %b" + s + ", %three : i32\n      yield %w" + s + ", %u" + s +
            "\n    }\n    yield %g" + s + ", %f" + s + "\n  }\n";
  }
  text +=
      "  %rest = const {value = 64} : i32\n  %r = addptr %o, %rest : ptr<f32>\n  %rs = splat %r : tensor<64xptr<f32>>\n  %ri = addptr %rs, %i : tensor<64xptr<f32>>\n  store %ri, %v" +
      std::to_string(count) + "\n  return\n}\n";
  test::Kernel k(text);
  ASSERT_EQ(k.error, "");
  ASSERT_NE(test::stage(text, *parseTarget(test::machineName()), Stage::Llvm).find(targets::partOfFunction),
            std::string::npos);
  std::vector<float> x(64), o(128, -1.0f), first(64, -1.0f);
  for (unsigned i = 0; i < 64; ++i)
    x[i] = static_cast<float>(i);
  for (int n : {0, 5}) {
    std::vector<float> v = x;
    std::fill(o.begin(), o.end(), -1.0f);
    std::fill(first.begin(), first.end(), -1.0f);
    int a = n;
    for (unsigned s = 0; s < count; ++s)
      for (int j = 0; j < n; ++j)
        if (a % 3 == 0) {
          for (int i = 0; i < 64; ++i) {
            v[i] += static_cast<float>(a);
            if (i < n)
              first[i] = v[i];
          }
          a += 1;
        } else {
          a += 3;
        }
    EXPECT_EQ(k.run({x, o, n}), 0);
    v.insert(v.begin(), first.begin(), first.end());
    EXPECT_EQ(o, v) << n;
  }
}

} // namespace
} // namespace tegula::cpu
