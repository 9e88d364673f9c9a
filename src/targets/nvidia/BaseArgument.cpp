// See BaseArgument.h.
#include "targets/nvidia/BaseArgument.h"
#include <unordered_set>
#include <vector>

namespace tegula::nvidia {

using namespace ir;

int baseArgument(const Value *p, const Function &f) {
  std::vector<const Value *> work{p};
  std::unordered_set<const Value *> seen; // carried values
  int base = -1;
  while (!work.empty()) {
    const Value *v = work.back();
    work.pop_back();
    if (!v)
      return -1;
    if (v->def) {
      switch (v->def->kind) {
      case OpKind::AddPtr:
      case OpKind::Splat:
      case OpKind::Unsplat:
      case OpKind::Broadcast:
      case OpKind::ExpandDims:
      case OpKind::Reshape:
      case OpKind::Permute:
      case OpKind::Convert:
      case OpKind::Bitcast:
        work.push_back(v->def->operands[0]);
        continue;
      case OpKind::For:
        work.push_back(v->def->region(0)->args[1 + v->index]);
        continue;
      default:
        return -1;
      }
    }
    if (v->block == f.block()) {
      if (base >= 0 && base != static_cast<int>(v->index))
        return -1;
      base = static_cast<int>(v->index);
      continue;
    }
    // Loops carry pointers on: what they start from, and what comes around.
    if (!seen.insert(v).second)
      continue;
    const Op *owner = v->block->parent->op;
    if (owner->kind == OpKind::For && v->index > 0) {
      work.push_back(owner->operands[v->index + 2]);
      work.push_back(owner->region(0)->terminator()->operands[v->index - 1]);
    } else if (owner->kind == OpKind::While && v->block == owner->region(1)) {
      work.push_back(owner->region(0)->terminator()->operands[v->index + 1]);
    } else if (owner->kind == OpKind::While) {
      work.push_back(owner->operands[v->index]);
      work.push_back(owner->region(1)->terminator()->operands[v->index]);
    } else {
      return -1;
    }
  }
  return base;
}

} // namespace tegula::nvidia
