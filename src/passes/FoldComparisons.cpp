// Comparisons of ranges; see FoldComparisons.h.
#include "passes/FoldComparisons.h"
#include "ir/Builder.h"
#include "passes/Extremum.h"
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <unordered_map>

namespace tegula {

using namespace ir;

namespace {

/// A closed interval of signed numbers.
struct Interval {
  int64_t least, most;
};
using Maybe = std::optional<Interval>;

class Ranges {
public:
  Maybe of(const Value *v, unsigned depth = 24) {
    if (v->type.isPtr || v->type.isFloatLike() || depth == 0)
      return std::nullopt;
    if (auto known = known_.find(v); known != known_.end())
      return known->second;
    known_.emplace(v, std::nullopt); // values that depend on themselves have no range
    return known_[v] = within(find(v, depth - 1), v->type.elem);
  }

private:
  static Maybe within(Maybe r, Elem e) {
    const int bits = 8 * byteWidth(e);
    if (!r || e == Elem::I1 || bits > 64)
      return std::nullopt;
    const int64_t most = std::numeric_limits<int64_t>::max() >> (64 - bits);
    return r->least >= -most - 1 && r->most <= most ? r : std::nullopt;
  }
  Maybe find(const Value *v, unsigned depth);
  Maybe counter(const Op &loop, unsigned depth);
  static Maybe sum(Interval a, Interval b) {
    Interval r;
    return __builtin_add_overflow(a.least, b.least, &r.least) || __builtin_add_overflow(a.most, b.most, &r.most)
               ? Maybe()
               : Maybe(r);
  }
  static Maybe product(Interval a, Interval b) {
    int64_t p[4];
    if (__builtin_mul_overflow(a.least, b.least, &p[0]) || __builtin_mul_overflow(a.least, b.most, &p[1]) ||
        __builtin_mul_overflow(a.most, b.least, &p[2]) || __builtin_mul_overflow(a.most, b.most, &p[3]))
      return std::nullopt;
    return Interval{*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
  }

  std::unordered_map<const Value *, Maybe> known_;
};

/// The range of the counter of a loop that counts up between known bounds, if the loop runs.
Maybe Ranges::counter(const Op &loop, unsigned depth) {
  Maybe from = of(loop.operands[0], depth), to = of(loop.operands[1], depth);
  const std::optional<int64_t> step = constantInt(loop.operands[2]);
  if (!from || !to || !step || *step <= 0 || from->least >= to->most)
    return std::nullopt;
  Interval r{from->least, to->most - 1};
  if (from->least == from->most && to->least == to->most)
    r.most = from->least + static_cast<int64_t>((static_cast<uint64_t>(r.most) - static_cast<uint64_t>(from->least)) /
                                                static_cast<uint64_t>(*step)) *
                               *step;
  return r;
}

Maybe Ranges::find(const Value *v, unsigned depth) {
  if (!v->def) {
    const Region *r = v->block->parent;
    return r && r->op && r->op->kind == OpKind::For && v->index == 0 ? counter(*r->op, depth) : std::nullopt;
  }
  const Op &op = *v->def;
  auto operand = [&](unsigned i) { return of(op.operands[i], depth); };
  constexpr int64_t most32 = std::numeric_limits<int32_t>::max();
  switch (op.kind) {
  case OpKind::Const: {
    const std::optional<int64_t> c = constantInt(v);
    return c ? Maybe(Interval{*c, *c}) : std::nullopt;
  }
  case OpKind::Range:
    return Interval{op.start(), op.start() + v->type.shape.numel() - 1};
  case OpKind::ProgramId:
    return Interval{0, most32 - 1};
  case OpKind::NumPrograms:
    return Interval{1, most32};
  case OpKind::Splat:
  case OpKind::ExpandDims:
  case OpKind::Broadcast:
  case OpKind::Reshape:
  case OpKind::Permute:
  case OpKind::SExt:
  case OpKind::Trunc: // `within` sees to it
    return operand(0);
  case OpKind::ZExt: {
    Maybe narrow = operand(0);
    return narrow && narrow->least >= 0 ? narrow : std::nullopt;
  }
  default:
    break;
  }
  if (op.operands.size() != 2 && op.kind != OpKind::Select)
    return std::nullopt;
  Maybe a = operand(op.kind == OpKind::Select ? 1 : 0);
  if (!a)
    return std::nullopt;
  Maybe b = operand(op.kind == OpKind::Select ? 2 : 1);
  if (!b)
    return std::nullopt;
  const bool isDivisor = a->least >= 0 && b->least > 0;
  switch (op.kind) {
  case OpKind::Add:
    return sum(*a, *b);
  case OpKind::Sub:
    return b->least == std::numeric_limits<int64_t>::min() ? std::nullopt : sum(*a, {-b->most, -b->least});
  case OpKind::Mul:
    return product(*a, *b);
  case OpKind::SDiv:
  case OpKind::UDiv:
    return isDivisor ? Maybe(Interval{a->least / b->most, a->most / b->least}) : std::nullopt;
  case OpKind::SRem:
  case OpKind::URem:
    return isDivisor ? Maybe(Interval{0, std::min(a->most, b->most - 1)}) : std::nullopt;
  case OpKind::SMin:
    return Interval{std::min(a->least, b->least), std::min(a->most, b->most)};
  case OpKind::SMax:
    return Interval{std::max(a->least, b->least), std::max(a->most, b->most)};
  case OpKind::Select:
    return Interval{std::min(a->least, b->least), std::max(a->most, b->most)};
  default:
    return std::nullopt;
  }
}

/// The result of the comparison, if it is the same for all numbers in both ranges.
std::optional<bool> decided(CmpPred pred, Interval a, Interval b) {
  const bool isUnsigned = pred == CmpPred::Ult || pred == CmpPred::Ule || pred == CmpPred::Ugt || pred == CmpPred::Uge;
  if (isUnsigned && (a.least < 0 || b.least < 0))
    return std::nullopt;
  auto either = [](bool yes, bool no) { return yes ? std::optional(true) : no ? std::optional(false) : std::nullopt; };
  switch (pred) {
  case CmpPred::Slt:
  case CmpPred::Ult:
    return either(a.most < b.least, a.least >= b.most);
  case CmpPred::Sle:
  case CmpPred::Ule:
    return either(a.most <= b.least, a.least > b.most);
  case CmpPred::Sgt:
  case CmpPred::Ugt:
    return either(a.least > b.most, a.most <= b.least);
  case CmpPred::Sge:
  case CmpPred::Uge:
    return either(a.least >= b.most, a.most < b.least);
  case CmpPred::Eq:
  case CmpPred::Ne: {
    const bool apart = a.most < b.least || b.most < a.least,
               same = a.least == a.most && b.least == b.most && a.least == b.least;
    return pred == CmpPred::Eq ? either(same, apart) : either(apart, same);
  }
  default:
    return std::nullopt;
  }
}

bool foldIn(Module &m, Block &block, Ranges &ranges) {
  bool changed = false;
  for (Op *op : block.ops) {
    for (Region *r : op->regions)
      changed |= foldIn(m, *r->block, ranges);
    if (op->kind != OpKind::CmpI || op->operands[0]->type.isPtr)
      continue;
    Maybe a = ranges.of(op->operands[0]), b = a ? ranges.of(op->operands[1]) : std::nullopt;
    std::optional<bool> result = a && b ? decided(op->pred(), *a, *b) : std::nullopt;
    if (!result)
      continue;
    Block alone;
    Builder builder(m);
    builder.setBlock(&alone);
    const Op &constant = *builder.constInt(op->result()->type, *result)->def;
    op->kind = constant.kind;
    op->operands.clear();
    op->attrs = constant.attrs;
    changed = true;
  }
  return changed;
}

/// The operands of 64 bits whose elements fit 31, of a reduction that only chooses among them.
std::vector<unsigned> narrowOperands(const Op &op, Ranges &ranges) {
  std::vector<unsigned> out;
  if (op.kind != OpKind::Reduce)
    return out;
  const std::optional<OpKind> only = onlyOperation(op);
  if (!choosesByOrder(op) && only != OpKind::SMin && only != OpKind::SMax && only != OpKind::UMin &&
      only != OpKind::UMax)
    return out;
  for (unsigned k = 0; k < op.operands.size(); ++k)
    if (op.operands[k]->type.elem == Elem::I64 && !op.operands[k]->type.isPtr) {
      const Maybe r = ranges.of(op.operands[k]);
      if (!r || r->least < 0 || r->most > std::numeric_limits<int32_t>::max())
        return {}; // one choice may be among both operands
      out.push_back(k);
    }
  return out;
}

bool narrowIn(Module &m, Block &block, Ranges &ranges) {
  bool changed = false;
  std::vector<Op *> ops;
  for (Op *op : block.ops) {
    const std::vector<unsigned> wide = narrowOperands(*op, ranges);
    std::vector<Op *> after;
    for (const unsigned k : wide) {
      Block alone;
      Builder builder(m);
      builder.setBlock(&alone);
      builder.setLoc(op->loc);
      builder.setInlinedAt(op->inlinedAt);
      Value *old = op->results[k];
      op->operands[k] = builder.cast(OpKind::Trunc, op->operands[k], Elem::I32);
      ops.insert(ops.end(), alone.ops.begin(), alone.ops.end());
      // What users have is extended from a new result.
      Op *extend = m.createOp(OpKind::SExt, op->loc, std::array{old}, std::array{old->type});
      extend->inlinedAt = op->inlinedAt;
      std::swap(op->results[k], extend->results[0]);
      Value *narrow = extend->operands[0] = op->results[k];
      narrow->type = old->type.withElem(Elem::I32);
      narrow->def = op;
      narrow->index = k;
      old->def = extend;
      old->index = 0;
      for (const size_t argument : {size_t{k}, op->operands.size() + k})
        op->region(0)->args[argument]->type = Type::scalar(Elem::I32);
      after.push_back(extend);
    }
    if (!wide.empty())
      for (Op *inner : op->region(0)->ops)
        if (inner->results.size() == 1 && inner->result()->type.elem == Elem::I64)
          inner->result()->type = inner->operands.back()->type; // a choice, or the only operation
    for (Region *r : op->regions)
      changed |= narrowIn(m, *r->block, ranges);
    ops.push_back(op);
    ops.insert(ops.end(), after.begin(), after.end());
    changed |= !wide.empty();
  }
  for (Op *op : ops)
    op->parent = &block;
  block.ops = std::move(ops);
  return changed;
}

} // namespace

bool foldComparisons(Module &m) {
  bool changed = false;
  for (Function *f : m.functions) {
    Ranges ranges;
    changed |= foldIn(m, *f->block(), ranges);
    changed |= narrowIn(m, *f->block(), ranges);
  }
  return changed;
}

} // namespace tegula
