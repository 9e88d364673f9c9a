// See ProgramDependence.h.
#include "gpu/ProgramDependence.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

bool ProgramDependence::of(const Value *v) {
  // Reachability: the visited values are known to be independent only after the whole walk, as loops make cycles.
  std::unordered_set<const Value *> seen;
  if (reaches(v, seen))
    return true;
  independent_.merge(seen);
  return false;
}

bool ProgramDependence::reaches(const Value *v, std::unordered_set<const Value *> &seen) const {
  if (independent_.contains(v) || !seen.insert(v).second)
    return false;
  const auto any = [&](const Value *x) { return reaches(x, seen); };
  const Op *op = v->def ? v->def : v->block->parent->op;
  if (!op)
    return false; // an argument of the kernel
  const size_t i = v->index;
  const bool isResult = v->def;
  const auto ends = [&](unsigned region, size_t operand) {
    const Op *end = op->region(region)->terminator();
    return operand < end->operands.size() && any(end->operands[operand]); // a branch may end the program instead
  };
  switch (op->kind) {
  case OpKind::ProgramId: case OpKind::NumPrograms:
    return true;
  case OpKind::For: {
    if (!isResult && i == 0)
      return any(op->operands[0]) || any(op->operands[2]);
    const size_t carried = isResult ? i : i - 1;
    return any(op->operands[3 + carried]) || ends(0, carried) ||
           (isResult && std::any_of(op->operands.begin(), op->operands.begin() + 3, any));
  }
  case OpKind::While:
    if (!isResult && v->block == op->region(0))
      return any(op->operands[i]) || ends(1, i);
    return ends(0, 1 + i) || (isResult && ends(0, 0));
  case OpKind::If:
    return any(op->operands[0]) || ends(0, i) || ends(1, i);
  default:
    return std::ranges::any_of(op->operands, any); // also for arguments of the combiner of a reduction
  }
}

} // namespace tegula::gpu
