// Effects of operations, regions included; surgery on carried values.
#include "passes/Effects.h"
#include <algorithm>

namespace tegula {

using namespace ir;

namespace {

template <typename F> bool anyNested(const Op &op, F &&test) {
  for (const Region *r : op.regions)
    for (const Op *o : r->block->ops)
      if (test(*o))
        return true;
  return false;
}

bool readsMemory(const Op &op) { return op.has(traits::Reads) || anyNested(op, readsMemory); }

void eraseIndexed(std::vector<Value *> &list, size_t i) {
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
  for (; i < list.size(); ++i)
    --list[i]->index;
}

void eraseOperand(Op &op, size_t i) { op.operands.erase(op.operands.begin() + static_cast<std::ptrdiff_t>(i)); }

} // namespace

bool writesMemory(const Op &op) {
  switch (op.kind) {
  case OpKind::Print: case OpKind::Assert: case OpKind::Assume: return false;
  default: return op.has(traits::Writes) || anyNested(op, writesMemory);
  }
}

bool isRemovable(const Op &op) {
  if (op.has(traits::Writes | traits::Terminator))
    return false;
  if (op.kind == OpKind::Load)
    return !op.isVolatile();
  if (op.kind == OpKind::While && readsMemory(op))
    return false;
  return !anyNested(op, [](const Op &o) { return !o.has(traits::Terminator) && !isRemovable(o); });
}

bool isPure(const Op &op) {
  if (!op.has(traits::Pure))
    return false;
  return !anyNested(op, [](const Op &o) { return !o.has(traits::Terminator) && !isPure(o); });
}

bool isUnhinted(std::span<const Attr> attrs) {
  return std::none_of(attrs.begin(), attrs.end(), [](const Attr &a) { return isHint(a.key); });
}

void eraseCarried(Op &op, unsigned i) {
  eraseIndexed(op.results, i);
  switch (op.kind) {
  case OpKind::For:
    eraseOperand(op, i + 3);
    eraseIndexed(op.region(0)->args, i + 1);
    eraseOperand(*op.region(0)->terminator(), i);
    break;
  case OpKind::While:
    eraseOperand(op, i);
    eraseIndexed(op.region(0)->args, i);
    eraseIndexed(op.region(1)->args, i);
    eraseOperand(*op.region(0)->terminator(), i + 1);
    eraseOperand(*op.region(1)->terminator(), i);
    break;
  default:
    assert(op.kind == OpKind::If);
    eraseOperand(*op.region(0)->terminator(), i);
    eraseOperand(*op.region(1)->terminator(), i);
  }
}

} // namespace tegula
