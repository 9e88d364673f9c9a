// See ApartIterations.h.
#include "gpu/ApartIterations.h"
#include "gpu/Layouts.h"
#include "ir/Builder.h"
#include "passes/ArgumentAccess.h"
#include <algorithm>
#include <optional>
#include <unordered_map>

namespace tegula::gpu {

using namespace ir;

namespace {

/// Of the elements of a value, in every iteration the same relative to one that does not change: the first is `step` further on in each iteration, and
/// the others are at most `reach` away from each other.
struct Course {
  int64_t step = 0, reach = 0;
  bool isFixed() const { return step == 0 && reach == 0; }
};

class Courses {
public:
  Courses(const Op &loop, unsigned ctas) : loop_(loop), body_(*loop.region(0)), ctas_(ctas) {}

  std::optional<Course> of(const Value *v) {
    auto [it, isNew] = known_.try_emplace(v);
    if (!isNew)
      return it->second; // nothing while it is being looked at
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

  const Op &loop_;
  const Block &body_;
  const unsigned ctas_;
  std::unordered_map<const Value *, std::optional<Course>> known_;
  std::unordered_map<const Value *, bool> isOfCta_;
};

/// May the scalar be another one in each CTA of a cluster?
bool Courses::isOfCta(const Value &v) {
  if (ctas_ == 1)
    return false;
  auto [it, isNew] = isOfCta_.try_emplace(&v, false); // by itself: what else it is made of decides
  if (!isNew)
    return it->second;
  const Op *op = v.def ? v.def : v.block->parent->op;
  if (!op) // a parameter of the kernel
    return false;
  auto any = [&](const Op &o) { return std::any_of(o.operands.begin(), o.operands.end(), [&](const Value *x) { return isOfCta(*x); }); };
  bool is = op->kind == OpKind::ClusterRank || any(*op) || std::any_of(op->regions.begin(), op->regions.end(), [&](const Region *r) { return any(*r->block->terminator()); });
  if (is && !op->regions.empty()) // what was found the same for all on the way here may be so no more
    std::erase_if(isOfCta_, [](const auto &known) { return !known.second; });
  return isOfCta_[&v] = is;
}

/// The loop's counter, and what a step is added to in each iteration.
std::optional<Course> Courses::carried(const Value &v) {
  auto at = static_cast<size_t>(std::find(body_.args.begin(), body_.args.end(), &v) - body_.args.begin());
  if (at == 0) {
    std::optional<int64_t> step = constantInt(loop_.operands[2]);
    return step ? checked({loop_.reverse() ? -*step : *step, 0}) : std::nullopt;
  }
  const Value *next = body_.terminator()->operands[at - 1];
  if (!next->def || (next->def->kind != OpKind::Add && next->def->kind != OpKind::AddPtr) || next->def->operands[0] != &v)
    return std::nullopt;
  const Value *by = next->def->operands[1];
  while (by->def && renames(by->def->kind))
    by = by->def->operands[0];
  std::optional<int64_t> step = constantInt(by);
  std::optional<Course> first = of(loop_.operands[2 + at]);
  return step && first && first->step == 0 ? checked({*step, first->reach}) : std::nullopt;
}

std::optional<Course> Courses::product(const Op &op) {
  for (size_t i = 0; i < 2; ++i)
    if (std::optional<int64_t> by = constantInt(op.operands[1 - i])) {
      if (op.kind == OpKind::Shl && i == 1)
        continue;
      int64_t n = op.kind == OpKind::Shl ? (*by >= 0 && *by < 32 ? int64_t{1} << *by : far) : *by;
      std::optional<Course> c = of(op.operands[i]);
      return c && std::abs(n) < far / std::max<int64_t>({1, std::abs(c->step), c->reach}) ? checked({c->step * n, c->reach * std::abs(n)}) : std::nullopt;
    }
  return std::nullopt;
}

std::optional<Course> Courses::find(const Value &v) {
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
    return a && b ? checked({op.kind == OpKind::Sub ? a->step - b->step : a->step + b->step, a->reach + b->reach}) : std::nullopt;
  }
  case OpKind::Mul:
  case OpKind::Shl:
    if (std::optional<Course> c = product(op))
      return c;
    [[fallthrough]];
  default:
    // Of what is the same for all elements in all iterations.
    if (op.has(traits::Pure) && op.has(traits::Elementwise) && std::all_of(op.operands.begin(), op.operands.end(), [&](const Value *o) {
          std::optional<Course> c = of(o);
          return c && c->isFixed();
        }))
      return Course{};
    return std::nullopt;
  }
}

/// Loads and stores of a block and of those inside; false if there is more that touches memory, or a loop.
bool accessesOf(const Block &b, std::vector<const Op *> &out) {
  return std::all_of(b.ops.begin(), b.ops.end(), [&](const Op *op) {
    if (op->kind == OpKind::Load || op->kind == OpKind::Store)
      out.push_back(op);
    else if (op->kind == OpKind::Reduce || op->kind == OpKind::Scan)
      return true;
    else if (op->kind != OpKind::If && (!op->regions.empty() || (!op->has(traits::Pure) && !op->has(traits::Terminator) && (op->has(traits::Writes) || op->has(traits::Reads)) && !op->has(traits::Shared))))
      return false;
    return std::all_of(op->regions.begin(), op->regions.end(), [&](const Region *r) { return accessesOf(*r->block, out); });
  });
}

} // namespace

bool iterationsMeet(const Op &loop, unsigned ctas) {
  if (loop.rolled())
    return false;
  std::vector<const Op *> accesses;
  if (!accessesOf(*loop.region(0), accesses))
    return true;
  Courses courses(loop, ctas);
  for (const Op *store : accesses) {
    if (store->kind != OpKind::Store)
      continue;
    const Value *pointer = store->operands[0];
    int argument = memoryOf(pointer);
    std::optional<Course> c = courses.of(pointer);
    if (argument < 0 || !c || std::abs(c->step) <= c->reach)
      return true;
    for (const Op *op : accesses)
      if (int other = memoryOf(op->operands[0]); (other < 0 || other == argument) && op->operands[0] != pointer)
        return true;
  }
  return false;
}

} // namespace tegula::gpu
