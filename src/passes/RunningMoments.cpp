// See RunningMoments.h.
#include "passes/RunningMoments.h"
#include "ir/Builder.h"
#include "ir/Scalar.h"
#include "ir/Walk.h"
#include "passes/Users.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

namespace tegula {

using namespace ir;

namespace {

/// Running moments with one carried value as their weight.
class Moments {
public:
  Moments(const Op &loop, const Users &users)
      : loop_(loop), body_(*loop.region(0)), end_(*body_.terminator()), users_(users) {}

  void find(size_t weight, std::vector<CarriedRole> &roles) {
    const Value *weighs = stepOf(weight);
    const Op *count = weighs->def;
    if (!count || count->kind != OpKind::FAdd || constantFloat(count->operands[1]) != 1.0 ||
        count->operands[0] != body_.args[1 + weight])
      return;
    for (size_t mean = 0; mean < roles.size(); ++mean)
      for (size_t m2 = 0; m2 < roles.size(); ++m2)
        if (mean != weight && m2 != weight && m2 != mean && isRight({mean, m2, weight}))
          for (const size_t i : {mean, m2, weight})
            roles[i] = {.kind = CarriedRole::Kind::Moment,
                        .moments = {mean, m2, weight},
                        .isFirst = branches_[i] ? branches_[i]->operands[0]->def : nullptr};
  }

private:
  using Numbers = std::array<size_t, 3>;

  /// The next value behind an optional mask, in iterations after the first.
  const Value *stepOf(size_t i) {
    const Value *v = end_.operands[i];
    masks_[i] = nullptr;
    branches_[i] = nullptr;
    if (const Op *select = v->def;
        select && select->kind == OpKind::Select && select->operands[2] == body_.args[1 + i]) {
      masks_[i] = select;
      v = select->operands[1];
    }
    if (const Op *branch = v->def; branch && branch->kind == OpKind::If && branch->parent == &body_) {
      branches_[i] = branch;
      firsts_[i] = branch->region(0)->terminator()->operands[v->index];
      v = branch->region(1)->terminator()->operands[v->index];
    }
    return v;
  }

  static const Op *of(const Value *v, OpKind kind) { return v->def && v->def->kind == kind ? v->def : nullptr; }

  bool isRight(const Numbers &n) {
    const size_t mean = n[0], m2 = n[1], weight = n[2];
    for (const size_t i : n)
      if (loop_.results[i]->type.elem != Elem::F32 || loop_.results[i]->type != loop_.results[mean]->type ||
          constantFloat(loop_.operands[3 + i]) != 0.0)
        return false;
    const Value *weighs = stepOf(weight), *means = stepOf(mean), *squares = stepOf(m2);
    if (std::ranges::any_of(n, [&](size_t i) {
          return !masks_[i] != !masks_[mean] || branches_[i] != branches_[mean] ||
                 (masks_[i] && masks_[i]->operands[0] != masks_[mean]->operands[0]);
        }))
      return false;
    const Value *const oldMean = body_.args[1 + mean];
    const Op *moved = of(means, OpKind::FAdd),
             *part = moved && moved->operands[0] == oldMean ? of(moved->operands[1], OpKind::FDiv) : nullptr,
             *delta = part && part->operands[1] == weighs ? of(part->operands[0], OpKind::FSub) : nullptr;
    if (!delta || delta->operands[1] != oldMean)
      return false;
    const Value *const x = delta->operands[0];
    const Op *more = of(squares, OpKind::FAdd),
             *product = more && more->operands[0] == body_.args[1 + m2] ? of(more->operands[1], OpKind::FMul) : nullptr;
    if (!product)
      return false;
    const bool isSecond = product->operands[1] == delta->result();
    const Op *rest =
        product->operands[isSecond] == delta->result() ? of(product->operands[!isSecond], OpKind::FSub) : nullptr;
    if (!rest || rest->operands[0] != x || rest->operands[1] != means)
      return false;
    std::unordered_set<const Op *> allowed{weighs->def, moved, part, delta, more, product, rest, &end_};
    if (const Op *branch = branches_[mean]) {
      const Op *isFirst = of(branch->operands[0], OpKind::CmpI);
      // The same values follow from a weight of 0 before.
      if (!isFirst || isFirst->pred() != CmpPred::Eq || isFirst->operands[0] != body_.args[0] ||
          !isSame(isFirst->operands[1], loop_.operands[0]) || firsts_[mean] != x || constantFloat(firsts_[m2]) != 0.0 ||
          constantFloat(firsts_[weight]) != 1.0)
        return false;
      allowed.insert({isFirst, branch, branch->region(0)->terminator(), branch->region(1)->terminator()});
    }
    for (const size_t i : n)
      if (masks_[i])
        allowed.insert(masks_[i]);
    const auto isClosed = [&](const Value *v) {
      return std::ranges::all_of(users_.of(v), [&](const Op *user) { return allowed.contains(user); });
    };
    const auto yields = [&](const Value *v) { return std::ranges::count(end_.operands, v); };
    for (const size_t i : n)
      if (!isClosed(body_.args[1 + i]) || yields(body_.args[1 + i]) || yields(end_.operands[i]) != 1)
        return false;
    const auto isNext = [&](const Value *v) {
      return std::ranges::any_of(n, [&](size_t i) { return end_.operands[i] == v; });
    };
    return std::ranges::all_of(allowed, [&](const Op *op) {
      return std::ranges::all_of(op->results, [&](const Value *v) { return isClosed(v) && (isNext(v) || !yields(v)); });
    });
  }

