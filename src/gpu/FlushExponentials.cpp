// See FlushExponentials.h.
#include "gpu/FlushExponentials.h"
#include "gpu/BlockEdit.h"
#include "gpu/Layouts.h"
#include "gpu/SameIterations.h"
#include "passes/ArgumentAccess.h"
#include "passes/Extremum.h"
#include "passes/RelativeSums.h"
#include "passes/Users.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace tegula::gpu {

using namespace ir;

namespace {

constexpr unsigned kDepth = 16; // the longest chain of operations to look through

/// The maximum to which an exponential is relative: found by these reductions, the last one first.
struct Row {
  std::vector<const Op *> maxima;
  bool isOfLoop = false; // a running maximum of an earlier loop
  bool isWhole = true;   // the exponential of the largest element is among them
};

class Flusher {
public:
  explicit Flusher(const Function &kernel) : kernel_(*kernel.block()), users_(kernel_) { run(*kernel.block()); }

private:
  void run(const Block &b) {
    for (Op *op : b.ops) {
      row_ = {};
      if (op->kind == OpKind::Exp && op->approx() && !op->fast() && op->result()->type.elem == Elem::F32 &&
          op->result()->type.isTensor() &&
          ((isBelowMaximum(op->operands[0], 0) && isHidden(op->result(), 0, row_.isWhole || row_.maxima.empty())) ||
           isOnlyAddedToConstants(op->result(), 0)))
        op->set(attr::fast, true);
      for (Region *r : op->regions)
        run(*r->block);
    }
  }

  /// Is it a difference to a maximum of its row, possibly scaled, or a constant where a mask is off?
  bool isBelowMaximum(const Value *v, unsigned depth) {
    const Op *op = behindViews(v)->def;
    if (!op || depth > kDepth)
      return false;
    switch (op->kind) {
    case OpKind::Const: return true;
    case OpKind::FSub: return covers(op->operands[1], op->operands[0], nullptr, depth + 1);
    case OpKind::Select:
      if (!isBelowMaximum(op->operands[1], depth + 1) || !isBelowMaximum(op->operands[2], depth + 1))
        return false;
      row_.isWhole &= keepsLargest(*op, op->operands[1]);
      return true;
    case OpKind::FMul: // by one number
      return std::ranges::any_of(std::array{0, 1}, [&](int i) {
        return isUniform(op->operands[1 - i]) && op->operands[i]->def &&
               behindViews(op->operands[i])->def->kind == OpKind::FSub && isBelowMaximum(op->operands[i], depth + 1);
      });
    default: return false;
    }
  }

  static bool isUniform(const Value *v) {
    v = behindViews(v);
    return v->type.isScalar() || (v->def && v->def->kind == OpKind::Const);
  }

  /// Is `top` a maximum over a row of `x` and of other numbers? A scale by one number may stand before the maximum or
  /// after it. `loops`: of an iteration of the first loop, of `x` in that of the second.
  bool covers(const Value *top, const Value *x, SameIterations *loops, unsigned depth) {
    top = behindViews(top);
    x = behindViews(x);
    if (loops ? isSameElement(top, x, *loops, depth) : top == x)
      return true;
    const Op *op = top->def;
    if (!op || depth > kDepth)
      return false;
    if (op->kind == OpKind::Reduce) {
      row_.maxima.push_back(op);
      if (maximumOfElements(*op) && covers(op->operands[0], x, loops, depth + 1))
        return true;
      row_.maxima.pop_back();
      return false;
    }
    if (op->kind == OpKind::ClusterGather) // the results of all CTAs for their parts of the row
      return covers(op->operands[0], x, loops, depth + 1);
    if (op->kind == OpKind::For)
      return !loops && coversAsLoop(*op, top->index, x, depth);
    if (const std::optional<MaximumOf> both = maximumOf(top))
      return (!isFloor(both->b) && covers(both->a, x, loops, depth + 1)) ||
             (!isFloor(both->a) && covers(both->b, x, loops, depth + 1));
    // a guard for rows without elements, for which the value does not matter, or a mask, whose off elements are unused
    if (op->kind == OpKind::Select)
      return covers(op->operands[1], x, loops, depth + 1) || covers(op->operands[2], x, loops, depth + 1);
    if (op->kind == OpKind::FMul && x->def && x->def->kind == OpKind::FMul)
      for (size_t i : {0, 1})
        for (size_t j : {0, 1})
          if (behindViews(op->operands[i]) == behindViews(x->def->operands[j]) && isUniform(op->operands[i]))
            return covers(op->operands[1 - i], x->def->operands[1 - j], loops, depth + 1);
    return false;
  }

