// See DebugInfo.h.
#include "targets/common/DebugInfo.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/IR/Module.h"

namespace tegula::targets {

DebugEmitter::DebugEmitter(llvm::Module &m, const ir::Module &source, bool optimized, Kind kind)
    : builder_(m), source_(source), optimized_(optimized), kind_(kind) {
  m.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  m.addModuleFlag(llvm::Module::Warning, "Dwarf Version", 5);
}

// The unit is made with the first file: it belongs to the kernel's.
llvm::DIFile *DebugEmitter::file(const SourceFile &f) {
  llvm::DIFile *&d = files_[&f];
  if (!d) {
    std::string name = f.name(), directory = ".";
    if (size_t slash = name.rfind('/'); slash != std::string::npos) {
      directory = name.substr(0, slash);
      name = name.substr(slash + 1);
    }
    d = builder_.createFile(name, directory);
    if (!unit_)
      unit_ = builder_.createCompileUnit(llvm::dwarf::DW_LANG_Python, d, "tegula", optimized_, "", 0, "",
                                         kind_ == Kind::Full ? llvm::DICompileUnit::FullDebug
                                                             : llvm::DICompileUnit::DebugDirectivesOnly);
  }
  return d;
}

static unsigned lineOf(const Loc &l) { return l ? l.file->lineCol(l.begin).line : 0; }

void DebugEmitter::begin(llvm::Function &f, const ir::Function &source) {
  current_ = nullptr;
  sites_.clear();
  if (!source.loc)
    return;
  llvm::DIFile *in = file(*source.loc.file);
  auto *type = builder_.createSubroutineType(builder_.getOrCreateTypeArray({}));
  auto flags = llvm::DISubprogram::SPFlagDefinition;
  if (optimized_)
    flags |= llvm::DISubprogram::SPFlagOptimized;
  unsigned line = lineOf(source.loc);
  current_ = builder_.createFunction(in, source.name, f.getName(), in, line, type, line, llvm::DINode::FlagZero, flags);
  f.setSubprogram(current_);
}

llvm::DISubprogram *DebugEmitter::helper(const ir::InlineSite &site, const ir::Op &op) {
  llvm::DISubprogram *&s = helpers_[{site.callee, op.loc.file}];
  if (!s) {
    llvm::DIFile *in = file(*op.loc.file);
    auto *type = builder_.createSubroutineType(builder_.getOrCreateTypeArray({}));
    s = builder_.createFunction(in, site.callee, "", in, lineOf(op.loc), type, lineOf(op.loc), llvm::DINode::FlagZero,
                                llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagLocalToUnit |
                                    llvm::DISubprogram::SPFlagOptimized);
  }
  return s;
}

llvm::DILocation *DebugEmitter::location(const ir::Op &op) {
  if (!current_)
    return nullptr;
  llvm::LLVMContext &c = current_->getContext();
  // Without a place of its own an op takes line 0 of the kernel: "compiler's own".
  if (!op.loc)
    return llvm::DILocation::get(c, 0, 0, current_);
  LineCol at = op.loc.file->lineCol(op.loc.begin);
  if (op.inlinedAt < 0 || op.inlinedAt >= static_cast<int32_t>(source_.inlineSites.size()))
    return llvm::DILocation::get(c, at.line, at.col, current_);
  // Call sites from the outermost inwards, each seen in the helper that makes the next call.
  std::vector<int32_t> chain;
  for (int32_t i = op.inlinedAt; i >= 0 && chain.size() < 64; i = source_.inlineSites[static_cast<size_t>(i)].parent)
    chain.push_back(i);
  llvm::DILocalScope *scope = current_;
  llvm::DILocation *outer = nullptr;
  for (size_t k = chain.size(); k-- > 0;) {
    const ir::InlineSite &site = source_.inlineSites[static_cast<size_t>(chain[k])];
    llvm::DILocation *&made = sites_[chain[k]];
    if (!made) {
      LineCol call = site.call ? site.call.file->lineCol(site.call.begin) : LineCol{};
      made = llvm::DILocation::getDistinct(c, call.line, call.col, scope, outer);
    }
    outer = made;
    scope = helper(site, op);
  }
  return llvm::DILocation::get(c, at.line, at.col, scope, outer);
}

llvm::DIType *DebugEmitter::type(const ir::Type &t, bool isSigned) {
  if (t.isPtr)
    return builder_.createPointerType(
        t.elem == ir::Elem::Void ? nullptr : type(ir::Type::scalar(t.elem), true), 64);
  unsigned encoding = t.elem == ir::Elem::I1                               ? llvm::dwarf::DW_ATE_boolean
                      : t.elem == ir::Elem::F32 || t.elem == ir::Elem::F64 ? llvm::dwarf::DW_ATE_float
                      : ir::isInt(t.elem) && isSigned                      ? llvm::dwarf::DW_ATE_signed
                                                                           : llvm::dwarf::DW_ATE_unsigned;
  return builder_.createBasicType(ir::name(t.elem), ir::byteWidth(t.elem) * 8, encoding);
}

void DebugEmitter::variable(llvm::IRBuilder<> &b, llvm::Value *value, const ir::Value &source, bool isSigned,
                            unsigned parameter) {
  // Only what belongs to the kernel itself: a helper's locals would need its own scope.
  if (!current_ || source.name.empty() || (source.def && source.def->inlinedAt >= 0))
    return;
  unsigned line = source.def ? lineOf(source.def->loc) : current_->getLine();
  llvm::DIFile *in = current_->getFile();
  auto *var = parameter
                  ? builder_.createParameterVariable(current_, source.name, parameter, in, line,
                                                     type(source.type, isSigned), true)
                  : builder_.createAutoVariable(current_, source.name, in, line, type(source.type, isSigned), true);
  auto *at = llvm::DILocation::get(current_->getContext(), line, 0, current_);
  // In memory, after a volatile store: a value in a register is "optimized out" for gdb as soon as the code is done
  // with it.
  llvm::BasicBlock &entry = b.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::AllocaInst *slot = llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(value->getType());
  builder_.insertDeclare(slot, var, builder_.createExpression(), at, b.GetInsertBlock());
  b.CreateStore(value, slot, /*isVolatile=*/true);
}

} // namespace tegula::targets
