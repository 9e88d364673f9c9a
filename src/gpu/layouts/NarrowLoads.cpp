// See NarrowLoads.h.
#include "gpu/layouts/NarrowLoads.h"
#include "gpu/BlockEdit.h"
#include "gpu/Layouts.h"
#include "gpu/layouts/ElementUses.h"
#include "ir/Builder.h"
#include "ir/Clone.h"
#include "passes/AxisFacts.h"
#include "passes/RemoveDead.h"
#include <algorithm>
#include <map>
#include <set>

namespace tegula::gpu {

using namespace ir;

std::optional<Repeated> repeatedBy(const Op &reshape) {
  const Op *broadcast = reshape.kind == OpKind::Reshape ? reshape.operands[0]->def : nullptr;
  const Op *expand = broadcast && broadcast->kind == OpKind::Broadcast ? broadcast->operands[0]->def : nullptr;
  if (!expand || expand->kind != OpKind::ExpandDims || expand->axis() == 0)
    return std::nullopt;
  const Value *of = expand->operands[0];
  const auto axis = static_cast<unsigned>(expand->axis()) - 1;
  const int64_t times = broadcast->result()->type.shape[axis + 1];
  Shape merged = of->type.shape, repeated = of->type.shape;
  repeated.insert(axis + 1, times);
  merged.set(axis, merged[axis] * times);
  if (broadcast->result()->type.shape != repeated || reshape.result()->type.shape != merged)
    return std::nullopt;
  return Repeated{of, axis, times};
}

namespace {

/// Makes values with every `step`-th element along an axis, next to the originals.
class Picker {
public:
  Picker(Module &m, const AxisFacts &facts, int64_t step) : b_(m), facts_(facts), step_(step) {}

  /// Is `v` made of ranges, constants and scalars by operations that can be done on some of the elements alone?
  bool canPick(const Value *v, unsigned axis) {
    if (isSame(v, axis))
      return true;
    const Op *op = v->def;
    if (!op)
      return false;
    if (isLeaf(*op) || !seen_.insert({v, axis}).second)
      return true; // or the answer is no already
    if (!isIndexArithmetic(op->kind) && op->kind != OpKind::ExpandDims && op->kind != OpKind::Broadcast &&
        op->kind != OpKind::Permute)
      return false;
    return std::ranges::all_of(op->operands, [&](const Value *o) { return canPick(o, axisBefore(*op, axis)); });
  }

  Value *pick(Value *v, unsigned axis) {
    if (isSame(v, axis))
      return v;
    return made(v, axis, 1, [&](Op &op) {
      if (Value *quotient = exactQuotient(op, axis))
        return quotient;
      std::vector<Value *> operands;
      if (op.kind != OpKind::Splat)
        for (Value *o : op.operands)
          operands.push_back(pick(o, axisBefore(op, axis)));
      startAt(op);
      const Shape shape = picked(v->type.shape, axis);
      switch (op.kind) {
      case OpKind::Range: return stepped(op, shape, 1);
      case OpKind::Splat: return b_.splat(op.operands[0], shape);
      case OpKind::Broadcast: return b_.broadcast(operands[0], shape);
      default: return again(op, operands, v->type.withShape(shape));
      }
    });
  }

  /// Inserts the new operations after the operations that they are made from.
  void finish() {
    for (auto &[op, block] : here_)
      splice(*block, *op->parent, positionOf(*op->parent, op) + 1);
  }

  Value *load(Op &load, unsigned axis) {
    std::vector<Value *> operands;
    for (Value *o : load.operands)
      operands.push_back(pick(o, axis));
    startAt(load);
    const Type &t = load.result()->type;
    Value *now = again(load, operands, t.withShape(picked(t.shape, axis)));
    now->name = load.result()->name;
    if (now->type.shape[axis] > 1) {
      now = b_.expandDims(now, axis + 1);
      Shape repeated = now->type.shape;
      repeated.set(axis + 1, step_);
      now = b_.broadcast(now, repeated);
      return b_.reshape(now, t.shape);
    }
    return b_.broadcast(now, t.shape);
  }

private:
  static bool isLeaf(const Op &op) {
    return op.kind == OpKind::Range || op.kind == OpKind::Splat || op.kind == OpKind::Const;
  }
  /// Are the elements along the axis the same whichever are picked?
  static bool isSame(const Value *v, unsigned axis) { return v->type.isScalar() || v->type.shape[axis] == 1; }
  /// The axis of the operand that becomes `axis` of the result.
  static unsigned axisBefore(const Op &op, unsigned axis) {
    if (op.kind == OpKind::Permute)
      return static_cast<unsigned>(op.perm()[axis]);
    return op.kind == OpKind::ExpandDims && axis > static_cast<unsigned>(op.axis()) ? axis - 1 : axis;
  }
  Shape picked(Shape shape, unsigned axis) const {
    shape.set(axis, std::max<int64_t>(1, shape[axis] / step_));
    return shape;
  }

