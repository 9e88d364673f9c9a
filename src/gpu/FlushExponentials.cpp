// See FlushExponentials.h.
#include "gpu/FlushExponentials.h"
#include "gpu/Layouts.h"
#include "passes/Extremum.h"
#include "passes/Users.h"
#include <algorithm>
#include <array>
#include <cmath>

namespace tegula::gpu {

using namespace ir;

namespace {

constexpr unsigned kDepth = 16; // operations in a row that are looked through

bool isView(OpKind k) { return k == OpKind::Convert || renames(k); }

/// What a value is made of by operations that only place elements.
const Value *behindViews(const Value *v) {
  while (v->def && isView(v->def->kind) && v->def->operands.size() == 1)
    v = v->def->operands[0];
  return v;
}

bool isMaximum(OpKind k) { return k == OpKind::MaxNum || k == OpKind::Maximum; }

class Flusher {
public:
  explicit Flusher(const Function &kernel) : users_(*kernel.block()) { run(*kernel.block()); }

private:
  void run(const Block &b) {
    for (Op *op : b.ops) {
      if (op->kind == OpKind::Exp && op->approx() && !op->fast() && op->result()->type.elem == Elem::F32 && op->result()->type.isTensor() &&
          ((isBelowMaximum(op->operands[0], 0) && isHidden(op->result(), 0)) || isOnlyAddedToConstants(op->result(), 0)))
        op->set(attr::fast, true);
      for (Region *r : op->regions)
        run(*r->block);
    }
  }

  /// Is it a difference to a maximum of its row, perhaps scaled, or a constant where a mask does not hold?
  static bool isBelowMaximum(const Value *v, unsigned depth) {
    const Op *op = behindViews(v)->def;
    if (!op || depth > kDepth)
      return false;
    switch (op->kind) {
    case OpKind::Const: return true;
    case OpKind::FSub: return covers(op->operands[1], op->operands[0], depth + 1);
    case OpKind::Select: return isBelowMaximum(op->operands[1], depth + 1) && isBelowMaximum(op->operands[2], depth + 1);
    case OpKind::FMul: // by one number
      return std::ranges::any_of(std::array{0, 1}, [&](int i) { return isUniform(op->operands[1 - i]) && op->operands[i]->def && behindViews(op->operands[i])->def->kind == OpKind::FSub && isBelowMaximum(op->operands[i], depth + 1); });
    default: return false;
    }
  }

  static bool isUniform(const Value *v) {
    v = behindViews(v);
    return v->type.isScalar() || (v->def && v->def->kind == OpKind::Const);
  }

  /// Is `top` a maximum over a row of `x` and of other numbers? A scale by one number may stand in front of the maximum or behind it.
  static bool covers(const Value *top, const Value *x, unsigned depth) {
    top = behindViews(top);
    x = behindViews(x);
    if (top == x)
      return true;
    const Op *op = top->def;
    if (!op || depth > kDepth)
      return false;
    if (op->kind == OpKind::Reduce) {
      const std::optional<OpKind> k = onlyOperation(*op);
      return k && isMaximum(*k) && covers(op->operands[0], x, depth + 1);
    }
    if (op->kind == OpKind::ClusterGather) // what each CTA has of its part of the row, for all of them
      return covers(op->operands[0], x, depth + 1);
    if (isMaximum(op->kind))
      return std::ranges::any_of(op->operands, [&](const Value *o) { return covers(o, x, depth + 1); });
    if (op->kind == OpKind::Select) // a guard for rows without elements, for which it does not matter
      return covers(op->operands[1], x, depth + 1) || covers(op->operands[2], x, depth + 1);
    if (op->kind == OpKind::FMul && x->def && x->def->kind == OpKind::FMul)
      for (size_t i : {0, 1})
        for (size_t j : {0, 1})
          if (behindViews(op->operands[i]) == behindViews(x->def->operands[j]) && isUniform(op->operands[i]))
            return covers(op->operands[1 - i], x->def->operands[1 - j], depth + 1);
    return false;
  }

  /// Does nobody see a difference below 2^-126 of it, other than in sums?
  bool isHidden(const Value *v, unsigned depth) const {
    if (depth > kDepth)
      return false;
    std::span<Op *const> all = users_.of(v);
    return !all.empty() && std::ranges::all_of(all, [&](const Op *user) {
      switch (user->kind) {
      case OpKind::FAdd:
      case OpKind::FSub:
      case OpKind::Dot: return true;
      case OpKind::FpTrunc: return true;
      case OpKind::Reduce: return onlyOperation(*user) == OpKind::FAdd;
      case OpKind::Fma: return user->operands[2] != v;
      case OpKind::FDiv: return user->operands[1] != v && isHidden(user->result(), depth + 1);
      case OpKind::Select: return user->operands[0] != v && isHidden(user->result(), depth + 1);
      case OpKind::FMul: return isHidden(user->result(), depth + 1);
      default: return isView(user->kind) && isHidden(user->result(), depth + 1);
      }
    });
  }

  /// To such as are not changed by less than 2^-126: `1 + exp(-x)`.
  bool isOnlyAddedToConstants(const Value *v, unsigned depth) const {
    std::span<Op *const> all = users_.of(v);
    return depth <= kDepth && !all.empty() && std::ranges::all_of(all, [&](const Op *user) {
      if (isView(user->kind)) return isOnlyAddedToConstants(user->result(), depth + 1);
      return (user->kind == OpKind::FAdd || user->kind == OpKind::FSub) && std::ranges::any_of(user->operands, [](const Value *o) {
        const Op *c = behindViews(o)->def;
        return c && c->kind == OpKind::Const && std::abs(c->floatValue()) >= 0x1p-100;
      });
    });
  }

  Users users_;
};

} // namespace

void flushExponentials(Module &m) { Flusher{*m.kernel()}; }

} // namespace tegula::gpu
