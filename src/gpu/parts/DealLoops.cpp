// See DealLoops.h.
#include "gpu/parts/DealLoops.h"
#include "gpu/BlockEdit.h"
#include "ir/Builder.h"
#include "ir/Clone.h"
#include "ir/Walk.h"
#include "passes/SplitLoops.h"
#include <algorithm>
#include <limits>

namespace tegula::gpu {

using namespace ir;

namespace {

class Dealer {
public:
  Dealer(Module &m, unsigned parts) : m_(m), b_(m), parts_(parts) {}

  void run(Block &kernel) {
    for (size_t i = 0; i < kernel.ops.size(); ++i) {
      Op *op = kernel.ops[i];
      if (op->kind == OpKind::If)
        for (Region *r : op->regions)
          run(*r->block);
      if (op->kind != OpKind::For || !op->splitParts())
        continue;
      Block front, behind;
      front.parent = behind.parent = kernel.parent;
      deal(*op, front, behind, kernel, i);
      const size_t before = front.ops.size(), after = behind.ops.size();
      splice(behind, kernel, i + 1);
      splice(front, kernel, i);
      i += before + after;
    }
  }

private:
  void deal(Op &loop, Block &front, Block &behind, Block &kernel, size_t at) {
    b_.setLoc(loop.loc);
    b_.setInlinedAt(loop.inlinedAt);
    b_.setBlock(&front);
    const std::vector<CarriedRole> roles = rolesOfParts(loop);
    Value *from = loop.operands[0], *to = loop.operands[1], *step = loop.operands[2];
    const Type t = from->type;
    auto number = [&](int64_t n) { return b_.constInt(t, n); };
    // Unsigned: the distance of any two bounds fits.
    Value *distance = loop.reverse() ? b_.binary(OpKind::Sub, from, to) : b_.binary(OpKind::Sub, to, from);
    Value *runs = b_.cmp(loop.reverse() ? CmpPred::Sgt : CmpPred::Slt, from, to);
    Value *trips = b_.select(
        runs,
        b_.binary(OpKind::Add, b_.binary(OpKind::UDiv, b_.binary(OpKind::Sub, distance, number(1)), step), number(1)),
        number(0));
    Value *rank = b_.create1(OpKind::ClusterRank, {}, Type::scalar(Elem::I32));
    Value *isFirst = b_.cmp(CmpPred::Eq, rank, b_.constI32(0));
    Value *first =
        t.elem == Elem::I32 ? rank : b_.cast(t.elem == Elem::I64 ? OpKind::ZExt : OpKind::Trunc, rank, t.elem);
    // As for other loops, one step beyond the end is assumed not to overflow.
    loop.operands[0] = b_.binary(loop.reverse() ? OpKind::Sub : OpKind::Add, from, b_.binary(OpKind::Mul, first, step));
    loop.operands[2] = b_.binary(OpKind::Mul, step, number(parts_));
    for (size_t i = 0; i < roles.size(); ++i) {
      Value *&init = loop.operands[3 + i];
      Value *start = init;
      if (roles[i].kind == CarriedRole::Kind::Steps) {
        b_.setBlock(&front);
        init = moved(loop, roles[i], start, first);
        b_.setBlock(&behind);
        Value *all = moved(loop, roles[i], start, trips); // by the original steps
        replaceUses(kernel, loop.results[i], all, at + 1);
        widen(loop, roles[i], i, front);
      } else if (roles[i].startsOnce) {
        b_.setBlock(&front);
        init = startOfSum(start, isFirst);
      } else if (roles[i].isFirst) {
        const_cast<Op *>(roles[i].isFirst)->operands[1] = loop.operands[0]; // the first iteration of this CTA
      } else if (roles[i].kind == CarriedRole::Kind::Top && !roles[i].isGuarded) {
        beginFinite(loop, i, roles, runs, front, behind, kernel, at);
      }
    }
  }

  /// A part of a row may have only elements of -inf where the row has others. So its maximum begins with the least
  /// finite number instead of -inf, as exp(-inf - -inf) would be NaN where nothing guards it. The row's results are
  /// corrected after the loop: -inf and NaN for rows with no other element, -inf and 0 for rows with no iteration.
  void beginFinite(Op &loop, size_t top, const std::vector<CarriedRole> &roles, Value *runs, Block &front,
                   Block &behind, Block &kernel, size_t at) {
    Value *&start = loop.operands[3 + top];
    if (constantFloat(start) != -std::numeric_limits<double>::infinity())
      return;
    const auto isSum = [&](const CarriedRole &r) { return r.kind == CarriedRole::Kind::Scaled && r.top == top; };
    const auto counts = std::ranges::find_if(roles, [&](const CarriedRole &r) { return isSum(r) && !r.isWeighted; });
    b_.setBlock(&behind);
    const Type &t = start->type;
    Value *const least = b_.constFloat(t, std::numeric_limits<float>::lowest()), *const most = loop.results[top],
                 *const all = loop.results[static_cast<size_t>(counts - roles.begin())];
    Value *const isEmpty = b_.binary(
        OpKind::And, b_.cmp(CmpPred::Oeq, most, least),
        b_.binary(OpKind::Xor, b_.cmp(CmpPred::Ogt, all, b_.constFloat(t, 0)), b_.constInt(t.withElem(Elem::I1), 1)));
    Value *const none = b_.select(b_.splat(runs, t.shape), b_.constFloat(t, std::numeric_limits<double>::quiet_NaN()),
                                  b_.constFloat(t, 0));
    replaceUses(kernel, most, b_.select(isEmpty, start, most), at + 1);
    for (size_t i = 0; i < roles.size(); ++i)
      if (isSum(roles[i]))
        replaceUses(kernel, loop.results[i], b_.select(isEmpty, none, loop.results[i]), at + 1);
    b_.setBlock(&front);
    start = b_.constFloat(t, std::numeric_limits<float>::lowest());
  }

