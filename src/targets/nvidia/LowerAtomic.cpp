// Atomics on global memory, and the operations that go through shared memory element by element: gather, histogram.
#include "targets/nvidia/Lower.h"

namespace tegula::nvidia {

using ir::Elem;
using ir::OpKind;

namespace {

struct RmwRow {
  std::string_view name;
  AtomOp op;
};
constexpr RmwRow rmwTable[] = {{"add", AtomOp::Add},   {"fadd", AtomOp::FAdd}, {"smax", AtomOp::SMax}, {"smin", AtomOp::SMin},
                               {"umax", AtomOp::UMax}, {"umin", AtomOp::UMin}, {"and", AtomOp::And},   {"or", AtomOp::Or},
                               {"xor", AtomOp::Xor},   {"xchg", AtomOp::Xchg}};

MemSem semOf(std::string_view s) {
  return s == "relaxed" ? MemSem::Relaxed : s == "acquire" ? MemSem::Acquire : s == "release" ? MemSem::Release : MemSem::AcqRel;
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
  default:
    return std::nullopt;
  }
}

} // namespace

void Lowering::atomic(const Op &op) {
  bool isCas = op.kind == OpKind::AtomicCas;
  const ir::Type &t = op.result()->type;
  MemSem sem = semOf(op.strAttr("sem", "acq_rel"));
  // What this program did before is visible to whoever sees the atomic, and the other way round: all threads meet.
  if (sem != MemSem::Relaxed)
    barrier();
  else
    orderAccess(op, true);
  in_->setSite(siteOf(op));
  std::optional<AtomType> type = typeOf(t);
  AtomOp what = AtomOp::Cas;
  if (!isCas)
    for (const RmwRow &row : rmwTable)
      if (row.name == op.strAttr("rmw"))
        what = row.op;
  bool isFloat = t.isFloatLike();
  bool exchange = what == AtomOp::Xchg || what == AtomOp::Cas;
  // Exchange and compare work on bits; other combinations of width and operation have no instruction.
  if (type && exchange && isFloat)
    type = ir::bitWidth(t.elem) == 64 ? AtomType::I64 : ir::bitWidth(t.elem) == 32 ? AtomType::I32 : AtomType::I16;
  if (!type || (*type == AtomType::I16 && what != AtomOp::Cas)) {
    fail(op, "no atomic instruction for " + ir::str(t.scalarType()));
    return;
  }
  const Regs &pointers = get(op.operands[0]), &values = get(op.operands[isCas ? 2 : 1]);
  const Regs *mask = !isCas && op.operands.size() > 2 ? &get(op.operands[2]) : nullptr;
  V owns = ownsElements(t.layout);
  unsigned free = t.layout ? m_.layoutOf(t).freeMask(layout::Dim::Register) : 0;
  Regs old;
  for (unsigned r = 0; r < pointers.size(); ++r) {
    if (r & free) {
      old.push_back(old[r & ~free]);
      continue;
    }
    V value = exchange ? bitsOf(values[r]) : values[r];
    V expected = isCas ? bitsOf(get(op.operands[1])[r]) : nullptr;
    Scope scope = scopeOf(op.strAttr("scope"));
    V pred = conjunction(owns, mask ? (*mask)[r] : nullptr);
    if (what == AtomOp::FAdd && !Instr::hasAtomic(target_, false, what, *type, 1)) {
      old.push_back(addByCompare(pointers[r], value, sem, scope, pred));
      continue;
    }
    Regs got = in_->atomic(false, pointers[r], what, *type, {value}, expected, sem, scope, pred, true);
    old.push_back(exchange ? fromBits(got[0], regType(t)) : got[0]);
  }
  set(op.result(), fromOwners(op, old, t));
  if (sem != MemSem::Relaxed)
    barrier();
}

