// Statements of assembly that a kernel wrote (operations asm and asm_effect), as LLVM's inline assembly; and what
// LLVM's code generator says of them later, which leads back to the kernel's line.
#pragma once
#include "ir/Ir.h"
#include "support/Diag.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/IRBuilder.h"

namespace tegula::targets {

/// Collects the messages of the code generator; belongs to an LLVM context. Without one LLVM prints an error and ends
/// the process.
class CodegenMessages final : public llvm::DiagnosticHandler {
public:
  /// Makes one for a context that has none yet.
  static CodegenMessages &install(llvm::LLVMContext &c);
  static CodegenMessages &of(llvm::LLVMContext &c);

  bool handleDiagnostics(const llvm::DiagnosticInfo &d) override;
  /// The number by which LLVM names a place.
  uint64_t place(Loc loc);
  void add(uint64_t place, std::string text);
  /// True if there were errors; they have been reported.
  bool report(DiagEngine &diag);
  /// Has the code generator add to `bytes`, once it makes code of `m`, what the frames of the functions take of the
  /// stack: of the parts of one function, which follow one another, the largest.
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

/// Whose registers the constraints name.
enum class AsmKind : uint8_t { Ptx, Cpu };

/// One execution of the statement: on scalars, as the operation's operands are. What it gives: of `asm` the one output
/// that the operation is, of `asm_effect` all of them.
llvm::SmallVector<llvm::Value *, 2> emitAsm(llvm::IRBuilder<> &b, const ir::Op &op, llvm::ArrayRef<llvm::Value *> args,
                                            AsmKind kind);

} // namespace tegula::targets
