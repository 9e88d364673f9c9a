// See EqualAddresses.h.
#include "gpu/layouts/EqualAddresses.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

bool hasEqualNeighbours(const Op &op, const AxisFacts &facts) {
  if (op.kind != OpKind::Load || !op.operands[0]->type.isTensor() || op.isVolatile())
    return false;
  const std::vector<AxisFact> &axes = facts.of(op.operands[0]).axes;
  return std::all_of(axes.begin(), axes.end(), [](const AxisFact &a) { return a.contiguity == 1; }) &&
         std::any_of(axes.begin(), axes.end(), [](const AxisFact &a) { return a.constancy > 1; });
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