  Value *startOfSum(Value *start, Value *isFirst) {
    const Type &t = start->type;
    Value *zero = t.isFloatLike() ? b_.constFloat(t, 0) : b_.constInt(t, 0);
    const Op *c = start->def;
    if (c && c->kind == OpKind::Const && (t.isFloatLike() ? c->floatValue(1) == 0 : c->intValue(1) == 0))
      return start;
    return b_.select(b_.splat(isFirst, t.shape), start, zero);
  }

  /// Makes a step of the loop `parts` original steps. Users of the value between two steps still get the value before
  /// their own step.
  void widen(Op &loop, const CarriedRole &role, size_t i, Block &front) {
    Block &body = *loop.region(0);
    bool isAlone = true; // the additions form a chain
    for (const Op *step : role.steps)
      isAlone &= usesOf(step->result(), body) == 1;
    if (isAlone) {
      for (const Op *of : role.steps) {
        Op *step = const_cast<Op *>(of);
        const unsigned added = addedOperand(*step, loop);
        b_.setBlock(&front);
        step->operands[added] = times(step->operands[added], step->kind == OpKind::AddPtr, parts_);
      }
      return;
    }
    Op *yield = body.terminator();
    body.ops.pop_back();
    for (const Op *step : role.steps) {
      b_.setBlock(&front);
      Value *by = times(step->operands[addedOperand(*step, loop)], step->kind == OpKind::AddPtr, parts_ - 1);
      b_.setBlock(&body);
      yield->operands[i] = b_.create1(step->kind, {yield->operands[i], by}, yield->operands[i]->type);
    }
    body.ops.push_back(yield);
    b_.setBlock(&front);
  }

  static size_t usesOf(const Value *v, const Block &b) {
    size_t n = 0;
    for (const Op *op : b.ops) {
      n += static_cast<size_t>(std::count(op->operands.begin(), op->operands.end(), v));
      for (const Region *r : op->regions)
        n += usesOf(v, *r->block);
    }
    return n;
  }

  /// A multiple of a loop-invariant number; offsets of pointers in 64 bits.
  Value *times(Value *by, bool isOffset, int64_t n) {
    const Type t = isOffset ? Type(by->type.withElem(Elem::I64)) : by->type;
    if (std::optional<int64_t> c = constantInt(by))
      return b_.constInt(t, *c * n);
    if (by->def && by->def->kind == OpKind::Splat)
      return b_.splat(times(by->def->operands[0], isOffset, n), by->type.shape);
    if (by->type.elem != t.elem)
      by = b_.cast(OpKind::SExt, by, t.elem);
    return b_.binary(OpKind::Mul, by, b_.constInt(t, n));
  }

  /// `start` after a given number of iterations. Offsets of pointers are in 64 bits, as if they were added one by one.
  Value *moved(const Op &loop, const CarriedRole &role, Value *start, Value *times) {
    for (const Op *step : role.steps) {
      Value *by = step->operands[addedOperand(*step, loop)];
      if (by->def && by->def->parent == loop.region(0)) { // a constant
        Cloner cloner(m_);
        by = cloner.copy(*by->def, *b_.block())->result();
      }
      const Elem e = step->kind == OpKind::AddPtr ? Elem::I64 : by->type.elem;
      if (by->type.elem != e)
        by = b_.cast(OpKind::SExt, by, e);
      const unsigned bits = 8 * byteWidth(e), have = 8 * byteWidth(times->type.elem);
      Value *n = bits == have ? times : b_.cast(bits > have ? OpKind::ZExt : OpKind::Trunc, times, e);
      start = b_.create1(step->kind, {start, b_.binary(OpKind::Mul, by, b_.splat(n, by->type.shape))}, start->type);
    }
    return start;
  }

  Module &m_;
  Builder b_;
  const unsigned parts_;
};

} // namespace

void dealLoops(Module &m, unsigned parts) { Dealer(m, parts).run(*m.kernel()->block()); }

} // namespace tegula::gpu
