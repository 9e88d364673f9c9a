// See ApartIterations.h.
#include "gpu/shared/ApartIterations.h"
#include "gpu/shared/ApartElements.h"
#include "ir/Builder.h"
#include "passes/ArgumentAccess.h"
#include <algorithm>
#include <optional>
#include <unordered_map>

namespace tegula::gpu {

using namespace ir;

namespace {

/// How the elements of a value move, relative to a loop-invariant value: the first element advances by `step` in each
/// iteration (by `step` times `unit`, if there is one, or by a multiple of that), and any two elements are at most
/// `reach` apart, or all are between 0 and `unit`.
struct Course {
  int64_t step = 0, reach = 0;
  const Value *unit = nullptr; // a scalar that does not change in the loop
  bool isBelowUnit = false, isMultiple = false;
  bool isAhead = false; // also ahead by a number of steps that differs between CTAs
  bool isFixed() const { return step == 0 && reach == 0 && !isBelowUnit; }
  /// Do any two iterations have different elements?
  bool isApart() const {
    if (isBelowUnit)
      return step != 0 && reach == 0;
    // of which there is one at least
    return std::abs(step) > reach && (!unit || (unit->def && unit->def->kind == OpKind::NumPrograms));
  }
};

/// Do the operations that compute `v` show that it is never negative?
bool isNonNegative(const Value *v, unsigned depth = 8) {
  v = stripped(v);
  if (!depth)
    return false;
  if (!v->def) { // a loop's counter begins where its range does
    const Op *loop = v->block->parent->op;
    if (!loop || loop->kind != OpKind::For || v != v->block->args[0] || loop->reverse() ||
        constantInt(loop->operands[2]).value_or(0) <= 0)
      return false;
    const Value *begin = loop->operands[0];
    // else it does not run
    if (begin->def && begin->def->kind == OpKind::Select && begin->def->operands[2] == loop->operands[1])
      begin = begin->def->operands[1];
    return isNonNegative(begin, depth - 1);
  }
  const Op &op = *v->def;
  switch (op.kind) {
  case OpKind::ProgramId:
  case OpKind::NumPrograms:
  case OpKind::ClusterRank:
    return true;
  case OpKind::Const:
    return constantInt(v).value_or(-1) >= 0;
  case OpKind::Range:
    return op.start() >= 0;
  case OpKind::Add:
  case OpKind::Mul:
  case OpKind::SMin:
    return isNonNegative(op.operands[0], depth - 1) && isNonNegative(op.operands[1], depth - 1);
  default:
    return false;
  }
}

/// The condition of a mask: 0 <= `value` < `bound` where it is on. `axes`: the axes that expand_dims adds to the value
/// on its way into the mask, the last one first.
struct Bound {
  const Value *value, *bound;
  std::vector<int64_t> axes;
};
void boundsOf(const Value *mask, std::vector<Bound> &out, std::vector<int64_t> axes = {}) {
  for (; mask->def && (mask->def->kind == OpKind::Broadcast || mask->def->kind == OpKind::Convert ||
                       mask->def->kind == OpKind::ExpandDims);
       mask = mask->def->operands[0])
    if (mask->def->kind == OpKind::ExpandDims)
      axes.push_back(mask->def->axis());
  if (!mask->def)
    return;
  const Op &op = *mask->def;
  if (op.kind == OpKind::And) {
    boundsOf(op.operands[0], out, axes);
    boundsOf(op.operands[1], out, std::move(axes));
  } else if (op.kind == OpKind::CmpI && op.pred() == CmpPred::Slt && stripped(op.operands[1])->type.isScalar() &&
             isNonNegative(op.operands[0])) {
    out.push_back({op.operands[0], stripped(op.operands[1]), std::move(axes)});
  }
}

class Courses {
public:
  /// For addresses where `mask`, if any, is on.
  Courses(const Op &loop, unsigned ctas, const Value *mask) : loop_(loop), body_(*loop.region(0)), ctas_(ctas) {
    if (mask && mask->type.shape.rank() == 1) // with more axes: hasOtherColumns
      boundsOf(mask, bounds_);
  }

  /// Where the mask is on, are the addresses columns of rows that are as wide as the mask's bound, with different
  /// columns in each iteration?
  bool hasOtherColumns(const Value *pointer, const Value *mask) {
    std::vector<Bound> bounds;
    boundsOf(mask, bounds);
    return std::any_of(bounds.begin(), bounds.end(), [&](const Bound &b) {
      const std::optional<Course> c = of(b.value);
      return c && !c->unit && c->isApart() && isOutside(*b.bound) && !isOfCta(*b.bound) &&
             isColumnOfRows(pointer, b.value, b.axes, b.bound,
                            [&](const Value &v) { return isOutside(v) && !isOfCta(v); });
    });
  }

