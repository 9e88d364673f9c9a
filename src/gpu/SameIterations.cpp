// See SameIterations.h.
#include "gpu/SameIterations.h"
#include "ir/Builder.h"
#include <algorithm>
#include <optional>
#include <vector>

namespace tegula::gpu {

using ir::Block;
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

constexpr unsigned deepest = 48; // the longest chain of operations to follow

/// The loop of whose body `v` is an argument; null for other values.
const Op *loopOf(const Value *v) {
  return !v->def && v->block && v->block->parent->op && v->block->parent->op->kind == OpKind::For ? v->block->parent->op
                                                                                                  : nullptr;
}

void addStores(const Block &b, std::vector<const Op *> &out) {
  for (const Op *op : b.ops) {
    if (op->kind == OpKind::Store)
      out.push_back(op);
    for (const ir::Region *r : op->regions)
      addStores(*r->block, out);
  }
}

} // namespace

SameIterations::SameIterations(const Op &first, const Op &second, Case which)
    : first_(&first), second_(&second), case_(which) {
  same_[first.region(0)->args[0]] = second.region(0)->args[0];
}

bool SameIterations::haveSameBounds() {
  return std::ranges::all_of(std::initializer_list<size_t>{0, 1, 2},
                             [&](size_t i) { return same(first_->operands[i], second_->operands[i]); });
}

bool SameIterations::same(const Value *a, const Value *b, unsigned depth) {
  if (const auto known = same_.find(a); known != same_.end())
    return known->second == b;
  if (a == b)
    return true;
  if (depth == deepest)
    return false;
  if (case_ == Case::InFront && loopOf(b) == second_)
    return same(a, second_->operands[b->index ? 2 + b->index : 0], depth + 1);
  if (a->index != b->index)
    return false;
  if (loopOf(a) == first_ && loopOf(b) == second_) { // carried: the same initial value and the same update
    same_[a] = b;
    const Value *x = first_->operands[2 + a->index], *y = second_->operands[2 + b->index];
    return (case_ == Case::GoesOn ? y == first_->results[a->index - 1] : same(x, y, depth + 1)) &&
           same(first_->region(0)->terminator()->operands[a->index - 1],
                second_->region(0)->terminator()->operands[b->index - 1], depth + 1);
  }
  if (!a->def || !b->def)
    return false;
  const Op &x = *a->def, &y = *b->def;
  const bool isSame = x.kind == y.kind && x.regions.empty() && x.operands.size() == y.operands.size() &&
                      !x.has(ir::traits::Reads) && !x.has(ir::traits::Writes) &&
                      std::ranges::equal(x.attrs, y.attrs, [](const ir::Attr &p, const ir::Attr &q) {
                        return p.key == q.key && p.value == q.value;
                      });
  for (size_t i = 0; isSame && i < x.operands.size(); ++i)
    if (!same(x.operands[i], y.operands[i], depth + 1))
      return false;
  if (isSame)
    same_[a] = b;
  return isSame;
}

/// Does `loop` begin a whole number of steps after `before` begins, if it runs at all? The end of `before` is begin +
/// steps or the end of `loop`, whichever comes first, in the form to which a Builder folds it.
static bool beginsAtStep(const Op &loop, const Op &before, SameIterations &iterations) {
  const Value *begin = before.operands[0], *middle = before.operands[1], *step = before.operands[2],
              *end = loop.operands[1];
  const std::optional<int64_t> from = ir::constantInt(begin), to = ir::constantInt(middle), by = ir::constantInt(step);
  if (from && to && by)
    return *by > 0 && *from <= *to && (*to - *from) % *by == 0;
  const auto isOf = [&](const Value *v, OpKind kind, const Value *a, const Value *b) {
    return v->def && v->def->kind == kind && iterations.same(v->def->operands[0], a) &&
           iterations.same(v->def->operands[1], b);
  };
  const Op *select = middle->def;
  if (!select || select->kind != OpKind::Select || select->operands[2] != end)
    return false;
  const Op *isMore = select->operands[0]->def;
  if (!isMore || isMore->kind != OpKind::CmpI || isMore->pred() != ir::CmpPred::Sgt)
    return false;
  const Value *left = isMore->operands[0], *held = isMore->operands[1];
  const std::optional<int64_t> n = ir::constantInt(held);
  const bool isSteps = n && by ? *by > 0 && *n % *by == 0
                               : held->def && held->def->kind == OpKind::Mul &&
                                     iterations.same(held->def->operands[0], step) &&
                                     ir::constantInt(held->def->operands[1]);
  if (from && n)
    return isSteps && ir::constantInt(select->operands[1]) == *from + *n &&
           ((*from == 0 && left == end) || isOf(left, OpKind::Sub, end, begin));
  return isSteps && ((from == 0 && left == end && select->operands[1] == held) ||
                     (isOf(left, OpKind::Sub, end, begin) && isOf(select->operands[1], OpKind::Add, begin, held)));
}

bool goesOn(const Op &loop, const Op &before) {
  if (loop.reverse() || before.reverse() || loop.operands[0] != before.operands[1] ||
      loop.operands[2] != before.operands[2])
    return false;
  std::vector<const Op *> now, then;
  addStores(*loop.region(0), now);
  addStores(*before.region(0), then);
  SameIterations iterations(before, loop, SameIterations::Case::GoesOn);
  return beginsAtStep(loop, before, iterations) && std::ranges::equal(then, now, [&](const Op *a, const Op *b) {
           return iterations.same(a->operands[0], b->operands[0]);
         });
}

} // namespace tegula::gpu
