// See BaseArgument.h.
#include "targets/nvidia/BaseArgument.h"

namespace tegula::nvidia {

using namespace ir;

int baseArgument(const Value *p, const Function &f) {
  for (unsigned steps = 0; steps < 1000; ++steps) {
    if (!p->def) {
      if (p->block == f.block())
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

} // namespace tegula::nvidia
