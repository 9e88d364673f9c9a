// Loads and stores of global memory, as wide as the layout and the facts behind `vec` allow.
#include "targets/nvidia/Lower.h"

namespace tegula::nvidia {

using ir::OpKind;

/// The pointer argument an address is derived from, -1 if unknown.
int Lowering::baseArgument(const Value *p) const {
  for (unsigned steps = 0; steps < 1000; ++steps) {
    if (!p->def) {
      if (p->block == source_->block())
        return static_cast<int>(p->index);
      const Op *owner = p->block->parent->op;
      // Loops carry pointers on: what they start from.
      size_t first = owner->kind == OpKind::For ? 2 : 0;
      if (owner->kind == OpKind::For ? p->index == 0 : owner->kind != OpKind::While)
        return -1;
      if (owner->kind == OpKind::While && p->block == owner->region(1))
        p = owner->region(0)->terminator()->operands[p->index + 1];
      else
        p = owner->operands[p->index + first];
      continue;
    }
    switch (p->def->kind) {
    case OpKind::AddPtr:
    case OpKind::Splat:
    case OpKind::Unsplat:
    case OpKind::Broadcast:
    case OpKind::ExpandDims:
    case OpKind::Reshape:
    case OpKind::Permute:
    case OpKind::Convert:
    case OpKind::Bitcast:
      p = p->def->operands[0];
      continue;
    case OpKind::For:
      p = p->def->operands[p->index + 3];
      continue;
    default:
      return -1;
    }
  }
  return -1;
}

/// Program order between accesses of different threads. Two accesses through different arguments are taken to be of
/// different memory or (in-place element-wise kernels) of the same element by the same thread.
void Lowering::orderAccess(const Op &op, bool writes) {
  const Value *pointer = op.operands[0];
  int arg = baseArgument(pointer);
  for (const Seen &s : seen_)
    if ((s.writes || writes) && (s.arg < 0 || arg < 0 || s.arg == arg) && s.pointer != pointer) {
      barrier();
      break;
    }
  seen_.push_back({arg, pointer, writes});
}

AccessHints Lowering::hints(const Op &op) const {
  AccessHints h;
  std::string_view cache = op.strAttr("cache"), evict = op.strAttr("evict");
  constexpr std::pair<std::string_view, Cache> caches[] = {{".ca", Cache::Ca}, {".cg", Cache::Cg}, {".cs", Cache::Cs},
                                                           {".cv", Cache::Cv}, {".wb", Cache::Wb}, {".wt", Cache::Wt}};
  for (auto [text, value] : caches)
    if (cache == text)
      h.cache = value;
  h.evict = evict == "evict_first" ? Evict::First : evict == "evict_last" ? Evict::Last : Evict::None;
  h.isVolatile = op.intAttr("volatile") != 0;
  return h;
}

void Lowering::load(const Op &op) {
  orderAccess(op, false);
  in_->setSite(siteOf(op));
  const ir::Type &t = op.result()->type;
  const Regs &pointers = get(op.operands[0]);
  const Regs *mask = op.operands.size() > 1 ? &get(op.operands[1]) : nullptr;
  const Regs *other = op.operands.size() > 2 ? &get(op.operands[2]) : nullptr;
  auto vec = static_cast<unsigned>(op.intAttr("vec", 1));
  llvm::Type *memory = memType(t.scalarType()), *type = vec == 1 ? memory : llvm::FixedVectorType::get(memory, vec);
  Regs out;
  for (unsigned r = 0; r < pointers.size(); r += vec) {
    V rest = nullptr;
    if (other) {
      rest = vec == 1 ? toMemory((*other)[r]) : llvm::PoisonValue::get(type);
      for (unsigned i = 0; vec > 1 && i < vec; ++i)
        rest = b_.CreateInsertElement(rest, toMemory((*other)[r + i]), i);
    } else if (mask) {
      rest = llvm::Constant::getNullValue(type);
    }
    V x = in_->loadGlobal(pointers[r], type, mask ? (*mask)[r] : nullptr, rest, hints(op));
    for (unsigned i = 0; i < vec; ++i)
      out.push_back(fromMemory(vec == 1 ? x : b_.CreateExtractElement(x, i), t));
  }
  set(op.result(), std::move(out));
}

void Lowering::store(const Op &op) {
  orderAccess(op, true);
  in_->setSite(siteOf(op));
  const ir::Type &t = op.operands[1]->type;
  const Regs &pointers = get(op.operands[0]), &values = get(op.operands[1]);
  const Regs *mask = op.operands.size() > 2 ? &get(op.operands[2]) : nullptr;
  auto vec = static_cast<unsigned>(op.intAttr("vec", 1));
  llvm::Type *memory = memType(t.scalarType());
  V owns = ownsElements(t.layout);
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
