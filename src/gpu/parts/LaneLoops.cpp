// See LaneLoops.h. The proof symbolically follows one element whose m is false through the body and the next test, in
// terms of the values that the first test passed on.
#include "gpu/parts/LaneLoops.h"
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace tegula::gpu {

using namespace ir;

namespace {

bool isElementwise(const Op &op) { return op.has(traits::Elementwise) && op.has(traits::Pure) && op.regions.empty(); }

/// The tile of which the scalar `v` is the reduction by `or`; null if `v` is something else.
const Value *anyOf(const Value *v) {
  const Op *reduce = v->def;
  if (!reduce || reduce->kind != OpKind::Reduce || reduce->results.size() != 1 || !v->type.isScalar() ||
      v->type.elem != Elem::I1)
    return nullptr;
  const Block &either = *reduce->region(0);
  if (either.ops.size() != 2 || either.ops[0]->kind != OpKind::Or ||
      either.ops[1]->operands[0] != either.ops[0]->result())
    return nullptr;
  for (unsigned i = 0; i < 2; ++i)
    if (either.ops[0]->operands[i] != either.args[i])
      return nullptr;
  const Value *flat = reduce->operands[0];
  return flat->def && flat->def->kind == OpKind::Reshape ? flat->def->operands[0] : flat;
}

/// The symbolic value of one element: that of `value` in round `when`. Values from outside and of the first test have
/// round 0. A null value stands for false.
struct Name {
  const Value *value;
  int when;
  bool operator==(const Name &) const = default;
};
constexpr Name no{nullptr, 0};

/// The symbolic values of a block for a finished element.
class OneElement {
public:
  void set(const Value *v, Name name) { names_[v] = name; }
  Name of(const Value *v) const {
    auto it = names_.find(v);
    return it == names_.end() ? Name{v, 0} : it->second;
  }
  /// Names the values that the block computes in round `when`. An operation with the same operands as in the round of
  /// `before` has the same results.
  void follow(const Block &b, int when, const OneElement *before) {
    for (const Op *op : b.ops) {
      bool isSame =
          before && op->regions.empty() &&
          std::all_of(op->operands.begin(), op->operands.end(), [&](const Value *v) { return of(v) == before->of(v); });
      for (const Value *r : op->results)
        if (!names_.contains(r))
          set(r, isSame ? before->of(r) : simple(*op).value_or(Name{r, when}));
    }
  }

private:
  std::optional<Name> simple(const Op &op) const {
    auto operand = [&](unsigned i) { return of(op.operands[i]); };
    if (op.kind == OpKind::And && (operand(0) == no || operand(1) == no))
      return no;
    if (op.kind == OpKind::Select && (operand(0) == no || operand(1) == operand(2)))
      return operand(2);
    return std::nullopt;
  }
  std::unordered_map<const Value *, Name> names_;
};

bool usesIn(const Block &b, const Value *v) {
  return std::any_of(b.ops.begin(), b.ops.end(), [&](const Op *op) {
    return std::find(op->operands.begin(), op->operands.end(), v) != op->operands.end() ||
           std::any_of(op->regions.begin(), op->regions.end(), [&](const Region *r) { return usesIn(*r->block, v); });
  });
}

/// Where `mask` is false, do the values that the test passes on stay unchanged? Values without users after the loop may
/// change.
bool staysWhereOver(const Op &loop, const Value *mask) {
  const Block &test = *loop.region(0), &body = *loop.region(1);
  std::span<Value *const> passed = std::span(test.terminator()->operands).subspan(1),
                          next = body.terminator()->operands;
  OneElement first, after, second;
  first.set(mask, no);
  first.follow(test, 0, nullptr);
  for (size_t i = 0; i < passed.size(); ++i)
    after.set(body.args[i], first.of(passed[i]));
  after.follow(body, 1, nullptr);
  for (size_t i = 0; i < next.size(); ++i)
    second.set(test.args[i], after.of(next[i]));
  second.follow(test, 2, &first);
  if (second.of(mask) != no)
    return false;
  for (size_t i = 0; i < passed.size(); ++i)
    if (second.of(passed[i]) != first.of(passed[i]) && usesIn(*loop.parent, loop.results[i]))
      return false;
  return true;
}

class Checker {
public:
  explicit Checker(const Op &loop) : shape_(loop.operands[0]->type.shape) {}

  bool loop(const Op &op) {
    for (const Value *v : op.operands)
      if (!isTile(v))
        return false;
    const Op &condition = *op.region(0)->terminator();
    const Value *mask = anyOf(condition.operands[0]);
    if (!mask || mask->type.shape != shape_)
      return false;
    reductions_.insert(condition.operands[0]);
    return block(*op.region(0), &condition) && block(*op.region(1), nullptr) && staysWhereOver(op, mask);
  }

private:
  bool isTile(const Value *v) const { return v->type.isTensor() && v->type.shape == shape_; }

  /// `condition`: the terminator that may use the one reduction.
  bool block(const Block &b, const Op *condition) {
    for (const Op *op : b.ops) {
      if (op->has(traits::Terminator))
        continue;
      bool isAny =
          condition && (op->result() == condition->operands[0] ||
                        (op->kind == OpKind::Reshape && condition->operands[0]->def->operands[0] == op->result()));
      if (op->kind == OpKind::While ? !loop(*op) : !isAny && !plain(*op))
        return false;
    }
    return true;
  }

  bool plain(const Op &op) const {
    if (op.results.size() != 1)
      return false;
    const Value *r = op.result();
    if (op.kind == OpKind::Const)
      return r->type.isScalar() || isTile(r);
    if (op.kind == OpKind::Splat)
      return isTile(r) && !reductions_.contains(op.operands[0]);
    return isElementwise(op) && isTile(r) &&
           std::all_of(op.operands.begin(), op.operands.end(), [&](const Value *v) { return isTile(v); });
  }

  Shape shape_;
  std::unordered_set<const Value *> reductions_; // of the loop and of nested loops
};

void collect(const Block &b, std::unordered_set<const Value *> &inside, std::vector<Value *> &out) {
  inside.insert(b.args.begin(), b.args.end());
  for (const Op *op : b.ops) {
    for (Value *v : op->operands)
      if (v->type.isTensor() && !inside.contains(v) && std::find(out.begin(), out.end(), v) == out.end())
        out.push_back(v);
    for (const Region *r : op->regions)
      collect(*r->block, inside, out);
    inside.insert(op->results.begin(), op->results.end());
  }
}

} // namespace

bool isLaneWise(const Op &op) {
  return op.kind == OpKind::While && !op.operands.empty() && op.operands[0]->type.isTensor() &&
         op.region(0)->terminator() && op.region(1)->terminator() && Checker(op).loop(op);
}

std::vector<Value *> tilesInto(const Op &op) {
  std::vector<Value *> out;
  for (Value *v : op.operands)
    if (std::find(out.begin(), out.end(), v) == out.end())
      out.push_back(v);
  std::unordered_set<const Value *> inside;
  for (const Region *r : op.regions)
    collect(*r->block, inside, out);
  return out;
}

} // namespace tegula::gpu
