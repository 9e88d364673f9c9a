// See Everywhere.h.
#include "gpu/masks/Everywhere.h"
#include <algorithm>
#include <cstdlib>
#include <limits>

namespace tegula::gpu {

using namespace ir;

namespace {

// Limits such that sums of a few products with 32-bit scalars fit in 64 bits, as does the product of the two limits.
// All 32-bit constants are within the limit.
constexpr int64_t largestFactor = int64_t{1} << 28, largestConstant = int64_t{1} << 33;

bool isSmall(const Elements &e) {
  return e.least >= -largestConstant && e.most <= largestConstant &&
         std::ranges::all_of(e.terms, [](const Elements::Term &t) { return std::abs(t.factor) <= largestFactor; });
}

void add(Elements &to, const Elements &other, int64_t factor) {
  for (const Elements::Term &t : other.terms)
    to.terms.push_back({t.scalar, t.factor * factor});
  to.least += factor * (factor < 0 ? other.most : other.least);
  to.most += factor * (factor < 0 ? other.least : other.most);
}

Value *plus(Builder &b, Value *v, int64_t n) { return n ? b.binary(OpKind::Add, v, b.constI64(n)) : v; }

/// The sum of the terms, in 64 bits.
Value *sumOfTerms(Builder &b, const Elements &e) {
  Value *sum = nullptr;
  for (auto [v, factor] : e.terms) {
    Value *wide = v->type.elem == Elem::I64 ? v : b.cast(OpKind::SExt, v, Elem::I64);
    const bool isNegated = factor == -1;
    if (!isNegated && factor != 1)
      wide = b.binary(OpKind::Mul, wide, b.constI64(factor));
    if (sum || isNegated)
      sum = b.binary(isNegated ? OpKind::Sub : OpKind::Add, sum ? sum : b.constI64(0), wide);
    else
      sum = wide;
  }
  return sum ? sum : b.constI64(0);
}

} // namespace

class MaskReader {
public:
  explicit MaskReader(const Everywhere::IsKnown &isKnown) : isKnown_(isKnown) {}

  std::optional<Everywhere> read(Value *mask) {
    if (mask->type.isScalar())
      return isKnown(mask) ? std::optional(scalar(mask)) : std::nullopt;
    const Op *op = next(mask);
    if (!op)
      return std::nullopt;
    switch (op->kind) {
    case OpKind::Const: // all on: no condition
      return constantInt(mask).value_or(0) != 0 ? std::optional<Everywhere>(std::in_place) : std::nullopt;
    case OpKind::Splat:
    case OpKind::ExpandDims:
    case OpKind::Broadcast:
    case OpKind::Convert:
      return read(op->operands[0]);
    case OpKind::And:
    case OpKind::Or:
      return joined(*op);
    case OpKind::CmpI:
      return compared(*op);
    default:
      return std::nullopt;
    }
  }

private:
  bool isKnown(const Value *v) const { return !isKnown_ || isKnown_(v); }

  /// The operation that computes `v`, if the budget is not used up.
  const Op *next(const Value *v) { return v->def && left_ ? --left_, v->def : nullptr; }

  static Everywhere scalar(Value *v) {
    Everywhere e;
    e.kind = Everywhere::Kind::Scalar;
    e.scalar = v;
    return e;
  }

  /// A conjunction needs both operands. For a disjunction one readable operand gives a sufficient condition.
  std::optional<Everywhere> joined(const Op &op) {
    Everywhere all;
    all.kind = op.kind == OpKind::And ? Everywhere::Kind::And : Everywhere::Kind::Or;
    for (Value *operand : op.operands) {
      std::optional<Everywhere> part = read(operand);
      if (!part && op.kind == OpKind::And)
        return std::nullopt;
      if (!part)
        continue;
      if (part->kind == all.kind)
        all.parts.insert(all.parts.end(), part->parts.begin(), part->parts.end());
      else
        all.parts.push_back(std::move(*part));
    }
    return all.parts.empty() && all.kind == Everywhere::Kind::Or ? std::nullopt : std::optional(std::move(all));
  }