  std::optional<Course> of(const Value *v) {
    auto [it, isNew] = known_.try_emplace(v);
    if (!isNew)
      return it->second; // nullopt while its own search runs
    std::optional<Course> c = find(*v);
    return known_[v] = c;
  }

private:
  static constexpr int64_t far = int64_t{1} << 40; // beyond it products might overflow

  bool isOutside(const Value &v) const {
    const Block *b = v.def ? v.def->parent : v.block;
    for (; b; b = b->parent->op ? b->parent->op->parent : nullptr)
      if (b == &body_)
        return false;
    return true;
  }
  bool isOfCta(const Value &v);
  static std::optional<Course> checked(const Course &c) {
    return std::abs(c.step) < far && c.reach < far ? std::optional(c) : std::nullopt;
  }
  std::optional<Course> find(const Value &v);
  std::optional<Course> carried(const Value &v);
  std::optional<Course> product(const Op &op);
  std::optional<Course> stepOf(const Value *by);
  const Value *startOf(const Value *v, const Course &step);

  const Op &loop_;
  const Block &body_;
  const unsigned ctas_;
  std::vector<Bound> bounds_;
  std::unordered_map<const Value *, std::optional<Course>> known_;
  std::unordered_map<const Value *, bool> isOfCta_;
};

/// May the scalar differ between the CTAs of a cluster?
bool Courses::isOfCta(const Value &v) {
  if (ctas_ == 1)
    return false;
  auto [it, isNew] = isOfCta_.try_emplace(&v, false); // a cycle does not count; the other operands decide
  if (!isNew)
    return it->second;
  const Op *op = v.def ? v.def : v.block->parent->op;
  if (!op) // a parameter of the kernel
    return false;
  auto any = [&](const Op &o) {
    return std::any_of(o.operands.begin(), o.operands.end(), [&](const Value *x) { return isOfCta(*x); });
  };
  bool is = op->kind == OpKind::ClusterRank || any(*op) ||
            std::any_of(op->regions.begin(), op->regions.end(),
                        [&](const Region *r) { return any(*r->block->terminator()); });
  if (is && !op->regions.empty()) // values found equal in all CTAs during this search may differ after all
    std::erase_if(isOfCta_, [](const auto &known) { return !known.second; });
  return isOfCta_[&v] = is;
}

/// The course of a scalar that is added in each iteration: a constant, a loop-invariant scalar, or a product of the
/// two.
std::optional<Course> Courses::stepOf(const Value *by) {
  by = stripped(by);
  if (std::optional<int64_t> step = constantInt(by))
    return checked({*step, 0});
  if (!by->type.isScalar() || !isOutside(*by) || isOfCta(*by))
    return std::nullopt;
  if (by->def && (by->def->kind == OpKind::Mul || by->def->kind == OpKind::Shl)) {
    const std::optional<int64_t> times = constantInt(by->def->operands[1]);
    const bool isShift = by->def->kind == OpKind::Shl;
    if (times && *times > 0 && *times < (isShift ? 32 : far))
      return Course{isShift ? int64_t{1} << *times : *times, 0, stripped(by->def->operands[0])};
  }
  return Course{1, 0, by};
}

/// The initial value before the earlier loops that `v` went through, if it moves by the same constant step there: `v`
/// is a whole number of steps after it.
const Value *Courses::startOf(const Value *v, const Course &step) {
  while (v->def && v->def->kind == OpKind::For && !step.unit) {
    const Op &before = *v->def;
    const Value *next = before.region(0)->terminator()->operands[v->index];
    if (!next->def || (next->def->kind != OpKind::Add && next->def->kind != OpKind::AddPtr) ||
        next->def->operands[0] != before.region(0)->args[1 + v->index] ||
        constantInt(stripped(next->def->operands[1])) != step.step)
      return v;
    v = before.operands[3 + v->index];
  }
  return v;
}

/// The course of the loop counter, or of a carried value to which each iteration adds a step.
std::optional<Course> Courses::carried(const Value &v) {
  auto at = static_cast<size_t>(std::find(body_.args.begin(), body_.args.end(), &v) - body_.args.begin());
  if (at == 0) {
    std::optional<Course> c = stepOf(loop_.operands[2]);
    if (c && loop_.reverse())
      c->step = -c->step;
    // each CTA begins with its own iteration, and the step is multiplied by the number of CTAs (parts/DealLoops.h)
    if (isOfCta(*loop_.operands[0])) {
      if (!c || !loop_.splitParts() || c->step % ctas_)
        return std::nullopt;
      c->step /= ctas_;
    }
    return c;
  }
  const Value *next = body_.terminator()->operands[at - 1];
  if (!next->def || (next->def->kind != OpKind::Add && next->def->kind != OpKind::AddPtr) ||
      next->def->operands[0] != &v)
    return std::nullopt;
  std::optional<Course> step = stepOf(next->def->operands[1]);
  if (!step)
    return std::nullopt;
  const Value *const begin = loop_.operands[2 + at], *const start = isOfCta(*begin) ? startOf(begin, *step) : begin;
  const std::optional<Course> first = of(start);
  step->isAhead = start != begin;
  if (!first || first->step != 0 || (first->unit && first->unit != step->unit))
    return std::nullopt;
  step->reach = first->reach;
  step->isBelowUnit = first->isBelowUnit;
  return step;
}

std::optional<Course> Courses::product(const Op &op) {
  for (size_t i = 0; i < 2; ++i) {
    if (std::optional<int64_t> by = constantInt(op.operands[1 - i])) {
      if (op.kind == OpKind::Shl && i == 1)
        continue;
      int64_t n = op.kind == OpKind::Shl ? (*by >= 0 && *by < 32 ? int64_t{1} << *by : far) : *by;
      std::optional<Course> c = of(op.operands[i]);
      return c && !c->isBelowUnit && std::abs(n) < far / std::max<int64_t>({1, std::abs(c->step), c->reach})
                 ? checked({c->step * n, c->reach * std::abs(n), c->unit, false, c->isMultiple, c->isAhead})
                 : std::nullopt;
    }
    // A row number times the width of a row.
    const Value *width = stripped(op.operands[1 - i]);
    if (op.kind != OpKind::Mul || !width->type.isScalar() || !isOutside(*width) || isOfCta(*width))
      continue;
    const std::optional<Course> c = of(op.operands[i]);
    const bool isOfPrograms = c && c->unit && c->unit->def && c->unit->def->kind == OpKind::NumPrograms;
    if (c && c->step != 0 && c->reach == 0 && !c->isAhead && (!c->unit || isOfPrograms))
      return Course{c->step, 0, width, false, isOfPrograms};
  }
  return std::nullopt;
}

std::optional<Course> Courses::find(const Value &v) {
  for (const Bound &b : bounds_)
    if (v.type.isTensor() && areAlike(&v, b.value, /*inPlace=*/false) && isOutside(*b.bound) && !isOfCta(*b.bound))
      return Course{0, 0, b.bound, true};
  if (v.type.isScalar() && isOutside(v) && !isOfCta(v))
    return Course{};
  if (!v.def)
    return v.block == &body_ ? carried(v) : std::nullopt;
  const Op &op = *v.def;
  switch (op.kind) {
  case OpKind::Const:
    return Course{};
  case OpKind::ClusterRank:
    return checked({0, int64_t{ctas_} - 1});
  case OpKind::Range:
    return checked({0, v.type.shape.numel() - 1});
  case OpKind::SExt:
  case OpKind::ZExt:
  case OpKind::Splat:
  case OpKind::ExpandDims:
  case OpKind::Broadcast:
  case OpKind::Permute:
  case OpKind::Reshape:
  case OpKind::Convert:
    return of(op.operands[0]);
  case OpKind::Add:
  case OpKind::AddPtr:
  case OpKind::Sub: {
    std::optional<Course> a = of(op.operands[0]), b = of(op.operands[1]);
    if (!a || !b || (a->unit && b->unit && a->unit != b->unit) || (a->isBelowUnit && b->isBelowUnit))
      return std::nullopt;
    // Sums of steps of different units are not represented.
    const Value *unit = a->unit ? a->unit : b->unit;
    if ((unit != a->unit && a->step != 0) || (unit != b->unit && b->step != 0) ||
        (op.kind == OpKind::Sub && b->isBelowUnit) ||
        ((a->isMultiple || b->isMultiple || a->isAhead || b->isAhead) && a->step != 0 && b->step != 0))
      return std::nullopt;
    return checked({op.kind == OpKind::Sub ? a->step - b->step : a->step + b->step, a->reach + b->reach, unit,
                    a->isBelowUnit || b->isBelowUnit, a->isMultiple || b->isMultiple, a->isAhead || b->isAhead});
  }
  case OpKind::Mul:
  case OpKind::Shl:
    if (std::optional<Course> c = product(op))
      return c;
    [[fallthrough]];
  default:
    // A function of values that are the same for all elements in all iterations.
    if (op.has(traits::Pure) && op.has(traits::Elementwise) &&
        std::all_of(op.operands.begin(), op.operands.end(), [&](const Value *o) {
          std::optional<Course> c = of(o);
          return c && c->isFixed();
        }))
      return Course{};
    return std::nullopt;
  }
}

/// Collects the loads and stores of a block and of nested blocks; false if another operation accesses memory, or if
/// there is a loop.
bool accessesOf(const Block &b, std::vector<const Op *> &out) {
  return std::all_of(b.ops.begin(), b.ops.end(), [&](const Op *op) {
    if (op->kind == OpKind::Load || op->kind == OpKind::Store)
      out.push_back(op);
    else if (op->kind == OpKind::Reduce || op->kind == OpKind::Scan)
      return true;
    else if (op->kind != OpKind::If &&
             (!op->regions.empty() ||
              (!op->has(traits::Pure) && !op->has(traits::Terminator) &&
               (op->has(traits::Writes) || op->has(traits::Reads)) && !op->has(traits::Shared))))
      return false;
    return std::all_of(op->regions.begin(), op->regions.end(),
                       [&](const Region *r) { return accessesOf(*r->block, out); });
  });
}

/// The greatest distances of the accesses' pointers before and after `pointer`, of accesses that may touch the same
/// memory; nullopt if a distance is not a constant.
struct Span {
  int64_t front = 0, behind = 0;
};
std::optional<Span> spanAround(const Value *pointer, const std::vector<const Op *> &accesses) {
  Span s;
  for (const Op *op : accesses)
    if (const int other = memoryOf(op->operands[0]); other < 0 || other == memoryOf(pointer)) {
      const std::optional<int64_t> d =
          op->operands[0] == pointer ? std::optional<int64_t>(0) : constantDistance(pointer, op->operands[0]);
      if (!d)
        return std::nullopt;
      s.front = std::max(s.front, -*d);
      s.behind = std::max(s.behind, *d);
    }
  return s;
}

/// Copies to shared memory at the place of their loads, as there is no second buffer. A barrier of the CTA is next to
/// them, but none of the cluster.
std::vector<const Op *> copiesInPlace(const Block &b) {
  std::vector<const Op *> out;
  for (const Op *op : b.ops)
    if (op->kind == OpKind::AsyncCopy && op->operands[0]->def && op->operands[0]->def->slots() == 1)
      out.push_back(op);
  return out;
}

} // namespace

bool iterationsMeet(const Op &loop, unsigned ctas) {
  if (loop.rolled())
    return false;
  std::vector<const Op *> accesses;
  if (!accessesOf(*loop.region(0), accesses))
    return true;
  const std::vector<const Op *> copies = ctas > 1 ? copiesInPlace(*loop.region(0)) : std::vector<const Op *>{};
  for (const Op *store : accesses) {
    if (store->kind != OpKind::Store)
      continue;
    const Value *pointer = store->operands[0];
    int argument = memoryOf(pointer);
    if (argument < 0)
      return true;
    const std::optional<Span> span = spanAround(pointer, accesses);
    if (!span)
      return true;
    auto isApart = [&](const Value *mask) {
      Courses courses(loop, ctas, mask);
      std::optional<Course> c = courses.of(pointer);
      if (c && !c->isBelowUnit)
        c->reach += span->front + span->behind;
      return (c && c->isApart()) || (mask && mask->type.shape.rank() > 1 && courses.hasOtherColumns(pointer, mask));
    };
    const bool isAlways = isApart(nullptr);
    const Value *mask = isAlways ? nullptr : store->mask(); // which it takes
    if (!(isAlways || (mask && isApart(mask))))
      return true;
    for (const Op *op : accesses) // under the required mask, the same elements
      if (int other = memoryOf(op->operands[0]);
          mask && (other < 0 || other == argument) && (op->operands[0] != pointer || op->mask() != mask))
        return true;
    for (const Op *copy : copies)
      if (int other = memoryOf(copy->operands[1]); other < 0 || other == argument)
        return true;
  }
  return false;
}

} // namespace tegula::gpu
