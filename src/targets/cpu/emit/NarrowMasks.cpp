#include "targets/cpu/emit/NarrowMasks.h"
#include "targets/common/VecUtil.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/Module.h"
#include <algorithm>
#include <string>

namespace tegula::cpu {

using V = llvm::Value *;
using namespace llvm::Intrinsic;

NarrowRegisters::NarrowRegisters(llvm::FixedVectorType *all) {
  const unsigned bits = all->getScalarSizeInBits(), size = all->getNumElements() * bits / 8;
  bytes = size <= 16 ? 16 : 32;
  lanes = bytes * 8 / bits;
  count = (size + bytes - 1) / bytes;
  type = llvm::FixedVectorType::get(all->getElementType(), lanes);
  words = llvm::FixedVectorType::get(llvm::Type::getInt32Ty(all->getContext()), bytes / 4);
}

V NarrowRegisters::part(llvm::IRBuilder<> &b, V all, unsigned i) const {
  const unsigned n = llvm::cast<llvm::FixedVectorType>(all->getType())->getNumElements();
  llvm::SmallVector<int, 32> pick;
  for (unsigned k = 0; k < lanes; ++k)
    pick.push_back(static_cast<int>(std::min(i * lanes + k, n)));
  return n == lanes ? all : b.CreateShuffleVector(all, llvm::Constant::getNullValue(all->getType()), pick);
}

NarrowMask narrowMask(llvm::IRBuilder<> &b, const NarrowRegisters &r, V on) {
  V words =
      b.CreateSExt(b.CreateICmpEQ(b.CreateBitCast(on, r.words), llvm::Constant::getAllOnesValue(r.words)), r.words);
  V rest = b.CreateAnd(on, b.CreateNot(b.CreateBitCast(words, r.type)));
  return {words, b.CreateBitCast(b.CreateICmpSLT(rest, llvm::Constant::getNullValue(r.type)), b.getIntNTy(r.lanes))};
}

V loadWords(llvm::IRBuilder<> &b, const NarrowRegisters &r, V at, V words) {
  return b.CreateBitCast(
      b.CreateIntrinsic(r.bytes == 32 ? x86_avx2_maskload_d_256 : x86_avx2_maskload_d, {}, {at, words}), r.type);
}

void storeWords(llvm::IRBuilder<> &b, const NarrowRegisters &r, V x, V at, V words) {
  b.CreateIntrinsic(r.bytes == 32 ? x86_avx2_maskstore_d_256 : x86_avx2_maskstore_d, {},
                    {at, words, b.CreateBitCast(x, r.words)});
}

/// The function (x, at, left) -> x, or of a store nothing, made when it is first called for: a loop over the bits of
/// `left`.
static llvm::Function *leftFunction(llvm::IRBuilder<> &caller, const NarrowRegisters &r, bool load) {
  llvm::LLVMContext &c = caller.getContext();
  llvm::Module *m = caller.GetInsertBlock()->getModule();
  llvm::Type *element = r.type->getElementType(), *bits = caller.getIntNTy(r.lanes);
  const std::string name = (load ? "tegula.load.left.i" : "tegula.store.left.i") +
                           std::to_string(r.type->getScalarSizeInBits()) + "x" + std::to_string(r.lanes);
  if (llvm::Function *f = m->getFunction(name))
    return f;
  auto *type = llvm::FunctionType::get(load ? static_cast<llvm::Type *>(r.type) : caller.getVoidTy(),
                                       {r.type, caller.getPtrTy(), bits}, false);
  auto *f = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, m);
  f->setDoesNotThrow();
  llvm::Argument *x = f->getArg(0), *at = f->getArg(1), *left = f->getArg(2);
  auto *entry = llvm::BasicBlock::Create(c, "entry", f), *one = llvm::BasicBlock::Create(c, "one", f),
       *done = llvm::BasicBlock::Create(c, "done", f);
  llvm::IRBuilder<> b(entry);
  V slot = load ? nullptr : b.CreateAlloca(r.type);
  if (slot)
    b.CreateStore(x, slot);
  b.CreateBr(one);
  b.SetInsertPoint(one);
  llvm::PHINode *now = b.CreatePHI(bits, 2), *sofar = load ? b.CreatePHI(r.type, 2) : nullptr;
  V lane = b.CreateZExt(b.CreateBinaryIntrinsic(cttz, now, b.getTrue()), b.getInt64Ty()),
    there = b.CreateGEP(element, at, lane), all = nullptr;
  if (load) {
    V here = b.CreateICmpEQ(targets::consecutive(element, r.lanes),
                            b.CreateVectorSplat(r.lanes, b.CreateTrunc(lane, element)));
    all =
        b.CreateSelect(here, b.CreateVectorSplat(r.lanes, b.CreateAlignedLoad(element, there, llvm::Align(1))), sofar);
    sofar->addIncoming(x, entry);
    sofar->addIncoming(all, one);
  } else {
    b.CreateAlignedStore(b.CreateLoad(element, b.CreateGEP(element, slot, lane)), there, llvm::Align(1));
  }
  V after = b.CreateAnd(now, b.CreateSub(now, llvm::ConstantInt::get(bits, 1)));
  now->addIncoming(left, entry);
  now->addIncoming(after, one);
  b.CreateCondBr(b.CreateICmpEQ(after, llvm::ConstantInt::get(bits, 0)), done, one);
  b.SetInsertPoint(done);
  load ? b.CreateRet(all) : b.CreateRetVoid();
  return f;
}

V loadLeft(llvm::IRBuilder<> &b, const NarrowRegisters &r, V x, V at, V left) {
  return b.CreateCall(leftFunction(b, r, true), {x, at, left});
}

void storeLeft(llvm::IRBuilder<> &b, const NarrowRegisters &r, V x, V at, V left) {
  b.CreateCall(leftFunction(b, r, false), {x, at, left});
}

} // namespace tegula::cpu
