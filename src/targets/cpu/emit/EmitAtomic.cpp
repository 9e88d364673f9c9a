// Atomics and histogram, one element at a time; non-atomic updates for launches that run alone.
#include "abi/CpuAbi.h"
#include "targets/cpu/emit/Emitter.h"

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
    b_.CreateAlignedStore(toWord(args[0]), pointer, align)
        ->setAtomic(order == llvm::AtomicOrdering::AcquireRelease ? llvm::AtomicOrdering::Release : order);
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

/// May the update be non-atomic if no other code with atomics runs? Not with scope `sys`, for memory that host threads
/// or other processes read.
static bool mayBePlain(const Op &op) {
  if (op.kind != OpKind::AtomicRmw || !op.operands[0]->type.isTensor() || op.get(ir::attr::scope, "gpu") == "sys")
    return false;
  const ir::Type &t = op.results[0]->type;
  auto rmw = op.rmw();
  return !t.isPtr && t.elem != ir::Elem::I1 && (binOp(rmw) || rmw == "fmin" || rmw == "fmax");
}

/// Atomics in `b`: any, and such for which mayBePlain() holds.
static void findAtomics(const ir::Block &b, bool &any, bool &plain) {
  for (const Op *op : b.ops) {
    any |= op->kind == OpKind::AtomicRmw || op->kind == OpKind::AtomicCas || op->kind == OpKind::AsmEffect;
    plain |= mayBePlain(*op);
    for (const ir::Region *r : op->regions)
      findAtomics(*r->block, any, plain);
  }
}

// A lock costs 5 ns an element and allows no vectors, so the runtime is asked whether anybody could notice
// (TegulaCpuLaunch::atomics). In the entry block.
void FunctionEmitter::askAlone() {
  bool any = false, plain = false, here = false, hereToo = false;
  for (const auto &f : state_.source.functions)
    findAtomics(*f->block(), any, plain);
  findAtomics(*plan_.function->block(), here, hereToo);
  if (!any || state_.options.checked)
    return;
  V at = b_.CreateConstGEP1_64(b_.getInt8Ty(), launch_, offsetof(TegulaCpuLaunch, flags));
  auto has = [&](int32_t flag) {
    return b_.CreateICmpNE(b_.CreateAnd(b_.CreateLoad(b_.getInt32Ty(), at), b_.getInt32(static_cast<uint32_t>(flag))),
                           b_.getInt32(0));
  };
  if (plan_.function->isKernel) {
    auto *ask = llvm::BasicBlock::Create(context_, "ask", function_);
    auto *on = llvm::BasicBlock::Create(context_, "asked", function_);
    b_.CreateCondBr(has(TEGULA_LAUNCH_ATOMICS), ask, on);
    b_.SetInsertPoint(ask);
    callRuntime(offsetof(TegulaCpuLaunch, atomics), {b_.getInt32(plain)});
    b_.CreateBr(on);
    b_.SetInsertPoint(on);
  }
  if (hereToo)
    alone_ = has(TEGULA_LAUNCH_ALONE);
}

// An atomic in two forms: plain reads and writes (update()), and for launches that are not alone element by element.
// False if it has only one.
bool FunctionEmitter::atomicStep(const Step &s) {
  const Nest &nest = *s.nest;
  if (!alone_ || nest.roots.size() != 1 || nest.roots[0].kind != RootKind::Atomic || !mayBePlain(*nest.roots[0].op))
    return false;
  Nest plain = nest;
  plain.roots[0].kind = RootKind::Update;
  plain.sequential = false;
  llvm::BasicBlock *forms[2] = {llvm::BasicBlock::Create(context_, "alone", function_),
                                llvm::BasicBlock::Create(context_, "atomic", function_)};
  auto *after = llvm::BasicBlock::Create(context_, "updated", function_);
  b_.CreateCondBr(alone_, forms[0], forms[1]);
  for (unsigned i = 0; i < 2; ++i) {
    b_.SetInsertPoint(forms[i]);
    NestState state;
    state.nest = i ? &nest : &plain;
    runNest(state);
    b_.CreateBr(after);
  }
  b_.SetInsertPoint(after);
  return true;
}

