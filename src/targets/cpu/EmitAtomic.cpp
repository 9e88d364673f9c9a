// Atomics and histogram, one element at a time.
#include "targets/cpu/Emitter.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using V = llvm::Value *;

static llvm::AtomicOrdering orderOf(const Op &op) {
  auto sem = op.get(ir::attr::sem, "acq_rel");
  if (sem == "relaxed")
    return llvm::AtomicOrdering::Monotonic;
  if (sem == "acquire")
    return llvm::AtomicOrdering::Acquire;
  if (sem == "release")
    return llvm::AtomicOrdering::Release;
  return llvm::AtomicOrdering::AcquireRelease;
}

static std::optional<llvm::AtomicRMWInst::BinOp> binOp(std::string_view rmw) {
  using B = llvm::AtomicRMWInst;
  static constexpr std::pair<std::string_view, B::BinOp> table[] = {
      {"add", B::Add}, {"fadd", B::FAdd}, {"smax", B::Max}, {"smin", B::Min}, {"umax", B::UMax}, {"umin", B::UMin},
      {"and", B::And}, {"or", B::Or},     {"xor", B::Xor},  {"xchg", B::Xchg}};
  for (auto &[name, op] : table)
    if (name == rmw)
      return op;
  return std::nullopt;
}

// Compare-and-swap loop on a word for what has no instruction.
V FunctionEmitter::atomicWord(llvm::AtomicOrdering order, V pointer, unsigned bits, llvm::function_ref<V(V)> update) {
  llvm::Type *t = b_.getIntNTy(bits);
  llvm::Align align(bits / 8);
  auto *first = b_.CreateAlignedLoad(t, pointer, align);
  first->setAtomic(llvm::AtomicOrdering::Monotonic);
  llvm::BasicBlock *before = b_.GetInsertBlock();
  auto *again = llvm::BasicBlock::Create(context_, "again", function_);
  auto *done = llvm::BasicBlock::Create(context_, "done", function_);
  b_.CreateBr(again);
  b_.SetInsertPoint(again);
  llvm::PHINode *old = b_.CreatePHI(t, 2);
  old->addIncoming(first, before);
  V swapped = b_.CreateAtomicCmpXchg(pointer, old, update(old), align, order,
                                     llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(order));
  old->addIncoming(b_.CreateExtractValue(swapped, 0), b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateExtractValue(swapped, 1), done, again);
  b_.SetInsertPoint(done);
  return old;
}

V FunctionEmitter::atomicOp(const Op &op, V pointer, llvm::ArrayRef<V> args) {
  ir::Type t = op.results[0]->type.scalarType();
  unsigned bits = t.isPtr ? 64 : std::max(8u, ir::bitWidth(t.elem));
  llvm::Align align(bits / 8);
  auto order = orderOf(op);
  llvm::Type *word = b_.getIntNTy(bits), *reg = regType(t);
  auto toWord = [&](V x) {
    if (t.isPtr)
      return b_.CreatePtrToInt(x, word);
    return !t.isPtr && t.elem == ir::Elem::I1 ? b_.CreateZExt(x, word) : b_.CreateBitCast(x, word);
  };
  auto toReg = [&](V x) {
    if (t.isPtr)
      return b_.CreateIntToPtr(x, reg);
    return t.elem == ir::Elem::I1 ? b_.CreateTrunc(x, reg) : b_.CreateBitCast(x, reg);
  };
  if (op.kind == OpKind::AtomicCas) {
    V r = b_.CreateAtomicCmpXchg(pointer, toWord(args[0]), toWord(args[1]), align, order,
                                 llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(order));
    return toReg(b_.CreateExtractValue(r, 0));
  }
  auto rmw = op.rmw();
  if (rmw == "load") {
    auto *load = b_.CreateAlignedLoad(word, pointer, align);
    load->setAtomic(order == llvm::AtomicOrdering::AcquireRelease ? llvm::AtomicOrdering::Acquire : order);
    return toReg(load);
  }
  if (rmw == "store") {
    b_.CreateAlignedStore(toWord(args[0]), pointer, align)->setAtomic(order == llvm::AtomicOrdering::AcquireRelease ? llvm::AtomicOrdering::Release : order);
    return llvm::PoisonValue::get(reg);
  }
  auto kind = binOp(rmw).value_or(llvm::AtomicRMWInst::Xchg);
  bool narrow = !t.isPtr && ir::isFloat(t.elem) && bits <= 16;
  if (narrow && rmw != "xchg") {
    OpKind what = rmw == "fadd" ? OpKind::FAdd : rmw == "fmin" ? OpKind::MinNum : OpKind::MaxNum;
    return atomicWord(order, pointer, bits, [&](V old) { return vec_.narrowOperation(what, old, args[0], t.elem); });
  }
  if (kind == llvm::AtomicRMWInst::FAdd)
    return b_.CreateAtomicRMW(kind, pointer, args[0], align, order);
  return toReg(b_.CreateAtomicRMW(kind, pointer, toWord(args[0]), align, order));
}

V FunctionEmitter::maskedAtomic(const Op &op, V pointer, llvm::ArrayRef<V> args, V mask) {
  guardAccess({pointer}, std::max(1u, ir::byteWidth(op.results[0]->type.elem)), mask, op);
  if (!mask)
    return atomicOp(op, pointer, args);
  return ifThen(mask, regType(op.results[0]->type.scalarType()), [&] { return atomicOp(op, pointer, args); });
}

void FunctionEmitter::histogramElement(const Op &op, const Bits &at) {
  V x = eval(op.operands[0], at);
  V mask = op.operands.size() > 1 ? eval(op.operands[1], at) : nullptr;
  uint64_t bins = static_cast<uint64_t>(op.results[0]->type.numel());
  // Values outside count nowhere.
  V inside = b_.CreateICmpULT(b_.CreateZExtOrTrunc(x, b_.getInt64Ty()), b_.getInt64(bins));
  inside = mask ? b_.CreateAnd(inside, mask) : inside;
  V base = bufferLin(plan_.bufferFor(op.results[0])).base;
  ifThen(inside, nullptr, [&]() -> V {
    V p = b_.CreateGEP(b_.getInt32Ty(), base, b_.CreateZExtOrTrunc(x, b_.getInt64Ty()));
    b_.CreateStore(b_.CreateAdd(b_.CreateLoad(b_.getInt32Ty(), p), b_.getInt32(1)), p);
    return nullptr;
  });
}

} // namespace tegula::cpu
