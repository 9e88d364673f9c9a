// See RelativeSums.h.
#include "passes/RelativeSums.h"
#include "ir/Builder.h"
#include "ir/Walk.h"
#include "passes/Extremum.h"
#include "passes/Users.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>
#include <vector>

namespace tegula {

using namespace ir;

namespace {

bool isView(const Op *op) {
  return op && (op->kind == OpKind::Splat || op->kind == OpKind::ExpandDims || op->kind == OpKind::Broadcast);
}
bool isMinusInfinity(const Value *v) {
  return constantFloat(behindSpreads(v)) == -std::numeric_limits<double>::infinity();
}
bool isExponential(const Op &op) { return op.kind == OpKind::Exp || op.kind == OpKind::Exp2; }

/// One maximum and its sums.
class SumsOfTop {
public:
  SumsOfTop(const Op &loop, const Users &users, size_t top)
      : loop_(loop), body_(*loop.region(0)), users_(users), top_(top), old_(body_.args[1 + top]) {}

  void find(std::vector<CarriedRole> &roles) {
    if (old_->type.elem != Elem::F32 || !isMaximum())
      return;
    for (size_t i = 0; i < roles.size(); ++i)
      if (i != top_ && roles[i].kind == CarriedRole::Kind::Other)
        addSum(i);
    if (sums_.empty() || hasAxes_ || !isClosed() || !startsRight())
      return;
    roles[top_] = {.kind = CarriedRole::Kind::Top, .combine = kind_, .isGuarded = sums_.front().isGuarded()};
    for (const Sum &s : sums_)
      roles[s.number] = {.kind = CarriedRole::Kind::Scaled,
                         .combine = OpKind::FAdd,
                         .startsOnce = true,
                         .top = top_,
                         .scale = s.scale,
                         .factor = s.factor,
                         .isWeighted = s.isWeighted,
                         .isGuarded = s.isGuarded()};
  }

private:
  struct Sum {
    size_t number;
    const Op *scale = nullptr; // the exponential
    std::optional<double> factor;
    // factor of the sum, and summand of an element, while the maximum is -inf; nullopt: NaN
    std::optional<double> scaled, added;
    bool isWeighted = false;
    bool isGuarded() const { return scaled && added; }
  };

  /// An exponential of a difference to the maximum.
  struct Relative {
    const Op *exponential;
    const Value *from;            // the minuend of the difference
    std::optional<double> factor; // before the exponential
    std::optional<double> empty;  // the result where the maximum and `from` are -inf
    bool dropsNaN;                // there
  };

  const Value *nextOf(size_t i) const { return body_.terminator()->operands[i]; }
  const Op *in(const Value *v) const { return v->def && v->def->parent == &body_ ? v->def : nullptr; }
  const Op *in(const Value *v, OpKind kind) const { return in(v) && v->def->kind == kind ? v->def : nullptr; }
  void allow(const Op *op) { allowed_.insert(op); }
  /// Looks through view operations.
  const Value *through(const Value *v) {
    for (; isView(in(v)); v = v->def->operands[0]) {
      allow(v->def);
      if (v->def->kind == OpKind::ExpandDims)
        along(v->def->axis());
    }
    return v;
  }
  /// Records an axis: blocks are reduced and row values broadcast along one axis only.
  void along(int64_t axis) {
    if (axis_.value_or(axis) != axis)
      hasAxes_ = true;
    axis_ = axis;
  }

  bool isMaximum() {
    const Value *now = nextOf(top_);
    if (const Op *masked = in(now, OpKind::Select); masked && masked->operands[2] == old_ && !maximumOf(now)) {
      allow(masked);
      mask_ = masked->operands[0];
      now = masked->operands[1];
    }
    now_ = now;
    const Op *most = in(now);
    if (!most)
      return false;
    if (most->kind == OpKind::Reduce) { // over the block and the maximum so far
      const std::optional<OpKind> how = maximumOfElements(*most);
      const std::optional<MaximumOf> both = how ? maximumOf(most->operands[0]) : std::nullopt;
      if (!both || both->kind != *how || !in(most->operands[0]) || !old_->type.isScalar())
        return false;
      const bool isFirst = behindSpreads(both->a) == old_;
      if (!isFirst && behindSpreads(both->b) != old_)
        return false;
      allow(most);
      allowMaximum(most->operands[0]);
      through(isFirst ? both->a : both->b);
      kind_ = *how;
      elements_ = isFirst ? both->b : both->a;
    } else {
      const std::optional<MaximumOf> both = maximumOf(now);
      if (!both || (both->a != old_ && both->b != old_))
        return false;
      allowMaximum(now);
      kind_ = both->kind;
      elements_ = both->a == old_ ? both->b : both->a;
      if (const Op *reduce = elements_->def;
          reduce && reduce->kind == OpKind::Reduce && maximumOfElements(*reduce) == kind_) {
        elements_ = reduce->operands[0];
        along(reduce->axis());
      }
    }
    outside_.push_back(elements_);
    return true;
  }

