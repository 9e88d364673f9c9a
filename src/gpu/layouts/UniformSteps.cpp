// See UniformSteps.h.
#include "gpu/layouts/UniformSteps.h"
#include "ir/Builder.h"

namespace tegula::gpu {

using namespace ir;

namespace {

using Found = std::optional<UniformSteps>;

/// What a walk through the operands knows.
struct Walk {
  const Block *block; // where the tile is computed
  unsigned budget = 48;
};

Found stepsOf(const Value *v, Walk &walk);

/// The sum, where no axis has two different scalars.
Found sum(Found a, const Found &b) {
  if (!a || !b)
    return std::nullopt;
  for (size_t i = 0; i < a->axes.size(); ++i) {
    UniformStep &x = a->axes[i];
    const UniformStep &y = b->axes[i];
    if (x.constant && y.constant && x.scalar != y.scalar)
      return std::nullopt;
    x = {x.constant + y.constant, x.constant ? x.scalar : y.scalar};
  }
  a->isWide |= b->isWide;
  return a;
}

/// `v` times one number: a constant or a splat.
Found product(const Value *v, const Value *by, Walk &walk, bool isHere) {
  const bool isWide = v->type.elem == Elem::I64;
  const std::optional<int64_t> constant = constantInt(by);
  const Value *scalar = !constant && by->def && by->def->kind == OpKind::Splat ? by->def->operands[0] : nullptr;
  // Only a product in 64 bits is that of the numbers.
  if (!constant && (!scalar || !isWide))
    return std::nullopt;
  Found f = stepsOf(v, walk);
  if (!f)
    return f;
  for (UniformStep &s : f->axes) {
    if (s.constant && s.scalar && scalar)
      return std::nullopt;
    s = {s.constant * constant.value_or(1), s.scalar ? s.scalar : scalar};
    if (!s.constant)
      s.scalar = nullptr;
  }
  f->isWide |= isWide && isHere;
  return f;
}

Found stepsOf(const Value *v, Walk &walk) {
  const size_t rank = v->type.shape.rank();
  if (v->type.isScalar() || !v->def || walk.budget == 0)
    return std::nullopt;
  --walk.budget;
  const Op &op = *v->def;
  const bool isHere = op.parent == walk.block;
  switch (op.kind) {
  case OpKind::Const:
  case OpKind::Splat:
    return op.kind == OpKind::Splat || constantInt(v) ? Found(UniformSteps{std::vector<UniformStep>(rank)}) : std::nullopt;
  case OpKind::Range:
    return UniformSteps{{{1, nullptr}}};
  case OpKind::SExt: {
    Found f = stepsOf(op.operands[0], walk);
    if (f)
      f->isWide |= isHere;
    return f;
  }
  case OpKind::Add:
    return sum(stepsOf(op.operands[0], walk), stepsOf(op.operands[1], walk));
  case OpKind::AddPtr:
    return op.operands[0]->type.elem == v->type.elem ? sum(stepsOf(op.operands[0], walk), stepsOf(op.operands[1], walk)) : std::nullopt;
  case OpKind::Mul: {
    const bool first = constantInt(op.operands[0]) || (op.operands[0]->def && op.operands[0]->def->kind == OpKind::Splat);
    return product(op.operands[first ? 1 : 0], op.operands[first ? 0 : 1], walk, isHere);
  }
  case OpKind::ExpandDims: {
    Found f = stepsOf(op.operands[0], walk);
    if (f)
      f->axes.insert(f->axes.begin() + static_cast<long>(op.axis()), UniformStep{});
    return f;
  }
  case OpKind::Broadcast:
    // What is spread has one element along that axis, and no step.
    if (Found f = stepsOf(op.operands[0], walk)) {
      for (size_t i = 0; i < rank; ++i)
        if (op.operands[0]->type.shape[i] == 1)
          f->axes[i] = {};
      return f;
    }
    return std::nullopt;
  default:
    return std::nullopt;
  }
}

} // namespace

std::optional<UniformSteps> uniformSteps(const Value *v) {
  Walk walk{v->def ? v->def->parent : nullptr};
  return stepsOf(v, walk);
}

} // namespace tegula::gpu