  /// Is a running maximum of a loop one for `x`, which a later loop loads again in the same iterations?
  bool coversAsLoop(const Op &first, size_t result, const Value *x, unsigned depth) {
    const Op *second = x->def ? x->def->parent->parent->op : nullptr;
    if (!second || second->kind != OpKind::For || second == &first)
      return false;
    const Block &body = *first.region(0);
    const auto isCarried = [&](const Value *v) { return behindViews(v) == body.args[result + 1]; };
    const Value *last = behindViews(body.terminator()->operands[result]);
    // where there are elements
    while (last->def && last->def->kind == OpKind::Select && isCarried(last->def->operands[2]))
      last = behindViews(last->def->operands[1]);
    const std::optional<MaximumOf> next = maximumOf(last);
    if (!next || isCarried(next->a) == isCarried(next->b) || isFloor(body.args[result + 1]))
      return false;
    SameIterations loops(first, *second);
    row_.isOfLoop = loops.haveSameBounds() && covers(isCarried(next->a) ? next->b : next->a, x, &loops, depth + 1);
    return row_.isOfLoop;
  }

  /// Is it so low that it stands for no element in a maximum?
  static bool isLowest(const Value *v) {
    const Op *c = behindViews(v)->def;
    return c && c->kind == OpKind::Const && c->floatValue() <= -1e30;
  }

  /// A number that no element of a row need reach, as in `maximum(max(x), 0)`, or one that was loaded: or the beginning
  /// of a running maximum that is one.
  static bool isFloor(const Value *v) {
    v = behindViews(v);
    if (!v->def && v->index && v->block->parent->op && v->block->parent->op->kind == OpKind::For)
      v = behindViews(v->block->parent->op->operands[v->index + 2]);
    return v->def && (v->def->kind == OpKind::Load || (v->def->kind == OpKind::Const && !isLowest(v)));
  }

  static void addConditions(const Value *mask, std::vector<const Value *> &out) {
    mask = behindViews(mask);
    if (mask->def && mask->def->kind == OpKind::And) {
      addConditions(mask->def->operands[0], out);
      addConditions(mask->def->operands[1], out);
    } else {
      out.push_back(mask);
    }
  }

  /// Adds the conditions that hold for all elements of the maximum: where one does not hold, the lowest number replaces
  /// the element.
  void addConditionsOfRow(const Value *x, std::vector<const Value *> &out, unsigned depth) const {
    const Op *op = behindViews(x)->def;
    if (!op || depth > kDepth)
      return;
    if (op->kind == OpKind::Load && op->operands.size() > 2 && isLowest(op->operands[2]))
      addConditions(op->operands[1], out);
    else if (op->kind == OpKind::Select && isLowest(op->operands[2])) {
      addConditions(op->operands[0], out);
      addConditionsOfRow(op->operands[1], out, depth + 1);
      // the factor is one number, not below zero, or the row would have no maximum
    } else if (op->kind == OpKind::FMul || op->kind == OpKind::FpExt)
      addConditionsOfRow(op->operands[0], out, depth + 1);
  }

  /// Does this selection of exponentials keep the largest one of the row? It does if its condition holds for all
  /// elements of the maximum.
  bool keepsLargest(const Op &select, const Value *chosen) const {
    if (row_.maxima.empty() || select.operands[1] != chosen)
      return false;
    std::vector<const Value *> wanted, row;
    addConditions(select.operands[0], wanted);
    addConditionsOfRow(row_.maxima.back()->operands[0], row, 0);
    return std::ranges::all_of(wanted, [&](const Value *c) { return std::ranges::find(row, c) != row.end(); });
  }

  bool isSameElement(const Value *a, const Value *b, SameIterations &loops, unsigned depth) const {
    a = behindViews(a);
    b = behindViews(b);
    if (loops.same(a, b))
      return true;
    if (!a->def || !b->def || a->def->kind != b->def->kind || depth > kDepth)
      return false;
    const Op &x = *a->def, &y = *b->def;
    if (x.kind == OpKind::Load) // without a mask, or with the same one; what stands for others does not matter
      return (x.operands.size() == 1 || (y.operands.size() > 1 && loops.same(x.operands[1], y.operands[1]))) &&
             loops.same(x.operands[0], y.operands[0]) && !isChanged(kernel_, y);
    return x.has(traits::Elementwise) && x.has(traits::Pure) && x.operands.size() == y.operands.size() &&
           std::ranges::equal(x.operands, y.operands,
                              [&](const Value *p, const Value *q) { return isSameElement(p, q, loops, depth + 1); });
  }

  /// May the kernel store to the loaded memory, other than through the same pointer after the load?
  static bool isChanged(const Block &b, const Op &load) {
    const int memory = memoryOf(load.operands[0]);
    return memory < 0 || std::ranges::any_of(b.ops, [&](const Op *op) {
             if (std::ranges::any_of(op->regions, [&](const Region *r) { return isChanged(*r->block, load); }))
               return true;
             if (op->kind == OpKind::Store)
               return (memoryOf(op->operands[0]) < 0 || memoryOf(op->operands[0]) == memory) &&
                      !(op->operands[0] == load.operands[0] && isBehind(*op, load));
             return op->regions.empty() && writesGlobal(*op);
           });
  }

