// See EqualAddresses.h.
#include "gpu/layouts/EqualAddresses.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

/// How a value differs between neighbours. None: not at all; Seldom: only where a quotient by a shared number grows;
/// Any: nothing is known.
enum class Change : uint8_t { None, Seldom, Any };

static Change changeOf(const Value *v, const AxisFacts &facts, unsigned &budget) {
  if (v->type.isScalar())
    return Change::None;
  const std::vector<AxisFact> &axes = facts.of(v).axes;
  bool isEqual = true;
  for (unsigned axis = 0; axis < axes.size(); ++axis)
    isEqual &= axes[axis].constancy >= v->type.shape[axis];
  if (isEqual)
    return Change::None;
  if (!v->def || budget == 0)
    return Change::Any;
  --budget;
  const Op &op = *v->def;
  switch (op.kind) {
  case OpKind::SDiv:
  case OpKind::UDiv:
    return changeOf(op.operands[1], facts, budget) == Change::None ? Change::Seldom : Change::Any;
  case OpKind::Add:
  case OpKind::Sub:
  case OpKind::Mul:
  case OpKind::AddPtr:
  case OpKind::SExt:
  case OpKind::ZExt:
  case OpKind::Broadcast:
  case OpKind::ExpandDims: {
    Change most = Change::None;
    for (const Value *o : op.operands)
      most = std::max(most, changeOf(o, facts, budget));
    return most;
  }
  default:
    return Change::Any;
  }
}

bool hasEqualNeighbours(const Op &op, const AxisFacts &facts) {
  if (op.kind != OpKind::Load || !op.operands[0]->type.isTensor() || op.isVolatile())
    return false;
  const std::vector<AxisFact> &axes = facts.of(op.operands[0]).axes;
  if (std::any_of(axes.begin(), axes.end(), [](const AxisFact &a) { return a.contiguity != 1; }))
    return false;
  unsigned budget = 32;
  return std::any_of(axes.begin(), axes.end(), [](const AxisFact &a) { return a.constancy > 1; }) ||
         changeOf(op.operands[0], facts, budget) == Change::Seldom;
}

bool hasUnknownNeighbours(const Op &access, const AxisFacts &facts) {
  const std::vector<AxisFact> &axes = facts.of(access.operands[0]).axes;
  return std::all_of(axes.begin(), axes.end(), [](const AxisFact &a) { return a.contiguity == 1 && a.constancy == 1; });
}

int64_t sameAddresses(const Op &load, const layout::LinearLayout &l, const AxisFacts &facts) {
  if (load.isVolatile())
    return 0;
  int64_t bits = 0;
  for (unsigned i = 0; i < l.inBits(layout::Dim::Register); ++i) {
    bool same = true;
    for (unsigned axis = 0; axis < load.operands[0]->type.shape.rank(); ++axis)
      for (const Value *v : load.operands)
        same &= l.basis(layout::Dim::Register, i, layout::tensorDim(axis)) < facts.of(v, axis).constancy;
    bits |= int64_t{same} << i;
  }
  return bits;
}

} // namespace tegula::gpu