  std::optional<Everywhere> compared(const Op &op) {
    Everywhere e;
    e.kind = Everywhere::Kind::AtMost;
    const bool isLess = op.pred() == CmpPred::Slt || op.pred() == CmpPred::Sle,
               isGreater = op.pred() == CmpPred::Sgt || op.pred() == CmpPred::Sge;
    numbers_.clear();
    std::optional<Elements> a = isLess || isGreater ? number(op.operands[0]) : std::nullopt,
                            c = a ? number(op.operands[1]) : std::nullopt;
    if (!c)
      return std::nullopt;
    e.less = isLess ? *a : *c;
    e.more = isLess ? *c : *a;
    e.margin = op.pred() == CmpPred::Slt || op.pred() == CmpPred::Sgt;
    // The smaller side first, as in the comparison.
    if (!isLess && numbers_.size() == 2)
      std::swap(numbers_[0], numbers_[1]);
    e.numbers = std::move(numbers_);
    return e;
  }

  /// The elements of `v` as numbers, not modulo 2^32.
  std::optional<Elements> number(Value *v) {
    std::optional<Elements> e = sum(v);
    if (e && v->type.elem == Elem::I32 &&
        (e->terms.size() > 1 || e->least != 0 || e->most != 0 || (e->terms.size() == 1 && e->terms[0].factor != 1)))
      numbers_.push_back(*e);
    return e;
  }

  std::optional<Elements> sum(Value *v) {
    if (v->type.elem != Elem::I32 && v->type.elem != Elem::I64)
      return std::nullopt;
    std::optional<Elements> e;
    if (std::optional<int64_t> c = constantInt(v))
      e = Elements{{}, *c, *c};
    else if (v->type.isScalar())
      e = isKnown(v) ? std::optional(Elements{{{v, 1}}}) : std::nullopt;
    else if (const Op *op = next(v))
      e = ofOp(*op);
    return e && isSmall(*e) ? e : std::nullopt;
  }

  std::optional<Elements> ofOp(const Op &op) {
    switch (op.kind) {
    case OpKind::Range:
      return Elements{{}, op.start(), op.start() + op.result()->type.numel() - 1};
    case OpKind::Splat:
    case OpKind::ExpandDims:
    case OpKind::Broadcast:
    case OpKind::Convert:
    case OpKind::Reshape:
    case OpKind::Permute:
      return sum(op.operands[0]);
    case OpKind::SExt:
      return number(op.operands[0]);
    case OpKind::Add:
    case OpKind::Sub: {
      std::optional<Elements> a = sum(op.operands[0]), c = a ? sum(op.operands[1]) : std::nullopt;
      if (c)
        add(*a, *c, op.kind == OpKind::Sub ? -1 : 1);
      return c ? a : std::nullopt;
    }
    case OpKind::Mul:
    case OpKind::Shl: {
      std::optional<int64_t> by = constantInt(op.operands[1]);
      if (!by || (op.kind == OpKind::Shl && (*by < 0 || *by > 28)))
        return std::nullopt;
      const int64_t factor = op.kind == OpKind::Shl ? int64_t{1} << *by : *by;
      std::optional<Elements> a = std::abs(factor) <= largestFactor ? sum(op.operands[0]) : std::nullopt;
      Elements product;
      if (a)
        add(product, *a, factor);
      return a ? std::optional(product) : std::nullopt;
    }
    default:
      return std::nullopt;
    }
  }

  const Everywhere::IsKnown &isKnown_;
  std::vector<Elements> numbers_; // of the current comparison
  unsigned left_ = 128;           // operations to look at
};

std::optional<Everywhere> Everywhere::of(Value *mask, const IsKnown &isKnown) { return MaskReader(isKnown).read(mask); }

Value *Everywhere::write(Builder &b) const {
  if (kind == Kind::Scalar)
    return scalar;
  Value *holds = nullptr;
  if (kind == Kind::AtMost) {
    Value *low = sumOfTerms(b, less), *high = sumOfTerms(b, more);
    holds = b.cmp(CmpPred::Sle, plus(b, low, less.most + margin - more.least), high);
    for (const Elements &n : numbers) {
      constexpr int64_t first = std::numeric_limits<int32_t>::min(), all = int64_t{1} << 32;
      Value *fits = b.cmp(CmpPred::Ult, plus(b, sumOfTerms(b, n), n.least - first),
                          b.constI64(std::max<int64_t>(0, all - (n.most - n.least))));
      holds = b.binary(OpKind::And, holds, fits);
    }
    return holds;
  }
  for (const Everywhere &part : parts) {
    Value *one = part.write(b);
    holds = holds ? b.binary(kind == Kind::And ? OpKind::And : OpKind::Or, holds, one) : one;
  }
  return holds ? holds : b.constInt(Type::scalar(Elem::I1), 1);
}

} // namespace tegula::gpu