  void allowMaximum(const Value *v) {
    allow(v->def);
    if (v->def->kind == OpKind::Select)
      for (const Op *op : {v->def->operands[0]->def, v->def->operands[0]->def->operands[0]->def,
                           v->def->operands[0]->def->operands[1]->def})
        allow(op);
  }

  /// Whether the condition says that the maximum is -inf (true), or that it is not (false).
  std::optional<bool> isEmpty(const Value *condition) {
    const Value *v = behindSpreads(condition);
    const Op *compare = in(v, OpKind::CmpF);
    if (!compare || (compare->pred() != CmpPred::Oeq && compare->pred() != CmpPred::Une))
      return std::nullopt;
    for (const size_t i : {0, 1})
      if (behindSpreads(compare->operands[i]) == now_ && isMinusInfinity(compare->operands[1 - i])) {
        through(condition);
        through(compare->operands[i]);
        allow(compare);
        return compare->pred() == CmpPred::Oeq;
      }
    return std::nullopt;
  }

  /// The operands of a select by that condition: for a maximum that is a number, and for -inf.
  struct Guarded {
    const Value *usual, *empty;
  };
  std::optional<Guarded> guarded(const Value *v) {
    const Op *select = in(v, OpKind::Select);
    const std::optional<bool> when = select ? isEmpty(select->operands[0]) : std::nullopt;
    if (!when)
      return std::nullopt;
    allow(select);
    return *when ? Guarded{select->operands[2], select->operands[1]}
                 : Guarded{select->operands[1], select->operands[2]};
  }

  /// exp(factor * (from - now)), with or without guards.
  std::optional<Relative> relative(const Value *v) {
    Relative r{};
    if (const std::optional<Guarded> g = guarded(v)) {
      r.empty = constantFloat(behindSpreads(g->empty));
      if (!r.empty)
        return std::nullopt;
      r.dropsNaN = true;
      v = g->usual;
    }
    r.exponential = in(v);
    if (!r.exponential || !isExponential(*r.exponential))
      return std::nullopt;
    const auto exponentialOf = [&](double x) {
      return r.exponential->kind == OpKind::Exp ? std::exp(x) : std::exp2(x);
    };
    v = r.exponential->operands[0];
    std::vector<const Op *> on{r.exponential};
    if (const Op *product = in(v, OpKind::FMul))
      for (const size_t i : {0, 1})
        if (const std::optional<double> c = constantFloat(product->operands[1 - i]); c && *c > 0 && !r.factor) {
          r.factor = c;
          on.push_back(product);
          v = product->operands[i];
        }
    if (const std::optional<Guarded> g = guarded(v)) {
      const std::optional<double> c = constantFloat(behindSpreads(g->empty));
      if (!c)
        return std::nullopt;
      r.empty = r.empty ? r.empty : exponentialOf(*c * r.factor.value_or(1));
      r.dropsNaN = true;
      v = g->usual;
    }
    const Op *difference = in(v, OpKind::FSub);
    if (!difference)
      return std::nullopt;
    on.push_back(difference);
    const Value *subtracted = through(difference->operands[1]);
    if (const std::optional<Guarded> g = guarded(subtracted)) {
      const std::optional<double> c = constantFloat(behindSpreads(g->empty));
      if (!c || !std::isfinite(*c))
        return std::nullopt;
      r.empty = r.empty ? r.empty : 0; // exp(-inf - c)
      subtracted = through(g->usual);
    }
    if (subtracted != now_)
      return std::nullopt;
    for (const Op *op : on)
      allow(op);
    r.from = difference->operands[0];
    return r;
  }

