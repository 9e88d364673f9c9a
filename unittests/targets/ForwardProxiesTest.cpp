#include "PassesOfPtx.h"
#include "targets/common/ForwardProxies.h"
#include "llvm/CodeGen/MachineFunctionPass.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetInstrInfo.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/CodeGen/TargetSubtargetInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Target/TargetLoweringObjectFile.h"
#include "llvm/Target/TargetMachine.h"
#include "targets/nvidia/Codegen.h"
#include <gtest/gtest.h>

namespace tegula::nvidia {

/// @f(from, to): `pairs` pairs of halves, stored as words.
static void pairsToWords(llvm::Module &m, unsigned pairs) {
  llvm::IRBuilder<> b(m.getContext());
  auto *f = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy()}, false),
                                   llvm::Function::ExternalLinkage, "f", m);
  b.SetInsertPoint(llvm::BasicBlock::Create(m.getContext(), "entry", f));
  llvm::Type *pair = llvm::FixedVectorType::get(b.getHalfTy(), 2);
  for (unsigned i = 0; i < pairs; ++i) {
    llvm::Value *x = b.CreateLoad(pair, b.CreateConstGEP1_32(pair, f->getArg(0), i), true);
    llvm::Value *word = b.CreateBitCast(b.CreateFAdd(x, x), b.getInt32Ty());
    b.CreateStore(b.CreateAdd(word, b.getInt32(1)), b.CreateConstGEP1_32(pair, f->getArg(1), i), true);
  }
  b.CreateRetVoid();
}

/// Counts the proxies that are there when it runs.
class CountProxies final : public llvm::MachineFunctionPass {
public:
  static char id;
  explicit CountProxies(unsigned &count) : MachineFunctionPass(id), count_(count) {}
  bool runOnMachineFunction(llvm::MachineFunction &f) override {
    for (const llvm::MachineBasicBlock &block : f)
      count_ += static_cast<unsigned>(llvm::count_if(block, [&](const llvm::MachineInstr &i) {
        return f.getSubtarget().getInstrInfo()->getName(i.getOpcode()).starts_with("ProxyReg");
      }));
    return false;
  }

private:
  unsigned &count_;
};

char CountProxies::id = 0;

TEST(ForwardProxies, NothingIsLeftForLlvm) {
  constexpr unsigned pairs = 100;
  DiagEngine diag;
  auto machine = createTargetMachine(*parseTarget("sm_90a"), {}, diag);
  ASSERT_TRUE(machine);
  for (bool isForwarded : {false, true}) {
    llvm::LLVMContext context;
    llvm::Module m("pairs", context);
    m.setTargetTriple(machine->getTargetTriple().str());
    m.setDataLayout(machine->createDataLayout());
    pairsToWords(m, pairs);
    auto &tm = static_cast<llvm::LLVMTargetMachine &>(*machine);
    llvm::legacy::PassManager pm;
    llvm::TargetPassConfig *passes = tm.createPassConfig(pm);
    unsigned count = 0;
    if (isForwarded)
      passes->insertPass(&llvm::PeepholeOptimizerID, targets::createForwardProxiesPass());
    passes->insertPass(&llvm::PeepholeOptimizerID, new CountProxies(count));
    pm.add(passes);
    auto *machineModule = new llvm::MachineModuleInfoWrapperPass(&tm);
    pm.add(machineModule);
    tm.getObjFileLowering()->Initialize(machineModule->getMMI().getContext(), tm); // the printer does it otherwise
    ASSERT_FALSE(passes->addISelPasses());
    passes->addMachinePasses();
    passes->setInitialized();
    pm.run(m);
    EXPECT_EQ(count, isForwarded ? 0 : pairs); // if there are none in any case, the pass is not needed any more
  }
}

/// PTX is made with it, before LLVM's.
TEST(ForwardProxies, IsAmongThePassesOfPtx) {
  std::string passes = passesOfPtx();
  size_t ours = passes.find("Forward register proxies");
  ASSERT_NE(ours, std::string::npos) << passes;
  EXPECT_LT(passes.find("Peephole Optimizations"), ours);
  EXPECT_LT(ours, passes.find("NVPTX Proxy Register Instruction Erasure"));
}

} // namespace tegula::nvidia
