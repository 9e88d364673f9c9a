// Atomics on global memory, and the operations that go through shared memory element by element: gather, histogram.
#include "targets/nvidia/lower/LowerPart.h"

namespace tegula::nvidia {

using ir::Elem;
using ir::OpKind;

namespace {

/// What one atomic of the kernel becomes.
struct Atomic {
  AtomOp op = AtomOp::Cas;
  AtomType type = AtomType::I32;
  MemSem sem = MemSem::AcqRel;
  Scope scope = Scope::Gpu;
  bool isExchange = false; // or compare-and-swap: works on bits
  bool isPlain = false;    // a load or a store
  bool wantOld = true;
  bool byCompare = false;  // no instruction: a loop around compare-and-swap
};

struct RmwRow {
  std::string_view name;
  AtomOp op;
};
constexpr RmwRow rmwTable[] = {{"add", AtomOp::Add},   {"fadd", AtomOp::FAdd},  {"smax", AtomOp::SMax},
                               {"smin", AtomOp::SMin}, {"umax", AtomOp::UMax},  {"umin", AtomOp::UMin},
                               {"and", AtomOp::And},   {"or", AtomOp::Or},      {"xor", AtomOp::Xor},
                               {"xchg", AtomOp::Xchg}, {"fmin", AtomOp::SMin},  {"fmax", AtomOp::SMax},
                               {"load", AtomOp::Load}, {"store", AtomOp::Store}};

MemSem semOf(std::string_view s) {
  return s == "relaxed"   ? MemSem::Relaxed
         : s == "acquire" ? MemSem::Acquire
         : s == "release" ? MemSem::Release
                          : MemSem::AcqRel;
}
Scope scopeOf(std::string_view s) { return s == "cta" ? Scope::Cta : s == "sys" ? Scope::Sys : Scope::Gpu; }

std::optional<AtomType> typeOf(const ir::Type &t) {
  if (t.isPtr)
    return AtomType::I64;
  switch (t.elem) {
  case Elem::I32:
    return AtomType::I32;
  case Elem::I64:
    return AtomType::I64;
  case Elem::F16:
    return AtomType::F16;
  case Elem::BF16:
    return AtomType::BF16;
  case Elem::F32:
    return AtomType::F32;
  case Elem::F64:
    return AtomType::F64;
  case Elem::I16:
    return AtomType::I16;
  case Elem::I8:
    return AtomType::I8;
  default:
    return std::nullopt;
  }
}

} // namespace

struct Lowering::Atomics : Part {
  using Part::Part;
  static std::optional<Atomic> atomicOf(const Op &op);
  void atomic(const Op &op);
  /// One instruction for `vec` registers after the other; the old values, if they are wanted.
  Regs atomics(const Op &op, const Atomic &a, unsigned vec);
  /// One float of 16 bits or an aligned pair where there is no instruction: by compare-and-swap until nobody came
  /// between. The old values. Gives no order: that is the caller's.
  Regs byCompare(const Atomic &a, Elem e, V pointer, const Regs &values, V pred);
};

void Lowering::atomic(const Op &op) { Atomics(*this).atomic(op); }

AtomOp Lowering::atomOp(std::string_view rmw) {
  for (const RmwRow &row : rmwTable)
    if (row.name == rmw)
      return row.op;
  llvm_unreachable("the verifier knows the names");
}

/// Operation and type of the instruction; nullopt where the hardware has none and no way around is known.
std::optional<Atomic> Lowering::Atomics::atomicOf(const Op &op) {
  Atomic a;
  const ir::Type &t = op.result()->type;
  std::optional<AtomType> type = typeOf(t);
  if (op.kind == OpKind::AtomicRmw)
    for (const RmwRow &row : rmwTable)
      if (row.name == op.rmw())
        a.op = row.op;
  a.isExchange = a.op == AtomOp::Xchg || a.op == AtomOp::Cas;
  // Exchange and compare work on bits.
  if (type && a.isExchange && t.isFloatLike())
    type = ir::bitWidth(t.elem) == 64 ? AtomType::I64 : ir::bitWidth(t.elem) == 32 ? AtomType::I32 : AtomType::I16;
  a.isPlain = a.op == AtomOp::Load || a.op == AtomOp::Store;
  if (!type || (*type == AtomType::I16 && a.op != AtomOp::Cas && !a.isPlain) || (*type == AtomType::I8 && !a.isPlain))
    return std::nullopt;
  a.type = *type;
  a.sem = semOf(op.get(ir::attr::sem, a.op == AtomOp::Load    ? "acquire"
                                      : a.op == AtomOp::Store ? "release"
                                                              : "acq_rel"));
  a.scope = scopeOf(op.scope());
  return a;
}

void Lowering::Atomics::atomic(const Op &op) {
  std::optional<Atomic> a = atomicOf(op);
  if (!a) {
    frame_.fail(op, "no atomic instruction for " + ir::str(op.result()->type.scalarType()));
    return;
  }
  in_->setSite(frame_.siteOf(op));
  auto vec = static_cast<unsigned>(op.vec());
  a->wantOld = !frame_.users_.of(op.result()).empty();
  // Who does not look at the old value cannot know whom it came after: there is nothing to acquire. An exchange stays
  // as it is written, as it has no form without a result: locks that are taken by relaxed compare-and-swaps live on its
  // forgetting what the L1 holds.
  if (!a->wantOld && !a->isPlain && !a->isExchange)
    a->sem = a->sem == MemSem::AcqRel ? MemSem::Release : a->sem == MemSem::Acquire ? MemSem::Relaxed : a->sem;
  a->byCompare =
      !a->isExchange && op.result()->type.isFloatLike() && !Instr::hasAtomic(target_, false, a->op, a->type, vec);
  // One fence before many instructions and one after them instead of two around each.
  MemSem sem = a->sem;
  bool isFenced = sem != MemSem::Relaxed && (get(op.operands[0]).size() > vec || a->byCompare);
  if (isFenced) {
    a->sem = MemSem::Relaxed;
    if (sem != MemSem::Acquire)
      in_->memoryFence(a->scope);
  }
  Regs old = atomics(op, *a, vec);
  if (isFenced && sem != MemSem::Release)
    in_->memoryFence(a->scope);
  if (a->wantOld)
    set(op.result(), frame_.fromOwners(op, old));
}

Regs Lowering::Atomics::atomics(const Op &op, const Atomic &a, unsigned vec) {
  const ir::Type &t = op.result()->type;
  bool isCas = a.op == AtomOp::Cas;
  const Regs &pointers = get(op.operands[0]), &values = get(op.operands[isCas ? 2 : 1]);
  const Regs *mask = op.mask() ? &get(op.mask()) : nullptr;
  V owns = frame_.conjunction(frame_.ownsElements(t.layout), frame_.isDoneHere(op));
  unsigned free = t.layout ? m_.layoutOf(t).freeMask(layout::Dim::Register) : 0;
  Regs old;
  for (unsigned r = 0; r < pointers.size(); r += vec) {
    if (r & free) {
      for (unsigned i = 0; i < vec && a.wantOld; ++i)
        old.push_back(old[(r + i) & ~free]);
      continue;
    }
    Regs x;
    for (unsigned i = 0; i < vec; ++i)
      x.push_back(a.isExchange ? frame_.bitsOf(values[r + i]) : values[r + i]);
    V expected = isCas ? frame_.bitsOf(get(op.operands[1])[r]) : nullptr;
    V pred = frame_.conjunction(owns, mask ? (*mask)[r] : nullptr);
    Regs got = a.byCompare
                   ? byCompare(a, t.elem, pointers[r], x, pred)
                   : in_->atomic(false, pointers[r], a.op, a.type, x, expected, a.sem, a.scope, pred, a.wantOld);
    for (unsigned i = 0; i < vec && a.wantOld; ++i)
      old.push_back(a.isExchange ? frame_.fromBits(got[i], frame_.regType(t)) : got[i]);
  }
  return old;
}

void Lowering::reduceElement(const Op &op, V pointer, V x, V pred) {
  const ir::Type &t = op.operands.back()->type;
  Atomic a{atomOp(op.rmw()), *typeOf(t), MemSem::Relaxed, Scope::Gpu, false, false, false};
  if (t.isFloatLike() && !Instr::hasAtomic(target_, false, a.op, a.type, 1))
    Atomics(*this).byCompare(a, t.elem, pointer, {x}, pred);
  else
    in_->atomic(false, pointer, a.op, a.type, {x}, nullptr, a.sem, a.scope, pred, false);
}

Regs Lowering::Atomics::byCompare(const Atomic &a, Elem e, V pointer, const Regs &values, V pred) {
  OpKind what = a.op == AtomOp::FAdd ? OpKind::FAdd : a.op == AtomOp::SMin ? OpKind::MinNum : OpKind::MaxNum;
  auto count = static_cast<unsigned>(values.size());
  llvm::Type *half = b_.getInt16Ty(), *bits = b_.getIntNTy(16 * count);
  llvm::BasicBlock *before = b_.GetInsertBlock(), *first = frame_.newBlock("first"), *loop = frame_.newBlock("try"),
                   *after = frame_.newBlock("end");
  pred ? b_.CreateCondBr(pred, first, after) : b_.CreateBr(first);
  b_.SetInsertPoint(first);
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  // The first guess is as good as any: a wrong one brings what is there.
  llvm::PHINode *guess = b_.CreatePHI(bits, 2);
  guess->addIncoming(llvm::ConstantInt::get(bits, 0), first);
  auto element = [&](V word, unsigned i) { return b_.CreateTrunc(i ? b_.CreateLShr(word, 16 * i) : word, half); };
  V sums = llvm::ConstantInt::get(bits, 0);
  for (unsigned i = 0; i < count; ++i) {
    V sum = vec_->narrowOperation(what, element(guess, i), values[i], e);
    sums = b_.CreateOr(sums, b_.CreateShl(b_.CreateZExt(sum, bits), 16 * i));
  }
  AtomType word = count == 1 ? AtomType::I16 : AtomType::I32;
  V there = in_->atomic(false, pointer, AtomOp::Cas, word, {sums}, guess, MemSem::Relaxed, a.scope, nullptr, true)[0];
  guess->addIncoming(there, b_.GetInsertBlock());
  llvm::BasicBlock *last = b_.GetInsertBlock();
  b_.CreateCondBr(b_.CreateICmpEQ(there, guess), after, loop);
  b_.SetInsertPoint(after);
  llvm::PHINode *old = b_.CreatePHI(bits, 2);
  if (pred)
    old->addIncoming(llvm::PoisonValue::get(bits), before);
  old->addIncoming(there, last);
  Regs out;
  for (unsigned i = 0; i < count; ++i)
    out.push_back(element(old, i));
  return out;
}

Regs Lowering::fromOwners(const Op &op, const Regs &x) {
  const ir::Type &t = op.result()->type;
  bool isShared = (isCluster() && op.whole()) || ownsElements(t.layout);
  return isShared ? fromOwners(op, x, t, scratch(op)) : x;
}

Regs Lowering::fromOwners(const Op &op, const Regs &x, const ir::Type &t, V memory) {
  bool isWhole = isCluster() && (op.whole() || t.isScalar()); // the first CTA has them
  unsigned bytes = t.isPtr ? 8 : ir::byteWidth(t.elem);
  V owns = ownsElements(t.layout);
  auto address = [&](unsigned r) { return t.isScalar() ? memory : sharedAt(memory, flatIndex(t.layout, r), bytes); };
  for (unsigned r = 0; r < x.size(); ++r)
    storeElement(address(r), x[r], t, owns);
  isWhole ? meet() : barrier();
  Regs out;
  for (unsigned r = 0; r < x.size(); ++r)
    out.push_back(isWhole ? fromMemory(in_->loadShared(in_->mapShared(address(r), b_.getInt32(0)),
                                                       memType(t.scalarType()), nullptr, nullptr, true),
                                       t)
                          : loadElement(address(r), t));
  return out;
}

void Lowering::gather(const Op &op) {
  const ir::Type &from = op.operands[0]->type, &t = op.result()->type;
  unsigned bytes = from.isPtr ? 8 : ir::byteWidth(from.elem);
  auto axis = static_cast<unsigned>(op.axis());
  const Regs &source = get(op.operands[0]), &index = get(op.operands[1]);
  V memory = from.isShared ? source[0] : scratch(op);
  if (!from.isShared) {
    V owns = ownsElements(from.layout);
    for (unsigned r = 0; r < source.size(); ++r)
      storeElement(sharedAt(memory, flatIndex(from.layout, r), bytes), source[r], from, owns);
    barrier();
  }
  uint64_t inner = 1;
  for (unsigned k = axis + 1; k < from.shape.rank(); ++k)
    inner *= static_cast<uint64_t>(from.shape[k]);
  Regs out;
  for (unsigned r = 0; r < index.size(); ++r) {
    // Coordinates are the index tensor's, but along the axis; an index outside the source counts modulo the extent.
    V i = b_.CreateAnd(b_.CreateZExtOrTrunc(index[r], b_.getInt32Ty()),
                       b_.getInt32(static_cast<uint32_t>(from.shape[axis] - 1)));
    V flat = b_.CreateMul(i, b_.getInt32(static_cast<uint32_t>(inner)));
    uint64_t stride = 1;
    for (unsigned k = from.shape.rank(); k-- > 0; stride *= static_cast<uint64_t>(from.shape[k]))
      if (k != axis)
        flat = b_.CreateAdd(flat, b_.CreateMul(coordinate(t.layout, k, r), b_.getInt32(static_cast<uint32_t>(stride))));
    out.push_back(loadElement(sharedAt(memory, flat, bytes), from));
  }
  set(op.result(), std::move(out));
}

void Lowering::histogram(const Op &op) {
  const ir::Type &t = op.operands[0]->type, &bins = op.result()->type;
  uint64_t count = static_cast<uint64_t>(bins.numel());
  V memory = scratch(op);
  V ownsBins = ownsElements(bins.layout);
  for (unsigned r = 0; r < registersOf(bins); ++r)
    in_->storeShared(sharedAt(memory, flatIndex(bins.layout, r), 4), b_.getInt32(0), ownsBins);
  barrier();
  V owns = ownsElements(t.layout);
  const Regs &values = get(op.operands[0]);
  unsigned free = m_.layoutOf(t).freeMask(layout::Dim::Register);
  for (unsigned r = 0; r < values.size(); ++r) {
    if (r & free)
      continue;
    V inside = b_.CreateICmpULT(values[r], llvm::ConstantInt::get(values[r]->getType(), count));
    if (ir::bitWidth(t.elem) < 64 && count >> ir::bitWidth(t.elem))
      inside = b_.CreateICmpSGE(values[r], llvm::Constant::getNullValue(values[r]->getType()));
    V pred = conjunction(owns, inside);
    if (op.operands.size() > 1)
      pred = b_.CreateAnd(pred, get(op.operands[1])[r]);
    V bin = b_.CreateSelect(inside, b_.CreateZExtOrTrunc(values[r], b_.getInt32Ty()), b_.getInt32(0));
    in_->atomic(true, sharedAt(memory, bin, 4), AtomOp::Add, AtomType::I32, {b_.getInt32(1)}, nullptr, MemSem::Relaxed,
                Scope::Cta, pred, false);
  }
  barrier();
  Regs out;
  for (unsigned r = 0; r < registersOf(bins); ++r)
    out.push_back(in_->loadShared(sharedAt(memory, flatIndex(bins.layout, r), 4), b_.getInt32Ty()));
  set(op.result(), std::move(out));
}

} // namespace tegula::nvidia
