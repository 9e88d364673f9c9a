// See JoinStores.h.
#include "passes/JoinStores.h"
#include "ir/Builder.h"
#include "passes/Effects.h"
#include "passes/UniformSteps.h"
#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

namespace tegula {

using namespace ir;

namespace {

Value *maskOf(const Op &store) { return store.operands.size() > 2 ? store.operands[2] : nullptr; }

/// The conditions that a mask is the conjunction of.
void addConditions(Value *mask, std::vector<Value *> &out) {
  if (mask && mask->def && mask->def->kind == OpKind::And) {
    addConditions(mask->def->operands[0], out);
    addConditions(mask->def->operands[1], out);
  } else if (mask && constantInt(mask) != 1 && std::ranges::find(out, mask) == out.end()) {
    out.push_back(mask);
  }
}

CmpPred opposite(CmpPred p) {
  constexpr std::pair<CmpPred, CmpPred> pairs[] = {
      {CmpPred::Eq, CmpPred::Ne},    {CmpPred::Slt, CmpPred::Sge},  {CmpPred::Sle, CmpPred::Sgt},
      {CmpPred::Ult, CmpPred::Uge},  {CmpPred::Ule, CmpPred::Ugt},  {CmpPred::Oeq, CmpPred::Une},
      {CmpPred::One, CmpPred::Ueq},  {CmpPred::Olt, CmpPred::FUge}, {CmpPred::Ole, CmpPred::FUgt},
      {CmpPred::Ogt, CmpPred::FUle}, {CmpPred::Oge, CmpPred::FUlt}, {CmpPred::Ord, CmpPred::Uno}};
  for (const auto &[a, b] : pairs)
    if (p == a || p == b)
      return p == a ? b : a;
  return p;
}

bool isNot(const Value *a, const Value *b) {
  const Op *op = a->def;
  const auto flips = [&](size_t from, size_t by) {
    return op->operands[from] == b && constantInt(op->operands[by]).value_or(0) != 0;
  };
  return op && op->kind == OpKind::Xor && (flips(0, 1) || flips(1, 0));
}

bool areOpposite(const Value *a, const Value *b) {
  if (isNot(a, b) || isNot(b, a))
    return true;
  const bool areComparisons = a->def && b->def && a->def->kind == b->def->kind &&
                              (a->def->kind == OpKind::CmpI || a->def->kind == OpKind::CmpF);
  return areComparisons && a->def->operands == b->def->operands && a->def->pred() == opposite(b->def->pred());
}

/// Arithmetic on positions, arguments, program ids and loop counters.
bool isByPosition(const Value *address, unsigned steps = 24) {
  const Op *op = address->def;
  if (address->type.isScalar())
    return true;
  if (!op)
    return false;
  switch (op->kind) {
  case OpKind::Range: case OpKind::Const: return true;
  case OpKind::AddPtr: case OpKind::Add: case OpKind::Sub: case OpKind::Mul: case OpKind::Shl: case OpKind::SExt:
  case OpKind::ZExt: case OpKind::Splat: case OpKind::Broadcast: case OpKind::ExpandDims: case OpKind::Reshape:
  case OpKind::Permute:
    return steps && std::ranges::all_of(op->operands, [&](const Value *v) { return isByPosition(v, steps - 1); });
  default: return false;
  }
}

/// Whether, judging by the steps along axes, the elements have distinct addresses. Steps of one unit, constants or
/// multiples of one scalar, must not overlap.
bool areApart(const Value *address) {
  const UniformSteps steps = uniformSteps(address, /*narrow=*/true);
  std::map<const Value *, std::vector<std::pair<uint64_t, uint64_t>>> byUnit; // step, extent
  for (unsigned i = 0; i < steps.axes.size(); ++i) {
    const UniformStep &s = steps.axes[i];
    const auto extent = static_cast<uint64_t>(address->type.shape[i]);
    if (!s.isKnown || extent == 1)
      continue;
    if (s.constant == 0)
      return false;
    byUnit[s.scalar].emplace_back(static_cast<uint64_t>(std::abs(s.constant)), extent);
  }
  return std::ranges::all_of(byUnit, [](auto &unit) {
    std::ranges::sort(unit.second);
    uint64_t reach = 1; // of the axes with smaller steps
    return std::ranges::all_of(unit.second, [&](const auto &axis) {
      const bool fits = axis.first >= reach;
      reach += axis.first * (axis.second - 1);
      return fits;
    });
  });
}

/// Of the joined store, conditions each; none: always.
struct Joined {
  std::vector<Value *> mask, second; // where it stores, and where of that the second's value
};

std::optional<Joined> joined(const Op &first, const Op &second) {
  std::vector<Value *> a, b, onlyA, onlyB;
  addConditions(maskOf(first), a);
  addConditions(maskOf(second), b);
  Joined out;
  for (Value *v : a)
    (std::ranges::find(b, v) == b.end() ? onlyA : out.mask).push_back(v);
  std::ranges::copy_if(b, std::back_inserter(onlyB), [&](Value *v) { return std::ranges::find(a, v) == a.end(); });
  const bool areParts = onlyA.size() == 1 && onlyB.size() == 1 && areOpposite(onlyA[0], onlyB[0]);
  if (!areParts && !onlyA.empty() && !onlyB.empty())
    return std::nullopt;
  out.second = std::move(onlyB);
  return out;
}

Value *all(Builder &b, const std::vector<Value *> &conditions) {
  Value *out = nullptr;
  for (Value *v : conditions)
    out = out ? b.binary(OpKind::And, out, v) : v;
  return out;
}

void visit(Module &m, Block &b) {
  Op *first = nullptr; // the last store, where only pure operations follow it
  std::vector<Op *> ops;
  ops.swap(b.ops);
  Builder builder(m);
  builder.setBlock(&b);
  for (Op *op : ops) {
    for (Region *r : op->regions)
      visit(m, *r->block);
    if (op->kind != OpKind::Store || op->isVolatile() || op->operands[1]->type.isScalar()) {
      if (!isPure(*op))
        first = nullptr;
      b.ops.push_back(op);
      continue;
    }
    if (first && first->operands[0] == op->operands[0] && first->attrs == op->attrs && isByPosition(op->operands[0]) &&
        areApart(op->operands[0]))
      if (const std::optional<Joined> j = joined(*first, *op)) {
        builder.setLoc(op->loc);
        builder.setInlinedAt(op->inlinedAt);
        if (Value *isSecond = all(builder, j->second))
          op->operands[1] = builder.select(isSecond, op->operands[1], first->operands[1]);
        op->operands.resize(2);
        if (Value *mask = all(builder, j->mask))
          op->operands.push_back(mask);
        std::erase(b.ops, first);
      }
    b.ops.push_back(first = op);
  }
}

} // namespace

void joinStores(Module &m) {
  for (Function *f : m.functions)
    visit(m, *f->block());
}

} // namespace tegula