  static bool isSame(const Value *a, const Value *b) {
    return a == b || (constantInt(a) && constantInt(a) == constantInt(b));
  }

  const Op &loop_;
  const Block &body_;
  const Op &end_;
  const Users &users_;
  std::unordered_map<size_t, const Op *> masks_, branches_;
  std::unordered_map<size_t, const Value *> firsts_; // of the first iteration
};

using Sample = std::array<double, 3>; // mean, m2, weight

Sample joined(const Sample &a, const Sample &b) {
  const double weight = a[2] + b[2], delta = b[0] - a[0];
  if (weight == 0)
    return {0, 0, 0};
  return {a[0] + delta * b[2] / weight, a[1] + b[1] + delta * delta * a[2] * b[2] / weight, weight};
}

std::optional<Sample> evaluate(const Block &body, const Sample &a, const Sample &b) {
  std::unordered_map<const Value *, uint64_t> bits;
  for (size_t i = 0; i < 3; ++i) {
    bits[body.args[i]] = encodeFloat(Elem::F32, a[i]);
    bits[body.args[3 + i]] = encodeFloat(Elem::F32, b[i]);
  }
  for (const Op *op : body.ops) {
    if (op->kind == OpKind::Yield)
      break;
    if (op->results.size() != 1)
      return std::nullopt;
    if (op->kind == OpKind::Const) {
      bits[op->result()] = constantBits(op->result()->type.elem, *op->value());
      continue;
    }
    std::vector<uint64_t> args;
    for (const Value *o : op->operands) {
      const auto known = bits.find(o);
      if (known == bits.end())
        return std::nullopt;
      args.push_back(known->second);
    }
    const std::optional<uint64_t> result =
        evalScalar(scalarOp(op->kind, op->operands, op->result()->type, op->attrs), args);
    if (!result)
      return std::nullopt;
    bits[op->result()] = *result;
  }
  Sample out;
  for (size_t i = 0; i < 3; ++i) {
    const auto known = bits.find(body.terminator()->operands[i]);
    if (known == bits.end())
      return std::nullopt;
    out[i] = static_cast<double>(decodeFloat(Elem::F32, known->second));
  }
  return out;
}

} // namespace

void findRunningMoments(const Op &loop, std::vector<CarriedRole> &roles) {
  if (roles.size() < 3)
    return;
  const Users users(*loop.region(0));
  for (size_t i = 0; i < roles.size(); ++i)
    if (roles[i].kind == CarriedRole::Kind::Other || roles[i].kind == CarriedRole::Kind::Sum)
      Moments(loop, users).find(i, roles);
}

bool joinsMoments(const Op &reduce) {
  if (reduce.kind != OpKind::Reduce || reduce.operands.size() != 3 || reduce.results[0]->type.numel() != 1)
    return false;
  const Op *loop = reduce.operands[0]->def;
  if (!loop || loop->kind != OpKind::For || loop->parent != reduce.parent)
    return false;
  const CarriedRole role = rolesOfParts(*loop)[reduce.operands[0]->index];
  for (size_t i = 0; i < 3; ++i)
    if (role.kind != CarriedRole::Kind::Moment || reduce.operands[i] != loop->results[role.moments[i]])
      return false;
  const Sample samples[] = {{0, 0, 0}, {1.5, 0, 1}, {-2.25, 7.5, 3}, {0.75, 11, 8}, {40, 2.5, 21}};
  for (const Sample &a : samples)
    for (const Sample &b : samples) {
      const std::optional<Sample> got = evaluate(*reduce.region(0), a, b);
      const Sample right = joined(a, b);
      for (size_t i = 0; i < 3; ++i)
        if (!got || !(std::abs((*got)[i] - right[i]) <= 1e-5 * std::max(1.0, std::abs(right[i]))))
          return false;
    }
  return true;
}

} // namespace tegula