V Lowering::addByCompare(V pointer, V value, MemSem sem, Scope scope, V pred) {
  llvm::Type *bits = b_.getInt16Ty();
  llvm::BasicBlock *before = b_.GetInsertBlock(), *first = newBlock("add"), *loop = newBlock("try"), *after = newBlock("end");
  pred ? b_.CreateCondBr(pred, first, after) : b_.CreateBr(first);
  b_.SetInsertPoint(first);
  V addend = vec_->widen(value, Elem::BF16);
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  // The first guess is as good as any: a wrong one brings what is there.
  llvm::PHINode *guess = b_.CreatePHI(bits, 2);
  guess->addIncoming(llvm::ConstantInt::get(bits, 0), first);
  // Single precision holds the sum exactly enough that rounding it once more rounds right.
  V sum = vec_->narrow(b_.CreateFAdd(vec_->widen(guess, Elem::BF16), addend), Elem::BF16);
  V there = in_->atomic(false, pointer, AtomOp::Cas, AtomType::I16, {sum}, guess, sem, scope, nullptr, true)[0];
  guess->addIncoming(there, b_.GetInsertBlock());
  V done = b_.CreateICmpEQ(there, guess);
  llvm::BasicBlock *last = b_.GetInsertBlock();
  b_.CreateCondBr(done, after, loop);
  b_.SetInsertPoint(after);
  llvm::PHINode *old = b_.CreatePHI(bits, 2);
  if (pred)
    old->addIncoming(llvm::PoisonValue::get(bits), before);
  old->addIncoming(there, last);
  return old;
}

Regs Lowering::fromOwners(const Op &op, const Regs &x, const ir::Type &t) {
  if (!ownsElements(t.layout))
    return x;
  unsigned bytes = t.isPtr ? 8 : ir::byteWidth(t.elem);
  V memory = scratch(op, static_cast<uint64_t>(t.isScalar() ? 1 : t.numel()) * bytes);
  V owns = ownsElements(t.layout);
  auto address = [&](unsigned r) { return t.isScalar() ? memory : sharedAt(memory, flatIndex(t.layout, r), bytes); };
  for (unsigned r = 0; r < x.size(); ++r)
    storeElement(address(r), x[r], t, owns);
  barrier();
  Regs out;
  for (unsigned r = 0; r < x.size(); ++r)
    out.push_back(loadElement(address(r), t));
  return out;
}

void Lowering::gather(const Op &op) {
  const ir::Type &from = op.operands[0]->type, &t = op.result()->type;
  unsigned bytes = from.isPtr ? 8 : ir::byteWidth(from.elem);
  auto axis = static_cast<unsigned>(op.intAttr("axis"));
  V memory = scratch(op, static_cast<uint64_t>(from.numel()) * bytes);
  V owns = ownsElements(from.layout);
  const Regs &source = get(op.operands[0]), &index = get(op.operands[1]);
  for (unsigned r = 0; r < source.size(); ++r)
    storeElement(sharedAt(memory, flatIndex(from.layout, r), bytes), source[r], from, owns);
  barrier();
  uint64_t inner = 1;
  for (unsigned k = axis + 1; k < from.shape.rank(); ++k)
    inner *= static_cast<uint64_t>(from.shape[k]);
  Regs out;
  for (unsigned r = 0; r < index.size(); ++r) {
    // Coordinates are the index tensor's, but along the axis; an index outside the source counts modulo the extent.
    V i = b_.CreateAnd(b_.CreateZExtOrTrunc(index[r], b_.getInt32Ty()), b_.getInt32(static_cast<uint32_t>(from.shape[axis] - 1)));
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
  V memory = scratch(op, count * 4);
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
    in_->atomic(true, sharedAt(memory, bin, 4), AtomOp::Add, AtomType::I32, {b_.getInt32(1)}, nullptr, MemSem::Relaxed, Scope::Cta, pred, false);
  }
  barrier();
  Regs out;
  for (unsigned r = 0; r < registersOf(bins); ++r)
    out.push_back(in_->loadShared(sharedAt(memory, flatIndex(bins.layout, r), 4), b_.getInt32Ty()));
  set(op.result(), std::move(out));
}

} // namespace tegula::nvidia