  /// Is each element of `v` divisible by `n`? Of a range, each picked element.
  bool isDivisible(const Value *v, unsigned axis, int64_t n, unsigned depth = 16) const {
    if (!v->def || !depth)
      return false;
    const Op &op = *v->def;
    if (isSame(v, axis) || op.kind == OpKind::Splat || op.kind == OpKind::Const)
      return facts_.of(v).divisorOfAll() % n == 0;
    auto isOf = [&](const Value *o) { return isDivisible(o, axisBefore(op, axis), n, depth - 1); };
    switch (op.kind) {
    case OpKind::Range: return op.start() % n == 0 && step_ % n == 0;
    case OpKind::Add:
    case OpKind::Sub: return isOf(op.operands[0]) && isOf(op.operands[1]);
    case OpKind::SExt:
    case OpKind::ExpandDims:
    case OpKind::Broadcast: return isOf(op.operands[0]);
    default: return false;
    }
  }
  /// The picked elements divided by `n`.
  Value *divided(Value *v, unsigned axis, int64_t n) {
    if (isSame(v, axis)) {
      startAt(*v->def);
      return b_.binary(OpKind::SDiv, v, b_.constInt(v->type, n));
    }
    return made(v, axis, n, [&](Op &op) -> Value * {
      const Shape shape = picked(v->type.shape, axis);
      std::vector<Value *> operands;
      if (!isLeaf(op))
        for (Value *o : op.operands)
          operands.push_back(divided(o, axisBefore(op, axis), n));
      startAt(op);
      switch (op.kind) {
      case OpKind::Range: return stepped(op, shape, n);
      case OpKind::Const: return b_.constInt(v->type.withShape(shape), *constantInt(v) / n);
      case OpKind::Splat:
        return b_.splat(b_.binary(OpKind::SDiv, op.operands[0], b_.constInt(op.operands[0]->type, n)), shape);
      case OpKind::Broadcast: return b_.broadcast(operands[0], shape);
      default: return again(op, operands, v->type.withShape(shape));
      }
    });
  }

  /// x / n where the picked elements of x are multiples of n: divides each summand separately, so that axis facts see
  /// consecutive quotients.
  Value *exactQuotient(Op &op, unsigned axis) {
    if (op.kind != OpKind::SDiv && op.kind != OpKind::AShr)
      return nullptr;
    std::optional<int64_t> n = constantInt(op.operands[1]);
    if (n && op.kind == OpKind::AShr)
      n = *n < 31 ? int64_t{1} << *n : 0;
    if (!n || *n < 2 || !isDivisible(op.operands[0], axis, *n))
      return nullptr;
    return divided(op.operands[0], axis, *n);
  }

  /// The picked elements of a range, divided by `n`.
  Value *stepped(const Op &range, const Shape &shape, int64_t n) {
    Value *i = b_.range(0, shape[0]);
    if (step_ / n != 1)
      i = b_.binary(OpKind::Mul, i, b_.constInt(i->type, step_ / n));
    return range.start() ? b_.binary(OpKind::Add, i, b_.constInt(i->type, range.start() / n)) : i;
  }

  /// The operation on other operands, without its attributes about neighbours.
  Value *again(const Op &op, std::span<Value *const> operands, const Type &type) {
    std::vector<Attr> attrs = op.attrs;
    std::erase_if(attrs, [](const Attr &a) {
      return a.key == AttrKey(attr::contiguity) || a.key == AttrKey(attr::constancy) ||
             a.key == AttrKey(attr::divisibility);
    });
    return b_.create(op.kind, operands, {&type, 1}, std::move(attrs))->result();
  }

