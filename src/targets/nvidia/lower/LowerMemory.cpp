// Loads and stores of global memory, as wide as the layout and the facts after `vec` allow.
#include "targets/nvidia/lower/Lower.h"
#include "llvm/IR/InlineAsm.h"

namespace tegula::nvidia {

using ir::OpKind;

AccessHints Lowering::hints(const Op &op) const {
  AccessHints h;
  std::string_view cache = op.cache(), evict = op.evict();
  constexpr std::pair<std::string_view, Cache> caches[] = {{".ca", Cache::Ca}, {".cg", Cache::Cg}, {".cs", Cache::Cs},
                                                           {".cv", Cache::Cv}, {".wb", Cache::Wb}, {".wt", Cache::Wt}};
  for (auto [text, value] : caches)
    if (cache == text)
      h.cache = value;
  h.evict = evict == "evict_first" ? Evict::First : evict == "evict_last" ? Evict::Last : Evict::None;
  h.isVolatile = op.isVolatile();
  return h;
}

/// Is it a number that positions are compared with, such as the label of a row, and no address, count or condition of
/// branches?
static bool isLabel(const ir::Op &load, const Users &users) {
  const ir::Type &t = load.result()->type;
  if (!t.isScalar() || t.isPtr || (t.elem != ir::Elem::I32 && t.elem != ir::Elem::I64))
    return false;
  constexpr size_t most = 32; // values that are looked at
  llvm::SmallVector<const ir::Value *, 32> seen = {load.result()};
  bool isCompared = false;
  for (size_t i = 0; i < seen.size(); ++i)
    for (const ir::Op *user : users.of(seen[i])) {
      const bool isMask = user->maskAt() && user->mask() == seen[i];
      if (isMask)
        continue;
      if (!user->has(ir::traits::Elementwise) && user->kind != OpKind::Splat && user->kind != OpKind::Broadcast &&
          user->kind != OpKind::ExpandDims)
        return false;
      const ir::Value *result = user->result();
      if (result->type.isPtr || seen.size() == most)
        return false;
      isCompared |= user->kind == OpKind::CmpI && result->type.isTensor();
      if (result->type.isIntLike() && !llvm::is_contained(seen, result))
        seen.push_back(result);
    }
  return isCompared;
}

V Lowering::zeroOfThread() {
  if (!zeroOfThread_) {
    llvm::IRBuilder<>::InsertPointGuard guard(b_);
    b_.SetInsertPoint(function_->getEntryBlock().getTerminator());
    auto *type = llvm::FunctionType::get(b_.getInt32Ty(), false);
    V zero = b_.CreateCall(
        llvm::InlineAsm::get(type, "mov.u32 $0, %nctaid.x;\n\tshr.u32 $0, $0, 31;", "=r", /*hasSideEffects=*/false));
    zeroOfThread_ = b_.CreateAnd(in_->special(Special::Tid), zero);
  }
  return zeroOfThread_;
}

void Lowering::load(const Op &op) {
  in_->setSite(siteOf(op));
  const ir::Type &t = op.result()->type;
  const Regs &pointers = get(op.operands[0]);
  const Regs *mask = op.operands.size() > 1 ? &get(op.operands[1]) : nullptr;
  const Regs *other = op.operands.size() > 2 ? &get(op.operands[2]) : nullptr;
  auto vec = static_cast<unsigned>(op.vec());
  llvm::Type *memory = memType(t.scalarType()), *type = vec == 1 ? memory : llvm::FixedVectorType::get(memory, vec);
  auto same = static_cast<unsigned>(op.same());
  const bool byOwners = placeOf(op).size() != 0;
  V owns = byOwners ? conjunction(ownsElements(t.layout), isDoneHere(op)) : nullptr;
  Regs out;
  for (unsigned r = 0; r < pointers.size(); r += vec) {
    if (r & same) {
      for (unsigned i = 0; i < vec; ++i)
        out.push_back(out[(r & ~same) + i]);
      continue;
    }
    V rest = nullptr;
    if (other) {
      rest = vec == 1 ? toMemory((*other)[r]) : llvm::PoisonValue::get(type);
      for (unsigned i = 0; vec > 1 && i < vec; ++i)
        rest = b_.CreateInsertElement(rest, toMemory((*other)[r + i]), i);
    } else if (mask || owns) {
      rest = llvm::Constant::getNullValue(type);
    }
    // What is the same in all threads is moved to uniform registers, which waits for it before loads that could be
    // under way.
    V pointer = !target_.simulate && isLabel(op, users_)
                    ? b_.CreateGEP(b_.getInt8Ty(), pointers[r], b_.CreateZExt(zeroOfThread(), b_.getInt64Ty()))
                    : V(pointers[r]);
    V x = in_->loadGlobal(pointer, type, conjunction(owns, mask ? (*mask)[r] : nullptr), rest, hints(op));
    for (unsigned i = 0; i < vec; ++i)
      out.push_back(fromMemory(vec == 1 ? x : b_.CreateExtractElement(x, i), t));
  }
  set(op.result(), byOwners ? fromOwners(op, out) : std::move(out));
}

void Lowering::store(const Op &op) {
  in_->setSite(siteOf(op));
  const ir::Type &t = op.operands[1]->type;
  const Regs &pointers = get(op.operands[0]), &values = get(op.operands[1]);
  const Regs *mask = op.operands.size() > 2 ? &get(op.operands[2]) : nullptr;
  auto vec = static_cast<unsigned>(op.vec());
  llvm::Type *memory = memType(t.scalarType());
  V owns = conjunction(ownsElements(t.layout), isDoneHere(op));
  unsigned free = t.layout ? m_.layoutOf(t).freeMask(layout::Dim::Register) : 0;
  for (unsigned r = 0; r < pointers.size(); r += vec) {
    if (r & free)
      continue;
    V x = vec == 1 ? toMemory(values[r]) : llvm::PoisonValue::get(llvm::FixedVectorType::get(memory, vec));
    for (unsigned i = 0; vec > 1 && i < vec; ++i)
      x = b_.CreateInsertElement(x, toMemory(values[r + i]), i);
    in_->storeGlobal(pointers[r], x, conjunction(owns, mask ? (*mask)[r] : nullptr), hints(op));
  }
}

} // namespace tegula::nvidia
