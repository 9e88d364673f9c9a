// Debug info of a kernel, for debuggers and assemblers: lines of the user's .py file on every instruction, inlined
// helpers as inlined calls, named scalars as variables.
#pragma once
#include "ir/Ir.h"
#include "llvm/IR/DIBuilder.h"
#include <map>

namespace tegula::targets {

class DebugEmitter {
public:
  enum class Kind : uint8_t { Full, LinesOnly }; // LinesOnly: .loc directives of PTX, no DWARF
  DebugEmitter(llvm::Module &m, const ir::Module &source, bool optimized, Kind kind = Kind::Full);
  /// Attaches a subprogram to `f`, unless `source` has no location.
  void begin(llvm::Function &f, const ir::Function &source);
  /// The location of `op` in the function of the last begin(); null if unknown.
  llvm::DILocation *location(const ir::Op &op);
  /// From the insertion point on, the kernel's variable that `source` names has the value `value`.
  void variable(llvm::IRBuilder<> &b, llvm::Value *value, const ir::Value &source, bool isSigned,
                unsigned parameter = 0);
  void finish() { builder_.finalize(); }

private:
  llvm::DIFile *file(const SourceFile &f);
  llvm::DISubprogram *helper(const ir::InlineSite &site, const ir::Op &op);
  llvm::DIType *type(const ir::Type &t, bool isSigned);

  llvm::DIBuilder builder_;
  const ir::Module &source_;
  llvm::DICompileUnit *unit_ = nullptr;
  llvm::DISubprogram *current_ = nullptr;
  std::map<const SourceFile *, llvm::DIFile *> files_;
  std::map<std::pair<std::string, const SourceFile *>, llvm::DISubprogram *> helpers_;
  std::map<int32_t, llvm::DILocation *> sites_;
  bool optimized_;
  Kind kind_;
};

} // namespace tegula::targets
