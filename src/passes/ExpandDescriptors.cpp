// Descriptor accesses as pointers and masks; see ExpandDescriptors.h.
#include "passes/ExpandDescriptors.h"
#include "ir/Builder.h"
#include "passes/LiftBases.h"
#include <limits>
#include <optional>
#include <unordered_set>

namespace tegula {

using namespace ir;

namespace {

/// By contract leading strides are multiples of this, and the base is aligned to it.
constexpr int64_t rowBytes = 16;

bool hasDescriptor(const Block &b) {
  for (const Op *op : b.ops) {
    if (isDescOp(op->kind))
      return true;
    for (const Region *r : op->regions)
      if (hasDescriptor(*r->block))
        return true;
  }
  return false;
}

class Expander {
public:
  /// `lifted`: the target is asked about what it made. Before anything else changes, as the target may look at what is
  /// around an access.
  Expander(Module &m, Function &f, KeepDescriptor keep, const void *target, LiftedBases &lifted)
      : m_(m), f_(f), b_(m), facts_(f) {
    if (!keep)
      return;
    decide(*f.block(), keep, target);
    if (!lifted.any())
      return;
    lifted.keepOnly(
        [&](const Op &op, unsigned dims) { return kept_.contains(&op) && LiftedBases::isExact(op, dims, facts_); });
    kept_.clear();
    decide(*f.block(), keep, target);
  }
  void block(Block &b);
  bool changed = false;

private:
  void decide(const Block &b, KeepDescriptor keep, const void *target) {
    for (const Op *op : b.ops) {
      if (isDescOp(op->kind) && keep(*op, facts_, target))
        kept_.insert(op);
      for (const Region *r : op->regions)
        decide(*r->block, keep, target);
    }
  }
  void expand(Op &op);
  Value *start(const DescAccess &a);
  Value *pointers(const DescAccess &a, Value *p);
  Value *mask(const DescAccess &a);
  Value *along(Value *line, unsigned d, const Shape &to);
  bool isTiled(const DescAccess &a) const;