V FunctionEmitter::updated(const Op &op, V old, V x) {
  const ir::Elem e = op.results[0]->type.elem;
  auto rmw = op.rmw();
  using B = llvm::AtomicRMWInst;
  if (ir::isFloat(e) && rmw != "xchg" && (rmw != "fadd" || ir::bitWidth(e) <= 16))
    return vec_.narrowOperation(rmw == "fadd"   ? OpKind::FAdd
                                : rmw == "fmin" ? OpKind::MinNum
                                                : OpKind::MaxNum,
                                old, x, e);
  switch (*binOp(rmw)) {
  case B::FAdd: return b_.CreateFAdd(old, x);
  case B::Add: return b_.CreateAdd(old, x);
  case B::And: return b_.CreateAnd(old, x);
  case B::Or: return b_.CreateOr(old, x);
  case B::Xor: return b_.CreateXor(old, x);
  case B::Max: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, old, x);
  case B::Min: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, old, x);
  case B::UMax: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, old, x);
  case B::UMin: return b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, old, x);
  default: return x;
  }
}

// Vectors at once where their elements are next to one another, so that no two are one, in any case or in a run of flat
// positions. Else their addresses and operands are vectors, and the elements are updated one after the other.
void FunctionEmitter::update(const Op &op, const Bits &at) {
  const ir::Type t = op.results[0]->type.scalarType();
  V x = eval(op.operands[1], at), mask = op.mask() ? eval(op.operands[2], at) : nullptr;
  LaneAddress a = addressOf(op.operands[0], at);
  setLoc(&op);
  const unsigned lanes = nest_->lanes();
  bool neighbours = !a.extra;
  for (unsigned i = 0; i < nest_->laneBits; ++i)
    neighbours &= a.lane[i] == Coef{int64_t(std::max(1u, ir::byteWidth(t.elem))) << i};
  if (nest_->onlyLanes)
    mask = mask ? b_.CreateAnd(nest_->onlyLanes, broadcast(mask, lanes)) : nest_->onlyLanes;
  auto all = [&](V where) {
    V old = broadcast(loadLanes(a, t, where, nullptr, false, &op), lanes);
    storeLanes(a, updated(op, old, broadcast(x, lanes)), t, where, false, nullptr);
    return old;
  };
  V old = nullptr;
  if (mask && lanes == 1)
    old = ifThen(mask, regType(t), [&] { return all(nullptr); });
  else
    old = neighbours ? all(mask)
                     : updateOneByOne(op, pointers(a), broadcast(x, lanes), mask ? broadcast(mask, lanes) : nullptr);
  if (int b = plan_.bufferFor(op.results[0]); b >= 0)
    storeBuffer(b, old, op.results[0]->type, at);
}

// A loop over the lanes, through the stack, in order, as several lanes may update one element. Masked-off lanes update
// unused memory.
V FunctionEmitter::updateOneByOne(const Op &op, V pointers, V x, V mask) {
  const ir::Type t = op.results[0]->type.scalarType();
  const unsigned lanes = nest_->lanes();
  auto *bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), lanes);
  V from = onStack(pointers->getType()), with = onStack(x->getType()), on = mask ? onStack(bytes) : nullptr;
  b_.CreateStore(pointers, from);
  b_.CreateStore(x, with);
  if (mask)
    b_.CreateStore(b_.CreateZExt(mask, bytes), on);
  const llvm::Align align(std::max(1u, ir::byteWidth(t.elem)));
  eachLane(lanes, "update", "updated", [&](V i) {
    V at = b_.CreateLoad(b_.getPtrTy(), b_.CreateGEP(b_.getPtrTy(), from, i));
    V operand = b_.CreateGEP(x->getType()->getScalarType(), with, i);
    if (mask)
      at = whereOn(at,
                   b_.CreateTrunc(b_.CreateLoad(b_.getInt8Ty(), b_.CreateGEP(b_.getInt8Ty(), on, i)), b_.getInt1Ty()));
    V old = fromMemory(b_.CreateAlignedLoad(memType(t), at, align), t);
    b_.CreateAlignedStore(toMemory(updated(op, old, b_.CreateLoad(x->getType()->getScalarType(), operand)), t), at,
                          align);
    b_.CreateStore(old, operand); // what was there takes the place of the operand
  });
  V all = b_.CreateLoad(x->getType(), with);
  return mask ? b_.CreateSelect(mask, all, llvm::Constant::getNullValue(x->getType())) : all;
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