  void addSum(size_t number) {
    const Value *const arg = body_.args[1 + number], *v = nextOf(number);
    if (arg->type.elem != Elem::F32)
      return;
    Sum s{.number = number};
    if (mask_) {
      const Op *masked = in(v, OpKind::Select);
      if (!masked || masked->operands[0] != mask_ || masked->operands[2] != arg)
        return;
      allow(masked);
      v = masked->operands[1];
    }
    const Op *add = in(v);
    if (!add || (add->kind != OpKind::FAdd && add->kind != OpKind::Fma))
      return;
    const Op *scaled = nullptr;
    const Value *scale = nullptr, *added = nullptr;
    const auto take = [&](const Op &product) {
      for (const size_t i : {0, 1})
        if (product.operands[i] == arg)
          scaled = &product, scale = product.operands[1 - i];
    };
    if (add->kind == OpKind::Fma) {
      take(*add);
      added = add->operands[2];
    } else {
      for (const size_t i : {0, 1})
        if (const Op *product = in(add->operands[i], OpKind::FMul); product && !scaled) {
          take(*product);
          added = add->operands[1 - i];
        }
    }
    const std::optional<Relative> fall = scaled ? relative(scale) : std::nullopt;
    if (!fall || fall->from != old_)
      return;
    if (const Op *sumOf = in(added, OpKind::Reduce)) {
      if (onlyOperation(*sumOf) != OpKind::FAdd)
        return;
      allow(sumOf);
      added = sumOf->operands[0];
      along(sumOf->axis());
    }
    s.scale = fall->exponential;
    s.factor = fall->factor;
    s.scaled = fall->empty;
    if (std::vector<const Value *> masks; !addsExponential(added, s, masks))
      return;
    allow(add);
    allow(scaled);
    sums_.push_back(s);
  }

  /// An exponential relative to the maximum, also under masks and times something else; none is larger than 1.
  bool addsExponential(const Value *v, Sum &s, std::vector<const Value *> &masks) {
    if (const std::optional<Relative> r = relative(v)) {
      if (r->exponential->kind != s.scale->kind || r->factor != s.factor || !isNoMore(r->from, masks) ||
          (r->dropsNaN && kind_ != OpKind::Maximum))
        return false;
      s.added = r->empty;
      s.isWeighted |= !std::ranges::all_of(masks, [&](const Value *mask) { return isNothingBeside(mask, r->from); });
      return true;
    }
    const Op *op = in(v);
    if (!op || (op->kind != OpKind::FMul && op->kind != OpKind::Select))
      return false;
    const bool isProduct = op->kind == OpKind::FMul;
    if (!isProduct) {
      if (constantFloat(behindSpreads(op->operands[2])) != 0.0)
        return false;
      masks.push_back(op->operands[0]);
    }
    for (const size_t i : {isProduct ? 0 : 1, 1})
      if (addsExponential(op->operands[i], s, masks)) {
        allow(op);
        outside_.push_back(op->operands[isProduct ? 1 - i : 0]);
        s.isWeighted |= isProduct;
        return true;
      }
    return false;
  }

  /// Whether the maximum's elements are -inf where the mask is off. Then the mask does not change the sum of their
  /// exponentials.
  bool isNothingBeside(const Value *mask, const Value *y) const {
    if (const Op *select = in(elements_, OpKind::Select);
        select && select->operands[0] == mask && isMinusInfinity(select->operands[2]))
      return true;
    if (const Op *widened = in(y, OpKind::FpExt))
      y = widened->operands[0];
    const Op *load = in(y, OpKind::Load);
    return load && load->operands.size() > 2 && load->operands[1] == mask && isMinusInfinity(load->operands[2]);
  }

  /// Whether `y` is at most the maximum where all masks are on: it is the operand of the maximum, or that operand is
  /// `y` under one of the masks and -inf elsewhere.
  bool isNoMore(const Value *y, const std::vector<const Value *> &masks) const {
    const Op *select = in(elements_, OpKind::Select);
    return y == elements_ || (select && select->operands[1] == y && isMinusInfinity(select->operands[2]) &&
                              std::ranges::find(masks, select->operands[0]) != masks.end());
  }

