// See Ptx.h.
#include "targets/nvidia/instr/Ptx.h"
#include "llvm/IR/InlineAsm.h"

namespace tegula::nvidia {
namespace {

const char *constraintOf(llvm::Type *t) {
  if (t->isFloatTy())
    return "f";
  if (t->isDoubleTy())
    return "d";
  switch (t->getIntegerBitWidth()) {
  case 1:
    return "b";
  case 16:
    return "h";
  case 32:
    return "r";
  default:
    assert(t->isIntegerTy(64) && "no register of this size");
    return "l";
  }
}

} // namespace

void Ptx::add(std::string constraint, V x) {
  if (!constraints_.empty())
    constraints_ += ',';
  constraints_ += constraint;
  operands_.push_back(x);
}

std::string Ptx::in(V x) {
  if (x->getType()->isPointerTy())
    x = b_.CreatePtrToInt(x, b_.getInt64Ty());
  else if (x->getType()->isIntegerTy(8))
    x = b_.CreateZExt(x, b_.getInt16Ty());
  add(constraintOf(x->getType()), x);
  return "$" + std::to_string(next_++);
}

void Ptx::tie(size_t k, V x) {
  assert(x->getType() == results_[k]);
  add(std::to_string(k), x);
  ++next_;
}

std::string Ptx::results(size_t first, size_t count) const {
  count = std::min(count, results_.size() - first);
  if (count == 1)
    return "$" + std::to_string(first);
  std::string s = "{";
  for (size_t k = first; k < first + count; ++k)
    s += (k == first ? "$" : ", $") + std::to_string(k);
  return s + "}";
}

std::string Ptx::list(llvm::ArrayRef<V> xs, bool alwaysBraces) {
  if (xs.size() == 1 && !alwaysBraces)
    return in(xs[0]);
  std::string s = "{";
  for (size_t k = 0; k < xs.size(); ++k)
    s += (k ? ", " : "") + in(xs[k]);
  return s + "}";
}

Regs Ptx::emit(const std::string &text) {
  std::string constraints;
  for (llvm::Type *t : results_)
    constraints += std::string(constraints.empty() ? "=" : ",=") + constraintOf(t);
  if (!constraints_.empty())
    constraints += (constraints.empty() ? "" : ",") + constraints_;
  if (touches_ == Touches::Writes)
    constraints += constraints.empty() ? "~{memory}" : ",~{memory}";
  llvm::LLVMContext &c = b_.getContext();
  llvm::Type *result = results_.empty()       ? b_.getVoidTy()
                       : results_.size() == 1 ? results_[0]
                                              : llvm::StructType::get(c, results_);
  llvm::SmallVector<llvm::Type *, 8> types;
  for (V x : operands_)
    types.push_back(x->getType());
  auto *type = llvm::FunctionType::get(result, types, false);
  // A statement that only reads is "with side effects" all the same, or instruction selection would let it pass a later
  // write; the attribute tells the optimizer the truth.
  auto *code = llvm::InlineAsm::get(type, text, constraints, touches_ != Touches::Nothing);
  llvm::CallInst *call = b_.CreateCall(code, operands_);
  call->setDoesNotThrow();
  if (touches_ == Touches::Nothing)
    call->setDoesNotAccessMemory();
  else if (touches_ == Touches::Reads)
    call->setOnlyReadsMemory();
  if (touches_ != Touches::Writes)
    call->addFnAttr(llvm::Attribute::WillReturn);
  if (convergent_)
    call->setConvergent();
  Regs out;
  if (results_.size() == 1)
    out.push_back(call);
  else
    for (unsigned k = 0; k < results_.size(); ++k)
      out.push_back(b_.CreateExtractValue(call, k));
  return out;
}

} // namespace tegula::nvidia