  static bool isBehind(const Op &op, const Op &other) {
    return op.parent == other.parent && positionOf(*op.parent, &op) > positionOf(*op.parent, &other);
  }

  /// Does a sum along this axis include the element that is the maximum? `n`: the number of maxima whose axis is not
  /// summed over yet.
  bool sumsRow(const Type &summed, unsigned axis, const Value *sum, size_t n) const {
    if (!n)
      return true;
    const Op &maximum = *row_.maxima[n - 1];
    return maximum.operands[0]->type.shape == summed.shape && maximum.axis() == axis &&
           (n == 1 || (sum && sumsRest(sum, n - 1, 0)));
  }

  /// Is a sum over the first axes only summed over the other axes?
  bool sumsRest(const Value *v, size_t n, unsigned depth) const {
    return depth <= kDepth && std::ranges::all_of(users_.of(v), [&](const Op *user) {
             if (isView(user->kind) || user->kind == OpKind::ClusterGather)
               return sumsRest(user->result(), n, depth + 1);
             return user->kind == OpKind::Reduce && onlyOperation(*user) == OpKind::FAdd &&
                    sumsRow(user->operands[0]->type, user->axis(), user->result(), n);
           });
  }

  /// Is adding it to a value that its loop carries its only use?
  bool isAddedToCarried(const Value *v) const {
    const Op *add = users_.only(v);
    while (add && isView(add->kind))
      add = users_.only(add->result());
    const Op *yield = add && add->kind == OpKind::FAdd ? users_.only(add->result()) : nullptr;
    return yield && yield->kind == OpKind::Yield && std::ranges::any_of(add->operands, [&](const Value *o) {
             return !o->def && o->block == yield->parent && yield->operands[o->index - 1] == add->result();
           });
  }

  /// Does a change of less than 2^-126 of `v` only show in sums of a row whose largest exponential is 1? In a later
  /// loop the largest one may be in another iteration. `hasLargest`: the elements of `v` are the whole row, not a
  /// masked or weighted one, so that their sum includes the largest one.
  bool isHidden(const Value *v, unsigned depth, bool hasLargest) const {
    if (depth > kDepth)
      return false;
    std::span<Op *const> all = users_.of(v);
    return !all.empty() && std::ranges::all_of(all, [&](const Op *user) {
      // The factor that scales a running sum is no row: `maximum(m_old, m)` is the larger of two values.
      const auto keeps = [&](bool stays) { return hasLargest && (stays || row_.maxima.empty()); };
      const auto isHiddenBehind = [&](bool stays) { return isHidden(user->result(), depth + 1, keeps(stays)); };
      const auto isScaled = [&] { return isUniform(user->operands[user->operands[0] == v ? 1 : 0]); };
      switch (user->kind) {
      case OpKind::FAdd:
      case OpKind::FSub: return hasLargest && !row_.isOfLoop;
      case OpKind::Dot: {
        const unsigned rank = v->type.shape.rank();
        return !row_.isOfLoop &&
               (user->operands[2] == v ||
                sumsRow(v->type, user->operands[0] == v ? rank - 1 : rank - 2, nullptr, row_.maxima.size()));
      }
      case OpKind::FpTrunc: return true;
      case OpKind::Reduce:
        return hasLargest && onlyOperation(*user) == OpKind::FAdd &&
               sumsRow(user->operands[0]->type, user->axis(), user->result(), row_.maxima.size()) &&
               (!row_.isOfLoop || isAddedToCarried(user->result()));
      case OpKind::Fma: return user->operands[2] != v && !row_.isOfLoop && keeps(isScaled());
      case OpKind::FDiv: return user->operands[1] != v && isHiddenBehind(true);
      case OpKind::Select: return user->operands[0] != v && isHiddenBehind(keepsLargest(*user, v));
      case OpKind::FMul: return isHiddenBehind(isScaled());
      default: return isView(user->kind) && isHiddenBehind(true);
      }
    });
  }

  /// Is it only added to constants that a change of less than 2^-126 does not affect: `1 + exp(-x)`?
  bool isOnlyAddedToConstants(const Value *v, unsigned depth) const {
    std::span<Op *const> all = users_.of(v);
    return depth <= kDepth && !all.empty() && std::ranges::all_of(all, [&](const Op *user) {
      if (isView(user->kind)) return isOnlyAddedToConstants(user->result(), depth + 1);
      return (user->kind == OpKind::FAdd || user->kind == OpKind::FSub) &&
             std::ranges::any_of(user->operands, [](const Value *o) {
               const Op *c = behindViews(o)->def;
               return c && c->kind == OpKind::Const && std::abs(c->floatValue()) >= 0x1p-100;
             });
    });
  }

  const Block &kernel_;
  Users users_;
  Row row_; // the row of the current exponential
};

} // namespace

void flushExponentials(Module &m) { Flusher{*m.kernel()}; }

} // namespace tegula::gpu