  /// Whether the maximum, the sums, and values computed from them have no other uses in the loop.
  bool isClosed() const {
    const Op *const end = body_.terminator();
    const auto isSum = [&](size_t i) {
      return i == top_ || std::ranges::any_of(sums_, [&](const Sum &s) { return s.number == i; });
    };
    const auto isSeenRight = [&](const Value *v, bool isState) {
      for (size_t i = 0; i < end->operands.size(); ++i)
        if (end->operands[i] == v && (!isState || !isSum(i)))
          return false;
      return std::ranges::all_of(users_.of(v), [&](const Op *user) { return user == end || allowed_.contains(user); });
    };
    for (size_t i = 0; i < loop_.results.size(); ++i)
      if (isSum(i) && !isSeenRight(body_.args[1 + i], false))
        return false;
    // Each operation that depends on a carried value must be one of those that were seen, and its other operands must
    // not depend on one.
    for (const Op *op : allowed_)
      if (!isSeenRight(op->result(), isNext(op->result())))
        return false;
    const auto isState = [&](const Value *v) {
      return (v->def && allowed_.contains(v->def)) ||
             (!v->def && v->block == &body_ && v->index && isSum(v->index - 1));
    };
    return std::ranges::none_of(outside_, isState) && !(mask_ && isState(mask_));
  }

  bool isNext(const Value *v) const {
    return std::ranges::count(body_.terminator()->operands, v) == 1 &&
           (v == nextOf(top_) || std::ranges::any_of(sums_, [&](const Sum &s) { return nextOf(s.number) == v; }));
  }

  /// Whether the initial values allow parts: each starts from the same maximum, and only one from the initial sum.
  bool startsRight() const {
    const std::optional<double> start = constantFloat(loop_.operands[3 + top_]);
    if (!start)
      return false;
    if (!std::isinf(*start))
      return true;
    const bool isGuarded = sums_.front().isGuarded();
    for (const Sum &s : sums_) {
      if (constantFloat(loop_.operands[3 + s.number]) != 0.0 || s.isGuarded() != isGuarded ||
          s.scaled.has_value() != s.added.has_value())
        return false;
      // The summand for each -inf must be the same in all parts, and vanish with the first number.
      if (isGuarded && *s.added != 0 && *s.scaled != 1)
        return false;
    }
    return isGuarded || (!mask_ && std::ranges::any_of(sums_, [](const Sum &s) { return !s.isWeighted; }));
  }

  const Op &loop_;
  const Block &body_;
  const Users &users_;
  const size_t top_;
  const Value *const old_;
  const Value *now_ = nullptr, *mask_ = nullptr, *elements_ = nullptr;
  OpKind kind_{};
  std::optional<int64_t> axis_;
  bool hasAxes_ = false; // several
  std::vector<Sum> sums_;
  std::unordered_set<const Op *> allowed_;
  std::vector<const Value *> outside_; // operands that must not depend on carried values
};

} // namespace

std::optional<MaximumOf> maximumOf(const Value *v) {
  const Op *op = v->def;
  if (!op)
    return std::nullopt;
  if (op->kind == OpKind::MaxNum || op->kind == OpKind::Maximum)
    return MaximumOf{op->kind, op->operands[0], op->operands[1]};
  const Op *either = op->kind == OpKind::Select ? op->operands[0]->def : nullptr;
  if (!either || either->kind != OpKind::Or)
    return std::nullopt;
  const Value *a = op->operands[1], *b = op->operands[2];
  const auto compares = [](const Value *condition, CmpPred how, const Value *x, const Value *y) {
    const Op *compare = condition->def;
    return compare && compare->kind == OpKind::CmpF && compare->pred() == how && compare->operands[0] == x &&
           compare->operands[1] == y;
  };
  for (const size_t i : {0, 1})
    if (compares(either->operands[i], CmpPred::Ogt, a, b) && compares(either->operands[1 - i], CmpPred::Une, a, a))
      return MaximumOf{OpKind::Maximum, a, b};
  return std::nullopt;
}

std::optional<OpKind> maximumOfElements(const Op &reduce) {
  if (reduce.kind != OpKind::Reduce || reduce.operands.size() != 1)
    return std::nullopt;
  const Block &body = *reduce.region(0);
  const std::optional<MaximumOf> both = maximumOf(body.terminator()->operands[0]);
  if (!both || both->a == both->b || both->a->def || both->b->def)
    return std::nullopt;
  return both->kind;
}

const Value *behindSpreads(const Value *v) {
  while (isView(v->def))
    v = v->def->operands[0];
  return v;
}

void findRelativeSums(const Op &loop, std::vector<CarriedRole> &roles) {
  const Users users(*loop.region(0));
  for (size_t i = 0; i < roles.size(); ++i)
    if (roles[i].kind == CarriedRole::Kind::Other)
      SumsOfTop(loop, users, i).find(roles);
}

} // namespace tegula
