// See AsmText.h.
#include "targets/common/AsmText.h"
#include "ir/Asm.h"
#include "targets/Diagnostics.h"
#include "targets/common/CutFunctions.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

namespace tegula::targets {

using V = llvm::Value *;

// ---- messages

CodegenMessages &CodegenMessages::install(llvm::LLVMContext &c) {
  c.setDiagnosticHandler(std::make_unique<CodegenMessages>());
  return of(c);
}

CodegenMessages &CodegenMessages::of(llvm::LLVMContext &c) {
  return *static_cast<CodegenMessages *>(const_cast<llvm::DiagnosticHandler *>(c.getDiagHandlerPtr()));
}

bool CodegenMessages::handleDiagnostics(const llvm::DiagnosticInfo &d) {
  if (auto *frame = llvm::dyn_cast<llvm::DiagnosticInfoStackSize>(&d)) {
    // Beside a frame: saved registers, the return address, alignment.
    constexpr uint64_t besides = 512;
    const bool isPart = frame->getFunction().hasFnAttribute(partOfFunction);
    const uint64_t before = isPart ? ofParts_ : 0, need = frame->getStackSize() + besides;
    if (stackBytes_)
      *stackBytes_ += need > before ? need - before : 0;
    if (isPart)
      ofParts_ = std::max(ofParts_, need);
    return true;
  }
  if (d.getSeverity() != llvm::DS_Error)
    return true;
  if (auto *s = llvm::dyn_cast<llvm::DiagnosticInfoSrcMgr>(&d)) {
    llvm::StringRef line = s->getSMDiag().getLineContents().trim();
    add(s->getLocCookie(), s->getSMDiag().getMessage().str() + (line.empty() ? "" : " in `" + line.str() + "`"));
  } else if (auto *a = llvm::dyn_cast<llvm::DiagnosticInfoInlineAsm>(&d)) {
    add(a->getLocCookie(), a->getMsgStr().str());
  } else {
    std::string text;
    llvm::raw_string_ostream os(text);
    llvm::DiagnosticPrinterRawOStream printer(os);
    d.print(printer);
    add(0, text);
  }
  return true;
}

void CodegenMessages::meterFrames(llvm::Module &m, uint64_t &bytes) {
  stackBytes_ = &bytes;
  for (llvm::Function &f : m)
    if (!f.isDeclaration())
      f.addFnAttr("warn-stack-size", "0");
}

uint64_t CodegenMessages::place(Loc loc) {
  places_.push_back(loc);
  return places_.size();
}

void CodegenMessages::add(uint64_t place, std::string text) { messages_.push_back({place, std::move(text)}); }

bool CodegenMessages::report(DiagEngine &diag) {
  // A statement is there as often as it is unrolled, with other registers each time: what is wrong is said once.
  std::vector<Loc> told;
  for (const Message &m : messages_) {
    const Loc at = m.place && m.place <= places_.size() ? places_[m.place - 1] : Loc();
    if (at &&
        llvm::any_of(told, [&](const Loc &l) { return l.file == at.file && l.begin == at.begin && l.end == at.end; }))
      continue;
    told.push_back(at);
    diag.report(diag::badAssembly, at, m.text);
  }
  return !messages_.empty();
}

// ---- statements

static llvm::Type *typeNamed(llvm::IRBuilder<> &b, llvm::StringRef name) {
  unsigned bits = 0;
  name.drop_front().getAsInteger(10, bits);
  return name.starts_with("f") ? (bits == 32 ? b.getFloatTy() : b.getDoubleTy()) : b.getIntNTy(bits);
}

/// A register for floats: of x86 x, v, Y..., {xmm0}; of aarch64 w, x is both ... {v0}.
static bool isCpuFloat(llvm::StringRef constraint) {
  constraint = constraint.ltrim("=&^");
  return constraint.starts_with("x") || constraint.starts_with("v") || constraint.starts_with("w") ||
         constraint.starts_with("Y") || constraint.starts_with("{xmm") || constraint.starts_with("{v") ||
         constraint.starts_with("{s") || constraint.starts_with("{d") || constraint.starts_with("{q");
}

/// How LLVM must see a value of type `t` for the register to be one of the constraint's.
static llvm::Type *registerType(llvm::IRBuilder<> &b, llvm::Type *t, llvm::StringRef constraint, AsmKind kind) {
  unsigned bits = t->getPrimitiveSizeInBits();
  bool isFloat = kind == AsmKind::Ptx ? ir::isPtxFloat(constraint) : isCpuFloat(constraint);
  if (unsigned known = kind == AsmKind::Ptx ? ir::ptxRegisterBits(constraint) : 0)
    bits = std::max(bits, known);
  if (kind == AsmKind::Ptx && constraint.ltrim("=&") == "b")
    bits = 1;
  if (isFloat && (bits == 32 || bits == 64))
    return bits == 32 ? b.getFloatTy() : b.getDoubleTy();
  return b.getIntNTy(bits);
}

static V converted(llvm::IRBuilder<> &b, V x, llvm::Type *to) {
  llvm::Type *from = x->getType();
  if (from == to)
    return x;
  x = from->isIntegerTy() ? x : b.CreateBitCast(x, b.getIntNTy(from->getPrimitiveSizeInBits()));
  x = b.CreateZExtOrTrunc(x, b.getIntNTy(to->getPrimitiveSizeInBits()));
  return to->isIntegerTy() ? x : b.CreateBitCast(x, to);
}

/// A register that can be copied: {eax}, {r8d}, {xmm0}, {w3}. LLVM ends the process over others (flags, the instruction
/// pointer).
static bool isPlainRegister(llvm::StringRef name) {
  static constexpr llvm::StringRef named[] = {"ax", "bx", "cx", "dx", "si", "di", "bp", "al", "bl", "cl", "dl"};
  static constexpr llvm::StringRef numbered[] = {"r", "x", "w", "v", "d", "s", "q", "h", "b", "xmm", "ymm", "zmm"};
  llvm::StringRef stem = name.rtrim("dwb").rtrim("0123456789");
  if (stem.size() < name.rtrim("dwb").size())
    return llvm::is_contained(numbered, stem);
  return llvm::is_contained(named, name) ||
         ((name.starts_with("r") || name.starts_with("e")) && llvm::is_contained(named, name.drop_front()));
}

/// What is wrong with the place of an operand, which LLVM does not check; empty: nothing. Outputs in memory go by
/// addresses, which statements here do not have.
static std::string badPlace(llvm::StringRef constraints) {
  static constexpr llvm::StringRef memory[] = {"m", "o", "V", "Q", "g", "X", "p", "i", "n", "s", "<", ">"};
  auto check = [](const llvm::InlineAsm::ConstraintInfo &c, llvm::ArrayRef<std::string> codes) -> std::string {
    for (llvm::StringRef code : codes) {
      if (c.Type == llvm::InlineAsm::isOutput && (llvm::is_contained(memory, code) || code.starts_with("U")))
        return "an output must be in a register, which `" + code.str() + "` does not say";
      if (code.starts_with("{") && !isPlainRegister(code.drop_front().drop_back().lower()))
        return "`" + code.str() + "` is no register for an operand";
    }
    return {};
  };
  for (const llvm::InlineAsm::ConstraintInfo &c : llvm::InlineAsm::ParseConstraints(constraints)) {
    if (c.Type == llvm::InlineAsm::isClobber)
      continue;
    std::string why = check(c, c.Codes);
    for (const llvm::InlineAsm::SubConstraintInfo &choice : c.multipleAlternatives)
      why = why.empty() ? check(c, choice.Codes) : why;
    if (!why.empty())
      return why;
  }
  return {};
}

llvm::SmallVector<V, 2> emitAsm(llvm::IRBuilder<> &b, const ir::Op &op, llvm::ArrayRef<V> args, AsmKind kind) {
  llvm::LLVMContext &c = b.getContext();
  CodegenMessages &messages = CodegenMessages::of(c);
  bool isPure = op.kind == ir::OpKind::Asm;
  const ir::AsmConstraints list = ir::asmConstraints(op.constraints());
  llvm::SmallVector<llvm::Type *, 4> plain, outputs, inputs;
  llvm::SmallVector<llvm::StringRef, 4> names;
  llvm::StringRef(op.outputs().data(), op.outputs().size()).split(names, ',');
  for (size_t i = 0; i < list.outputs.size(); ++i) {
    plain.push_back(typeNamed(b, names[i]));
    outputs.push_back(registerType(b, plain.back(), list.outputs[i], kind));
  }
  llvm::SmallVector<V, 4> operands;
  for (size_t i = 0; i < args.size(); ++i) {
    size_t tied = 0;
    bool isTied = !llvm::StringRef(list.inputs[i]).getAsInteger(10, tied) && tied < outputs.size();
    operands.push_back(
        converted(b, args[i], isTied ? outputs[tied] : registerType(b, args[i]->getType(), list.inputs[i], kind)));
    inputs.push_back(operands.back()->getType());
  }
  llvm::Type *result = outputs.size() == 1 ? outputs[0] : llvm::StructType::get(c, outputs);
  auto *type = llvm::FunctionType::get(result, inputs, false);
  std::string_view constraints = op.constraints(), text = op.text();
  llvm::SmallVector<V, 2> out;
  llvm::ArrayRef<llvm::Type *> wanted(plain);
  if (isPure)
    wanted = wanted.slice(static_cast<size_t>(op.output()), 1);
  std::string why;
  if (llvm::Error e = llvm::InlineAsm::verify(type, {constraints.data(), constraints.size()}))
    why = llvm::toString(std::move(e)) + " in the constraints `" + std::string(constraints) + "`";
  else
    why = badPlace({constraints.data(), constraints.size()});
  if (!why.empty()) {
    messages.add(messages.place(op.loc), why);
    for (llvm::Type *t : wanted)
      out.push_back(llvm::PoisonValue::get(t));
    return out;
  }
  auto *code =
      llvm::InlineAsm::get(type, {text.data(), text.size()}, {constraints.data(), constraints.size()}, !isPure);
  llvm::CallInst *call = b.CreateCall(code, operands);
  call->setDoesNotThrow();
  if (isPure) {
    call->setDoesNotAccessMemory();
    call->addFnAttr(llvm::Attribute::WillReturn);
  }
  // Threads of a warp may speak to each other in it: it stays where it is.
  if (kind == AsmKind::Ptx && !isPure)
    call->setConvergent();
  call->setMetadata("srcloc", llvm::MDNode::get(c, llvm::ConstantAsMetadata::get(b.getInt64(messages.place(op.loc)))));
  for (size_t i = 0; i < wanted.size(); ++i) {
    auto at = static_cast<unsigned>(isPure ? op.output() : static_cast<int64_t>(i));
    out.push_back(converted(b, outputs.size() == 1 ? static_cast<V>(call) : b.CreateExtractValue(call, at), wanted[i]));
  }
  return out;
}

} // namespace tegula::targets
