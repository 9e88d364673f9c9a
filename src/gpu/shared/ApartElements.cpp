// See ApartElements.h.
#include "gpu/shared/ApartElements.h"
#include "gpu/Layouts.h"
#include "ir/Builder.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

namespace {

constexpr size_t mostTerms = 16;
constexpr int64_t far = int64_t{1} << 40; // beyond it products might overflow

/// A summand of addresses, and the axes that expand_dims adds to it on its way into the sum, the last one first: they
/// determine the positions of its elements in the tile.
struct Term {
  const Value *value;
  std::vector<int64_t> axes;
  int64_t times = 1;
};

bool isWidening(OpKind k) { return k == OpKind::SExt || k == OpKind::ZExt; }

const Value *withoutConverts(const Value *v) {
  while (v->def && v->def->kind == OpKind::Convert)
    v = v->def->operands[0];
  return v;
}

bool isAlike(const Value *a, const Value *b, bool inPlace, unsigned depth) {
  a = inPlace ? withoutConverts(a) : stripped(a);
  b = inPlace ? withoutConverts(b) : stripped(b);
  if (a == b)
    return true;
  return depth && a->def && b->def && a->def->kind == b->def->kind && a->def->has(traits::Pure) &&
         a->def->regions.empty() && a->def->results.size() == 1 &&
         (inPlace ? a->type.shape == b->type.shape : a->type.shape.numel() == b->type.shape.numel()) &&
         a->type.elem == b->type.elem && a->def->attrs == b->def->attrs &&
         a->def->operands.size() == b->def->operands.size() &&
         std::equal(a->def->operands.begin(), a->def->operands.end(), b->def->operands.begin(),
                    [&](const Value *x, const Value *y) { return isAlike(x, y, inPlace, depth - 1); });
}

bool areSame(const Term &a, const Term &b) {
  return a.times == b.times && (a.value->type.isScalar() || a.axes == b.axes) &&
         areAlike(a.value, b.value, /*inPlace=*/true);
}

/// The terms of a sum and the sum of its constants. At most mostTerms terms: a value that is added to itself repeatedly
/// would double them each time.
struct Sum {
  std::vector<Term> terms;
  int64_t constant = 0;
  bool isKnown = true;

  void add(const Value *v, std::vector<int64_t> axes = {}, int64_t times = 1) {
    while (v->def &&
           (v->def->kind == OpKind::Broadcast || v->def->kind == OpKind::Splat || v->def->kind == OpKind::Convert ||
            v->def->kind == OpKind::ExpandDims || isWidening(v->def->kind))) {
      if (v->def->kind == OpKind::ExpandDims)
        axes.push_back(v->def->axis());
      v = v->def->operands[0];
    }
    if (!isKnown)
      return;
    if (std::optional<int64_t> c = constantInt(v)) {
      isKnown &= std::abs(*c) < far / std::abs(times);
      constant += isKnown ? *c * times : 0;
      return;
    }
    const Op *op = v->def;
    if (op && (op->kind == OpKind::Add || op->kind == OpKind::AddPtr)) {
      add(op->operands[0], axes, times);
      return add(op->operands[1], std::move(axes), times);
    }
    if (op && (op->kind == OpKind::Mul || op->kind == OpKind::Shl))
      if (std::optional<int64_t> c = constantInt(op->operands[1]);
          c && (op->kind == OpKind::Mul ? *c != 0 && std::abs(*c) < far / std::abs(times)
                                        : *c >= 0 && *c < 32 && std::abs(times) < far >> *c))
        return add(op->operands[0], std::move(axes), times * (op->kind == OpKind::Mul ? *c : int64_t{1} << *c));
    isKnown &= terms.size() < mostTerms;
    if (isKnown)
      terms.push_back({v, std::move(axes), times});
  }
};

Sum sumOf(const Value *v) {
  Sum s;
  s.add(v);
  return s;
}

/// Removes the terms of `less` from `from`; false if some are missing.
bool takeAway(std::vector<Term> &from, const std::vector<Term> &less) {
  return std::ranges::all_of(less, [&](const Term &t) {
    auto it = std::ranges::find_if(from, [&](const Term &f) { return areSame(f, t); });
    if (it == from.end())
      return false;
    from.erase(it);
    return true;
  });
}

/// The numbers 0, by, 2 by ...; `count` of them.
struct Stride {
  int64_t by, count;
};

/// Is `distance` a sum of differences, one of two numbers of each stride from the i-th on? `reach[i]`: the greatest
/// such sum from the i-th stride on.
bool isDifference(const std::vector<Stride> &strides, const std::vector<int64_t> &reach, size_t i, int64_t distance) {
  if (i == strides.size())
    return distance == 0;
  const Stride &s = strides[i];
  for (int64_t n = std::max(-(s.count - 1), (distance - reach[i + 1]) / s.by - 1);
       n < s.count && s.by * n <= distance + reach[i + 1]; ++n)
    if (std::abs(distance - s.by * n) <= reach[i + 1] && isDifference(strides, reach, i + 1, distance - s.by * n))
      return true;
  return false;
}

} // namespace

const Value *stripped(const Value *v) {
  while (v->def && (renames(v->def->kind) || isWidening(v->def->kind) || v->def->kind == OpKind::Convert))
    v = v->def->operands[0];
  return v;
}

bool areAlike(const Value *a, const Value *b, bool inPlace) { return isAlike(a, b, inPlace, 8); }

std::optional<int64_t> constantDistance(const Value *a, const Value *b) {
  if (a->type.shape != b->type.shape)
    return std::nullopt;
  Sum x = sumOf(a), y = sumOf(b);
  if (!x.isKnown || !y.isKnown || x.terms.size() != y.terms.size() || !takeAway(x.terms, y.terms))
    return std::nullopt;
  return y.constant - x.constant;
}

bool isApartFrom(const Value *pointer, int64_t distance) {
  const Sum sum = sumOf(pointer);
  if (!sum.isKnown || distance == 0)
    return false;
  std::vector<Stride> strides;
  for (const Term &t : sum.terms) {
    if (t.value->type.isScalar())
      continue;
    if (!t.value->def || t.value->def->kind != OpKind::Range)
      return false;
    strides.push_back({std::abs(t.times), t.value->type.shape.numel()});
  }
  std::ranges::sort(strides, std::greater{}, &Stride::by);
  std::vector<int64_t> reach(strides.size() + 1, 0);
  for (size_t i = strides.size(); i-- > 0;)
    if (reach[i] = reach[i + 1] + strides[i].by * (strides[i].count - 1); reach[i] > far)
      return false;
  return !isDifference(strides, reach, 0, distance);
}

bool isColumnOfRows(const Value *pointer, const Value *column, std::vector<int64_t> axes, const Value *width,
                    const std::function<bool(const Value &)> &isFixed) {
  Sum sum = sumOf(pointer), part;
  part.add(column, std::move(axes));
  if (!sum.isKnown || !part.isKnown || !takeAway(sum.terms, part.terms))
    return false;
  return std::ranges::all_of(sum.terms, [&](const Term &t) {
    const Op *op = t.value->def;
    auto isWidth = [&](const Value *v) { return stripped(v) == width; };
    return (t.value->type.isScalar() && isFixed(*t.value)) ||
           (op && op->kind == OpKind::Mul && (isWidth(op->operands[0]) || isWidth(op->operands[1])));
  });
}

} // namespace tegula::gpu
