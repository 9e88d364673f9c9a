// Emits a kernel's assembly statements (operations asm and asm_effect) as LLVM inline assembly, and maps messages of
// LLVM's code generator back to the kernel's lines.
#pragma once
#include "ir/Ir.h"
#include "support/Diag.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/IRBuilder.h"

namespace tegula::targets {

/// Collects the messages of the code generator; owned by an LLVM context. In a context without a handler, LLVM prints
/// an error and exits the process.
class CodegenMessages final : public llvm::DiagnosticHandler {
public:
  /// Creates the handler of a context that has none yet.
  static CodegenMessages &install(llvm::LLVMContext &c);
  static CodegenMessages &of(llvm::LLVMContext &c);

  bool handleDiagnostics(const llvm::DiagnosticInfo &d) override;
  /// The number that LLVM's messages use for `loc`.
  uint64_t place(Loc loc);
  void add(uint64_t place, std::string text);
  /// Reports all collected errors. True if there were any.
  bool report(DiagEngine &diag);
  /// Makes the code generator add the stack frame sizes of the functions of `m` to `bytes`. Of the parts of a cut
  /// function (CutFunctions.h), which run one after the other, only the largest counts.
  void meterFrames(llvm::Module &m, uint64_t &bytes);

private:
  struct Message {
    uint64_t place;
    std::string text;
  };
  std::vector<Loc> places_;
  std::vector<Message> messages_;
  uint64_t *stackBytes_ = nullptr, ofParts_ = 0;
};

/// The machine whose registers the constraints name.
enum class AsmKind : uint8_t { Ptx, Cpu };

/// Emits one execution of the statement, on scalars of the operands' types. Returns the single output that the
/// operation stands for (`asm`), or all outputs (`asm_effect`).
llvm::SmallVector<llvm::Value *, 2> emitAsm(llvm::IRBuilder<> &b, const ir::Op &op, llvm::ArrayRef<llvm::Value *> args,
                                            AsmKind kind);

} // namespace tegula::targets