  /// Inserts the next operations after `op`.
  void startAt(const Op &op) {
    auto [it, isNew] = here_.try_emplace(const_cast<Op *>(&op));
    if (isNew) {
      it->second = std::make_unique<Block>();
      it->second->parent = op.parent->parent;
    }
    b_.setBlock(it->second.get());
    b_.setLoc(op.loc);
    b_.setInlinedAt(op.inlinedAt);
  }

  template <typename Make> Value *made(const Value *v, unsigned axis, int64_t n, Make make) {
    const std::tuple key(v, axis, n);
    if (auto it = made_.find(key); it != made_.end())
      return it->second;
    Value *now = make(*v->def);
    if (now->name.empty())
      now->name = v->name;
    return made_[key] = now;
  }

  Builder b_;
  const AxisFacts &facts_;
  const int64_t step_;
  std::map<std::tuple<const Value *, unsigned, int64_t>, Value *> made_; // divided by the last number
  std::map<Op *, std::unique_ptr<Block>> here_;
  std::set<std::pair<const Value *, unsigned>> seen_; // by canPick
};

/// The axis with the largest groups of neighbours that read one address under one mask, and the size of the groups.
struct Groups {
  unsigned axis = 0;
  int64_t size = 1;
};
Groups equalNeighbours(const Op &load, const AxisFacts &facts) {
  Groups best;
  for (unsigned axis = 0; axis < load.result()->type.shape.rank(); ++axis) {
    int64_t size = load.result()->type.shape[axis];
    for (const Value *v : load.operands)
      size = std::min(size, facts.of(v, axis).constancy);
    if (size > best.size && (size & (size - 1)) == 0)
      best = {axis, size};
  }
  return best;
}

/// Is an operand of a dot computed from `v`, element by element or through a table?
bool reachesDot(const Users &users, const Value *v, unsigned depth) {
  return depth && std::ranges::any_of(users.of(v), [&](const Op *u) {
           if (u->kind == OpKind::Dot)
             return u->operands[2] != v;
           const bool isTable = u->kind == OpKind::Load && u->operands[0] == v;
           return u->results.size() == 1 &&
                  (isTable || u->has(traits::Elementwise) || renames(u->kind) || u->kind == OpKind::Join) &&
                  reachesDot(users, u->result(), depth - 1);
         });
}

class Narrower {
public:
  Narrower(Module &m, unsigned threads) : module_(m), facts_(*m.kernel()), threads_(threads) {
    users_.add(*m.kernel()->block());
  }

  bool run() { return block(*module_.kernel()->block()); }

private:
  bool block(Block &b) {
    bool changed = false;
    for (Op *op : std::vector<Op *>(b.ops)) {
      for (Region *r : op->regions)
        if (op->kind != OpKind::Reduce && op->kind != OpKind::Scan)
          changed |= block(*r->block);
      changed |= op->kind == OpKind::Load && narrow(*op);
    }
    return changed;
  }

  bool narrow(Op &load) {
    const Type &t = load.result()->type;
    if (!t.isTensor() || t.isPtr || t.shape.rank() < 2 || t.numel() <= threads_ || load.isVolatile() ||
        !isInFor(load) || !reachesDot(users_, load.result(), 20))
      return false;
    const Groups groups = equalNeighbours(load, facts_);
    if (groups.size == 1)
      return false;
    Picker picker(module_, facts_, groups.size);
    if (!std::ranges::all_of(load.operands, [&](const Value *v) { return picker.canPick(v, groups.axis); }))
      return false;
    Value *now = picker.load(load, groups.axis);
    replaceUses(*load.parent, load.result(), now);
    picker.finish();
    return true;
  }

  Module &module_;
  const AxisFacts facts_;
  Users users_;
  const unsigned threads_;
};

} // namespace

std::unique_ptr<Module> narrowLoads(const Module &module, unsigned threads) {
  std::unique_ptr<Module> out = clone(module);
  if (!Narrower(*out, threads).run())
    return nullptr;
  removeDead(*out);
  return out;
}

} // namespace tegula::gpu
