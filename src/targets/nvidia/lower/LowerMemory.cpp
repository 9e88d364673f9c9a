// Loads and stores of global memory, as wide as the layout and the facts behind `vec` allow.
#include "targets/nvidia/lower/Lower.h"

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
    V x = in_->loadGlobal(pointers[r], type, conjunction(owns, mask ? (*mask)[r] : nullptr), rest, hints(op));
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
