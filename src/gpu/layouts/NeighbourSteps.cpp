// See NeighbourSteps.h.
#include "gpu/layouts/NeighbourSteps.h"
#include "gpu/layouts/ElementUses.h"
#include "gpu/layouts/EqualAddresses.h"
#include "ir/Builder.h"
#include <algorithm>
#include <bit>
#include <numeric>

namespace tegula::gpu {

using namespace ir;

namespace {

constexpr int64_t largest = int64_t(1) << 20; // more is not told apart

int64_t product(int64_t step, int64_t by) {
  return step == 0 || by == 0 ? 0 : step > largest / by ? largest : step * by;
}

bool isEqualAlong(const Value *v, unsigned axis, const AxisFacts &facts) {
  return v->type.isScalar() || v->type.shape[axis] == 1 || facts.of(v, axis).constancy == v->type.shape[axis];
}

int64_t stepOf(const Value *v, unsigned axis, const AxisFacts &facts, unsigned &budget) {
  if (isEqualAlong(v, axis, facts))
    return 0;
  if (!v->def || budget == 0)
    return 1;
  --budget;
  const Op &op = *v->def;
  auto of = [&](size_t i) { return stepOf(op.operands[i], axis, facts, budget); };
  switch (op.kind) {
  case OpKind::Add:
  case OpKind::Sub:
    return std::gcd(of(0), of(1));
  case OpKind::AddPtr:
    return std::gcd(of(0), product(of(1), byteWidth(v->type.elem)));
  case OpKind::Mul: {
    int64_t x = of(0), y = of(1);
    if (x != 0 && y != 0)
      return 1;
    return product(x + y, std::min(facts.of(op.operands[x == 0 ? 0 : 1]).divisorOfAll(), largest));
  }
  case OpKind::SExt:
  case OpKind::ZExt:
  case OpKind::Broadcast:
    return of(0);
  case OpKind::ExpandDims:
    return stepOf(op.operands[0], axis - (static_cast<int64_t>(axis) > op.axis() ? 1 : 0), facts, budget);
  default:
    return 1;
  }
}

std::optional<int64_t> usualStep(const Value *v, unsigned axis, const AxisFacts &facts, unsigned &budget) {
  if (isEqualAlong(v, axis, facts))
    return 0;
  const int64_t unit = v->type.isPtr ? byteWidth(v->type.elem) : 1;
  if (facts.of(v, axis).contiguity == v->type.shape[axis])
    return unit;
  if (!v->def || budget == 0)
    return std::nullopt;
  --budget;
  const Op &op = *v->def;
  auto of = [&](size_t i) { return usualStep(op.operands[i], axis, facts, budget); };
  auto isShared = [&](size_t i) { return isEqualAlong(op.operands[i], axis, facts); };
  // x + y * by
  auto sum = [](std::optional<int64_t> x, std::optional<int64_t> y, int64_t by) {
    return x && y ? std::optional(*x + *y * by) : std::nullopt;
  };
  switch (op.kind) {
  case OpKind::Add:
    return sum(of(0), of(1), 1);
  case OpKind::Sub:
    return sum(of(0), of(1), -1);
  case OpKind::AddPtr:
    return sum(of(0), of(1), unit);
  case OpKind::Mul: // of a quotient by whatever its row is long, too
    return isShared(1) && of(0) == 0   ? std::optional<int64_t>(0)
           : isShared(0) && of(1) == 0 ? std::optional<int64_t>(0)
                                       : std::nullopt;
  case OpKind::SRem:
  case OpKind::URem:
  case OpKind::SMin:
  case OpKind::SMax:
  case OpKind::UMin:
  case OpKind::UMax:
    return isShared(1) ? of(0) : std::nullopt;
  case OpKind::SDiv:
  case OpKind::UDiv:
    return isShared(1) && !constantInt(op.operands[1]) ? std::optional<int64_t>(0) : std::nullopt;
  case OpKind::Select: // clamped, or replaced, under a condition
    return isShared(2) ? of(1) : isShared(1) ? of(2) : std::nullopt;
  case OpKind::SExt:
  case OpKind::ZExt:
  case OpKind::Broadcast:
    return of(0);
  case OpKind::ExpandDims:
    return usualStep(op.operands[0], axis - (static_cast<int64_t>(axis) > op.axis() ? 1 : 0), facts, budget);
  default:
    return std::nullopt;
  }
}

} // namespace

std::optional<int64_t> usualStepOf(const Value *v, unsigned axis, const AxisFacts &facts) {
  unsigned budget = 64;
  return usualStep(v, axis, facts, budget);
}

int64_t stepOfNeighbours(const Value *v, unsigned axis, const AxisFacts &facts) {
  unsigned budget = 64;
  return stepOf(v, axis, facts, budget);
}

std::vector<unsigned> axesByNeighbours(const Value *pointer, const AxisFacts &facts) {
  std::vector<unsigned> order(pointer->type.shape.rank());
  std::iota(order.rbegin(), order.rend(), 0u);
  auto isApart = [&](unsigned axis) {
    int64_t step = stepOfNeighbours(pointer, axis, facts);
    return step != 0 && step % sectorBytes == 0;
  };
  // Axes of which no group is consecutive, from the best: consecutive nearly everywhere, unknown, apart.
  auto distance = [&](unsigned axis) {
    return usualStepOf(pointer, axis, facts) == byteWidth(pointer->type.elem) ? 0 : isApart(axis) ? 2 : 1;
  };
  std::sort(order.begin(), order.end(), [&](unsigned a, unsigned b) {
    int64_t ca = facts.of(pointer, a).contiguity, cb = facts.of(pointer, b).contiguity;
    if (ca != cb)
      return ca > cb;
    int da = ca == 1 ? distance(a) : 0, db = ca == 1 ? distance(b) : 0;
    return da != db ? da < db : a > b;
  });
  return order;
}

int64_t vectorIn(const layout::LinearLayout &l, const Value *pointer, const Value *mask, unsigned axis,
                 const AxisFacts &facts) {
  const int64_t bytes = byteWidth(pointer->type.elem),
                most = std::min<int64_t>(facts.vectorWidth(pointer, mask, axis), 16 / bytes);
  int64_t vec = 1;
  for (unsigned j = 0; vec * 2 <= most && facts.of(pointer, axis).divisibility % (vec * 2 * bytes) == 0 &&
                       j < l.inBits(layout::Dim::Register);
       ++j, vec *= 2)
    for (unsigned d = 0; d < pointer->type.shape.rank(); ++d)
      if (l.basis(layout::Dim::Register, j, layout::tensorDim(d)) != (d == axis ? vec : 0))
        return vec;
  return vec;
}

int64_t loadsOf(const Op &load, const layout::LinearLayout &l, const AxisFacts &facts) {
  const int64_t same = int64_t{1} << std::popcount(static_cast<uint64_t>(sameAddresses(load, l, facts)));
  return (int64_t{1} << l.inBits(layout::Dim::Register)) /
         std::max(same, vectorIn(l, load.operands[0], load.mask(), load.result()->type.shape.rank() - 1, facts));
}

} // namespace tegula::gpu