  Module &m_;
  const Function &f_;
  Builder b_;
  AxisFacts facts_;
  std::unordered_set<const Op *> kept_;
};

void Expander::block(Block &b) {
  Block *outer = b_.block();
  std::vector<Op *> ops;
  ops.swap(b.ops);
  b_.setBlock(&b);
  for (Op *op : ops) {
    for (Region *r : op->regions)
      block(*r->block);
    if (isDescOp(op->kind) && !kept_.count(op))
      expand(*op);
    b.ops.push_back(op);
  }
  b_.setBlock(outer);
}

/// A line of dimension `d` as a tile with the extents `to`.
Value *Expander::along(Value *line, unsigned d, const Shape &to) {
  for (unsigned i = 0; i < d; ++i)
    line = b_.expandDims(line, 0);
  while (line->type.shape.rank() < to.rank())
    line = b_.expandDims(line, line->type.shape.rank());
  return b_.broadcast(line, to);
}

/// The address of the block's first element.
Value *Expander::start(const DescAccess &a) {
  Value *p = a.base;
  for (unsigned d = a.hasRows(); d < a.rank(); ++d) {
    Value *step = b_.binary(OpKind::Mul, b_.cast(OpKind::SExt, a.offsets[d], Elem::I64), a.strides[d]);
    bool leading = d + 1 < a.rank();
    if (leading && constantInt(step) != 0) {
      Value *operands[] = {p, step};
      p = b_.create(OpKind::AddPtr, operands, {&p->type, 1}, {{attr::divisibility, std::vector<int64_t>{rowBytes}}})
              ->result();
    } else {
      p = b_.addPtr(p, step);
    }
  }
  return p;
}

/// The tile of addresses grows dimension by dimension, so that each sum is made at the smallest shape that it needs.
Value *Expander::pointers(const DescAccess &a, Value *p) {
  Shape shape;
  for (unsigned d = 0; d < a.rank(); ++d)
    shape.push(1);
  p = b_.splat(p, shape);
  for (unsigned d = 0; d < a.rank(); ++d) {
    shape.set(d, a.block[d]);
    p = b_.broadcast(p, shape);
    if (a.block[d] == 1)
      continue;
    Value *line = d == 0 && a.hasRows() ? a.offsets[0] : b_.range(0, a.block[d]);
    if (constantInt(a.strides[d]) != 1) {
      Value *operands[] = {b_.cast(OpKind::SExt, line, Elem::I64), b_.splat(a.strides[d], line->type.shape)};
      std::vector<Attr> attrs;
      if (d + 1 < a.rank())
        attrs.push_back({attr::divisibility, std::vector<int64_t>{rowBytes / byteWidth(a.base->type.elem)}});
      line = b_.create(OpKind::Mul, operands, {&operands[0]->type, 1}, std::move(attrs))->result();
    }
    p = b_.addPtr(p, along(line, d, shape));
  }
  return p;
}

Value *Expander::mask(const DescAccess &a) {
  Value *all = nullptr;
  for (unsigned d = 0; d < a.rank(); ++d) {
    const Shape line{a.block[d]};
    Value *index = d == 0 && a.hasRows() ? a.offsets[0]
                                         : b_.binary(OpKind::Add, b_.splat(a.offsets[d], line), b_.range(0, line[0]));
    CmpPred below = facts_.of(a.offsets[d]).isNonNegative() ? CmpPred::Slt : CmpPred::Ult;
    Value *inside = along(b_.cmp(below, index, b_.splat(a.extents[d], line)), d, a.block);
    all = all ? b_.binary(OpKind::And, all, inside) : inside;
  }
  return all;
}

/// One descriptor at every execution, and offsets that are multiples of the block: two executions touch the same
/// elements or disjoint ones.
bool Expander::isTiled(const DescAccess &a) const {
  if (a.hasRows())
    return false;
  auto isFixed = [&](const Value *v) {
    return v->def ? v->def->parent == f_.block() || constantInt(v) : v->block == f_.block();
  };
  for (unsigned d = 0; d < a.rank(); ++d)
    if (!isFixed(a.extents[d]) || !isFixed(a.strides[d]) || facts_.of(a.offsets[d]).axes[0].divisibility % a.block[d])
      return false;
  return isFixed(a.base);
}

/// The operation becomes the plain one: its result and its place in the source stay.
void Expander::expand(Op &op) {
  changed = true;
  b_.setLoc(op.loc);
  b_.setInlinedAt(op.inlinedAt);
  const DescAccess a = descAccess(op);
  const Type type = a.value ? a.value->type : op.result()->type;
  Value *ptrs = pointers(a, start(a)), *in = mask(a), *value = a.value;
  if (op.kind == OpKind::DescLoad) {
    Value *other = op.nan() ? b_.constFloat(type, std::numeric_limits<double>::quiet_NaN()) : b_.constInt(type, 0);
    bool isRounded = op.tf32();
    op.attrs = op.attrsFor(OpKind::Load);
    op.kind = OpKind::Load;
    op.operands = {ptrs, in, other};
    if (isRounded) {
      // The last operation of rounding takes the place of the load.
      Value *loaded[] = {b_.create(OpKind::Load, op.operands, {&type, 1}, std::move(op.attrs))->result()};
      const Op *last = b_.roundToTf32(loaded[0])->def;
      op.kind = last->kind;
      op.operands = last->operands;
      op.attrs = last->attrs;
    }
    return;
  }
  bool isStore = op.kind == OpKind::DescStore;
  const OpKind plain = isStore ? OpKind::Store : OpKind::AtomicRmw;
  op.attrs = op.attrsFor(plain);
  if (isStore && isTiled(a))
    op.set(attr::tiled, true);
  op.kind = plain;
  op.operands = {ptrs, value, in};
  if (isStore)
    return;
  m_.addResult(&op, type);
  op.set(attr::sem, std::string("relaxed"));
  op.set(attr::scope, std::string("gpu"));
}

} // namespace

bool expandDescriptors(Module &m, KeepDescriptor keep, const void *target) {
  bool changed = false;
  for (Function *f : m.functions) {
    if (!hasDescriptor(*f->block()))
      continue;
    LiftedBases lifted(m);
    if (keep)
      lifted.lift(*f);
    Expander e(m, *f, keep, target, lifted);
    e.block(*f->block());
    changed |= e.changed || lifted.any();
  }
  return changed;
}

void expandDescriptors(Module &m) { expandDescriptors(m, nullptr); }

} // namespace tegula
