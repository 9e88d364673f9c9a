// The names of LLVM's passes, and of ours among them, that PTX is made with.
#pragma once
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Target/TargetMachine.h"
#include "targets/nvidia/Codegen.h"
#include <gtest/gtest.h>

namespace tegula::nvidia {

/// One name a line, in the order of their runs. LLVM tells nobody else.
inline std::string passesOfPtx() {
  DiagEngine diag;
  auto machine = createTargetMachine(*parseTarget("sm_90a"), {}, diag);
  llvm::LLVMContext context;
  llvm::Module m("empty", context);
  m.setTargetTriple(machine->getTargetTriple().str());
  m.setDataLayout(machine->createDataLayout());
  llvm::IRBuilder<> b(context);
  auto *f =
      llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), false), llvm::Function::ExternalLinkage, "f", m);
  b.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", f));
  b.CreateRetVoid();
  llvm::cl::Option &option = *llvm::cl::getRegisteredOptions().find("debug-pass")->second;
  option.addOccurrence(0, "debug-pass", "Structure");
  testing::internal::CaptureStderr();
  EXPECT_FALSE(emitPtx(m, *machine).empty());
  std::string passes = testing::internal::GetCapturedStderr();
  option.reset();
  option.addOccurrence(0, "debug-pass", "Disabled");
  return passes;
}

} // namespace tegula::nvidia
