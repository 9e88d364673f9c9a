// Assembly that the kernel wrote for this CPU, one element at a time.
#include "targets/common/AsmText.h"
#include "targets/cpu/emit/Emitter.h"

namespace tegula::cpu {
using ir::Op;
using V = llvm::Value *;

V FunctionEmitter::assembly(const Op &op, llvm::ArrayRef<V> args) {
  llvm::FixedVectorType *vector = nullptr;
  for (V x : args)
    if (auto *t = llvm::dyn_cast<llvm::FixedVectorType>(x->getType()))
      vector = t;
  if (!vector)
    return targets::emitAsm(b_, op, args, targets::AsmKind::Cpu)[0];
  state_.notVectorized(op, "its registers hold one element");
  unsigned lanes = vector->getNumElements();
  V out = llvm::PoisonValue::get(llvm::FixedVectorType::get(regType(op.results[0]->type.scalarType()), lanes));
  for (unsigned k = 0; k < lanes; ++k) {
    llvm::SmallVector<V, 4> one;
    for (V x : args)
      one.push_back(x->getType()->isVectorTy() ? b_.CreateExtractElement(x, k) : x);
    out = b_.CreateInsertElement(out, targets::emitAsm(b_, op, one, targets::AsmKind::Cpu)[0], k);
  }
  return out;
}

void FunctionEmitter::assemblyElement(const Op &op, const Bits &at) {
  llvm::SmallVector<V, 4> args;
  for (const ir::Value *v : op.operands)
    args.push_back(eval(v, at));
  setLoc(&op);
  auto results = targets::emitAsm(b_, op, args, targets::AsmKind::Cpu);
  for (size_t i = 0; i < results.size(); ++i)
    if (int buffer = plan_.bufferFor(op.results[i]); buffer >= 0)
      storeBuffer(buffer, results[i], op.results[i]->type, at);
}

void FunctionEmitter::assemblyScalar(const Op &op) {
  llvm::SmallVector<V, 4> args;
  for (const ir::Value *v : op.operands)
    args.push_back(scalar_.lookup(v));
  auto results = targets::emitAsm(b_, op, args, targets::AsmKind::Cpu);
  for (size_t i = 0; i < results.size(); ++i)
    scalar_[op.results[i]] = results[i];
}

} // namespace tegula::cpu
