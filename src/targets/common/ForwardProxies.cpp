// See ForwardProxies.h.
#include "targets/common/ForwardProxies.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/CodeGen/MachineFunctionPass.h"
#include "llvm/CodeGen/MachineRegisterInfo.h"
#include "llvm/CodeGen/TargetInstrInfo.h"
#include "llvm/CodeGen/TargetSubtargetInfo.h"

namespace tegula::targets {
namespace {

class ForwardProxies final : public llvm::MachineFunctionPass {
public:
  static char id;
  ForwardProxies() : MachineFunctionPass(id) {}
  llvm::StringRef getPassName() const override { return "Forward register proxies"; }
  bool runOnMachineFunction(llvm::MachineFunction &f) override {
    const llvm::TargetInstrInfo &names = *f.getSubtarget().getInstrInfo();
    bool changed = false;
    for (llvm::MachineBasicBlock &block : f)
      for (llvm::MachineInstr &i : llvm::make_early_inc_range(block))
        // the numbers of a target's opcodes are not exported
        if (names.getName(i.getOpcode()).starts_with("ProxyReg")) {
          forward(i, f.getRegInfo());
          changed = true;
        }
    return changed;
  }

private:
  static void forward(llvm::MachineInstr &proxy, llvm::MachineRegisterInfo &registers) {
    llvm::Register from = proxy.getOperand(0).getReg(), to = proxy.getOperand(1).getReg();
    proxy.eraseFromParent();
    for (llvm::MachineOperand &use : llvm::make_early_inc_range(registers.reg_operands(from))) {
      use.setReg(to);
      if (use.isUse())
        use.setIsKill(false); // `to` may be used after; LiveVariables says anew where registers end
    }
  }
};

char ForwardProxies::id = 0;

} // namespace

llvm::FunctionPass *createForwardProxiesPass() { return new ForwardProxies(); }

} // namespace tegula::targets
