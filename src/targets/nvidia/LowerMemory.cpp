// Loads and stores of global memory, as wide as the layout and the facts behind `vec` allow.
#include "targets/nvidia/Lower.h"

namespace tegula::nvidia {

using ir::OpKind;

bool Lowering::isCopied(int arg, bool isWhole) const {
  return isCluster() && llvm::any_of(copied_, [&](const Seen &s) { return mayBeSame(s.arg, arg) || (isWhole && s.isWhole); });
}

/// Program order between accesses of different threads. Two accesses through different arguments are taken to be of
/// different memory or (in-place element-wise kernels) of the same element by the same thread. In a cluster that is so of what is shared out
/// only: what is not all CTAs read and the first one writes. Two accesses through one pointer are of the same elements by the same threads,
/// unless several threads hold copies of an element (scalars, small tensors): all of them read it, but only one writes it.
void Lowering::orderAccess(const Op &op, bool writes) {
  const Value *pointer = op.operands[0];
  int arg = baseArgument(pointer);
  if (llvm::any_of(bulkWrites_, [&](const BulkWrite &w) { return mayBeSame(w.arg, arg); }))
    finishBulkStores();
  bool isWhole = op.intAttr("whole") != 0, hasCopies = ownsElements(pointer->type.layout) != nullptr;
  auto isBefore = [&](const Seen &s) {
    bool isSameThread = s.pointer == pointer && (!hasCopies || (s.writes && writes));
    bool isOther = mayBeSame(s.arg, arg) && !isSameThread && s.tiled != &op;
    return (s.writes || writes) && (isOther || (isWhole && s.isWhole));
  };
  if ((writes && isCopied(arg, isWhole)) || llvm::any_of(seen_, isBefore))
    meet();
  seen_.push_back({arg, pointer, writes, op.intAttr("tiled") ? &op : nullptr, isWhole});
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
