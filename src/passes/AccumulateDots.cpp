#include "passes/AccumulateDots.h"
#include "ir/Builder.h"
#include "passes/Users.h"
#include <algorithm>
#include <unordered_set>

namespace tegula {

using namespace ir;

namespace {

bool isZero(const Value *v) {
  return v->def && v->def->kind == OpKind::Const &&
         (isFloat(v->type.elem) ? v->def->floatValue(1) == 0 : v->def->intValue(1) == 0);
}

/// Whether `v` is computed from a running sum by elementwise operations.
bool isRunning(const Value *v, const Shape &shape, unsigned steps = 8) {
  if (v->type.shape != shape)
    return false;
  const Op *op = v->def;
  if (!op || op->kind == OpKind::For || op->kind == OpKind::While || op->kind == OpKind::Dot)
    return true;
  if (!op->has(traits::Elementwise) || !op->has(traits::Pure) || steps == 0)
    return false;
  return std::any_of(op->operands.begin(), op->operands.end(),
                     [&](const Value *o) { return isRunning(o, shape, steps - 1); });
}

/// The dot that replaces an addition, and the operation that widens its result between the two, or null.
struct Fold {
  Op *dot = nullptr, *widening = nullptr;
  size_t side = 0; // operand of the addition that is the dot
};

Fold foldable(const Op &add, const Users &users) {
  if ((add.kind != OpKind::FAdd && add.kind != OpKind::Add) || !add.result()->type.isTensor() || add.rounded())
    return {};
  for (size_t side : {1, 0}) {
    Op *dot = add.operands[side]->def, *widening = nullptr;
    const Value *sum = add.operands[1 - side];
    if (dot && dot->kind == OpKind::FpExt && add.result()->type.elem == Elem::F32 &&
        dot->operands[0]->type.elem == Elem::F16 && dot->parent == add.parent && users.only(dot->result()) == &add) {
      widening = dot;
      dot = widening->operands[0]->def;
    }
    const Op *user = widening ? widening : &add;
    if (!dot || dot->kind != OpKind::Dot || dot->parent != add.parent || users.only(dot->result()) != user ||
        sum == dot->result() || !isZero(dot->operands[2]))
      continue;
    bool keepsBits = !isFp8(dot->operands[0]->type.elem) && !isFp8(dot->operands[1]->type.elem);
    if (isZero(sum) || (keepsBits && isRunning(sum, add.result()->type.shape)))
      return {dot, widening, side};
  }
  return {};
}

void block(Block &b, const Users &users) {
  std::unordered_set<const Op *> moved;
  for (Op *&op : b.ops) {
    for (Region *r : op->regions)
      block(*r->block, users);
    const auto [dot, widening, side] = foldable(*op, users);
    if (!dot)
      continue;
    Value *result = op->result();
    dot->operands[2] = op->operands[1 - side];
    if (widening) {
      dot->result()->type = result->type;
      moved.insert(widening);
    }
    for (Op *user : users.of(result))
      std::replace(user->operands.begin(), user->operands.end(), result, dot->result());
    if (!result->name.empty())
      dot->result()->name = result->name;
    moved.insert(dot);
    op = dot; // now in the list twice; the second place stays
  }
  std::erase_if(b.ops, [&](const Op *op) { return moved.erase(op) > 0; });
}

/// The chain of dots that accumulate into carried value `i` of a loop; empty if the value has another use.
std::vector<Op *> dotsOfSum(const Op &loop, size_t i, const Users &users) {
  const Block &body = *loop.region(0);
  const Op *yield = body.terminator();
  std::vector<Op *> dots;
  for (const Value *v = body.args[1 + i];;) {
    Op *user = users.only(v);
    if (user && user == yield)
      return std::count(yield->operands.begin(), yield->operands.end(), v) == 1 && yield->operands[i] == v
                 ? dots
                 : std::vector<Op *>();
    if (!user || user->kind != OpKind::Dot || user->parent != &body ||
        std::count(user->operands.begin(), user->operands.end(), v) != 1 || user->operands[2] != v)
      return {};
    dots.push_back(user);
    v = user->result();
  }
}

/// Sums of float16 become float32 in the loops that carry them.
void widenSums(Builder &b, Block &block, const Users &users) {
  std::vector<Op *> ops;
  ops.swap(block.ops);
  for (Op *op : ops) {
    for (Region *r : op->regions)
      widenSums(b, *r->block, users);
    std::vector<size_t> sums;
    b.setBlock(&block);
    b.setLoc(op->loc);
    b.setInlinedAt(op->inlinedAt);
    for (size_t i = 0; op->kind == OpKind::For && i < op->results.size(); ++i) {
      if (!op->results[i]->type.isTensor() || op->results[i]->type.isPtr || op->results[i]->type.elem != Elem::F16)
        continue;
      const std::vector<Op *> dots = dotsOfSum(*op, i, users);
      if (dots.empty())
        continue;
      for (Op *dot : dots)
        dot->result()->type.elem = Elem::F32;
      op->operands[3 + i] = b.cast(OpKind::FpExt, op->operands[3 + i], Elem::F32);
      op->region(0)->args[1 + i]->type.elem = op->results[i]->type.elem = Elem::F32;
      sums.push_back(i);
    }
    block.ops.push_back(op);
    for (size_t i : sums) {
      Value *narrow = b.cast(OpKind::FpTrunc, op->results[i], Elem::F16);
      for (Op *user : users.of(op->results[i]))
        std::replace(user->operands.begin(), user->operands.end(), op->results[i], narrow);
    }
  }
}

} // namespace

void accumulateDots(Module &m) {
  Builder b(m);
  for (Function *f : m.functions) {
    block(*f->block(), Users(*f->block()));
    widenSums(b, *f->block(), Users(*f->block()));
  }
}

} // namespace tegula
