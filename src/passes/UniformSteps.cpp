// See UniformSteps.h.
#include "passes/UniformSteps.h"
#include "ir/Builder.h"
#include <algorithm>
#include <optional>

namespace tegula {

using namespace ir;

namespace {

/// The context of a walk through the operands.
struct Walk {
  const Block *block; // where the tile is computed
  bool narrow;        // products in 32 bits, too
  unsigned budget = 48;
};

constexpr UniformStep unknown{0, nullptr, false};

UniformSteps stepsOf(const Value *v, Walk &walk);

UniformStep sum(const UniformStep &a, const UniformStep &b) {
  if (!a.isKnown || !b.isKnown || (a.constant && b.constant && a.scalar != b.scalar))
    return unknown;
  return {a.constant + b.constant, a.constant ? a.scalar : b.scalar};
}

UniformSteps sum(UniformSteps a, const UniformSteps &b) {
  for (size_t i = 0; i < a.axes.size(); ++i)
    a.axes[i] = sum(a.axes[i], b.axes[i]);
  a.isWide |= b.isWide;
  return a;
}

/// `v` times one number, a constant or a splat: along an axis without steps they stay none, whatever that is.
UniformSteps product(const Value *v, const Value *by, Walk &walk, bool isHere) {
  const bool isWide = v->type.elem == Elem::I64, isExact = isWide || (walk.narrow && v->type.elem == Elem::I32);
  const std::optional<int64_t> constant = constantInt(by);
  const bool isSplat = by->def && by->def->kind == OpKind::Splat;
  const Value *scalar = !constant && isSplat ? by->def->operands[0] : nullptr;
  UniformSteps f = stepsOf(v, walk);
  for (UniformStep &s : f.axes) {
    // Only a product in 64 bits is exact for all operands.
    if (!constant && (!isSplat || (s.constant && (!isExact || s.scalar))))
      s = unknown;
    if (s.isKnown && s.constant)
      s = {s.constant * constant.value_or(1), s.scalar ? s.scalar : scalar};
    if (!s.constant)
      s.scalar = nullptr;
  }
  f.isWide |= isWide && isHere;
  return f;
}

UniformSteps stepsOf(const Value *v, Walk &walk) {
  const size_t rank = v->type.shape.rank();
  const UniformSteps nothing{std::vector<UniformStep>(rank, unknown)};
  if (!v->def || walk.budget == 0)
    return nothing;
  --walk.budget;
  const Op &op = *v->def;
  const bool isHere = op.parent == walk.block;
  switch (op.kind) {
  case OpKind::Const:
  case OpKind::Splat:
    return op.kind == OpKind::Splat || constantInt(v) ? UniformSteps{std::vector<UniformStep>(rank)} : nothing;
  case OpKind::Range:
    return UniformSteps{{{1, nullptr}}};
  case OpKind::SExt: {
    UniformSteps f = stepsOf(op.operands[0], walk);
    f.isWide |= isHere;
    return f;
  }
  case OpKind::Add:
    return sum(stepsOf(op.operands[0], walk), stepsOf(op.operands[1], walk));
  case OpKind::AddPtr:
    return op.operands[0]->type.elem == v->type.elem ? sum(stepsOf(op.operands[0], walk), stepsOf(op.operands[1], walk))
                                                     : nothing;
  case OpKind::Mul: {
    const bool first =
        constantInt(op.operands[0]) || (op.operands[0]->def && op.operands[0]->def->kind == OpKind::Splat);
    return product(op.operands[first ? 1 : 0], op.operands[first ? 0 : 1], walk, isHere);
  }
  case OpKind::ExpandDims: {
    UniformSteps f = stepsOf(op.operands[0], walk);
    f.axes.insert(f.axes.begin() + static_cast<long>(op.axis()), UniformStep{});
    return f;
  }
  case OpKind::Broadcast: {
    // The broadcast operand has one element along that axis, and no step.
    UniformSteps f = stepsOf(op.operands[0], walk);
    for (size_t i = 0; i < rank; ++i)
      if (op.operands[0]->type.shape[i] == 1)
        f.axes[i] = {};
    return f;
  }
  default:
    return nothing;
  }
}

} // namespace

bool UniformSteps::allKnown() const {
  return std::ranges::all_of(axes, &UniformStep::isKnown);
}

UniformSteps uniformSteps(const Value *v, bool narrow) {
  Walk walk{v->def ? v->def->parent : nullptr, narrow};
  return stepsOf(v, walk);
}

} // namespace tegula
