// Finds and rewrites affine carried tensors; see AffineCarried.h. Replaced values get a forward, and a last walk over
// the function applies the forwards to operands.
#include "passes/AffineCarried.h"
#include "ir/Builder.h"
#include "passes/Effects.h"
#include <optional>

namespace tegula {

using namespace ir;

namespace {

/// One addition on the path from the region's argument to the next value.
struct Step {
  Value *scalar = nullptr; // of a splat, or null for a constant
  int64_t constant = 0;
  Value *tensor = nullptr; // an invariant broadcast
  bool negative = false;
};

class AffineLoops {
public:
  explicit AffineLoops(Module &m) : b_(m) { b_.setFolding(true); }

  void function(Function &f) {
    number(*f.block(), 0);
    block(*f.block());
    rewire(*f.block());
  }

private:
  // Value::mark holds the number of loops around a definition.
  void number(Block &b, uint32_t depth) {
    for (Value *v : b.args)
      v->mark = depth;
    for (Op *op : b.ops) {
      for (Value *v : op->results)
        v->mark = depth;
      for (Region *r : op->regions)
        number(*r->block, depth + (op->kind == OpKind::For || op->kind == OpKind::While));
    }
  }

  void rewire(Block &b) {
    for (Op *op : b.ops) {
      for (Value *&v : op->operands)
        v = resolve(v);
      for (Region *r : op->regions)
        rewire(*r->block);
    }
  }

  void block(Block &b);
  void loop(Op &op, std::vector<Op *> &after);
  std::optional<Step> stepOf(Value *offset, uint32_t loopDepth) const;
  std::optional<std::vector<Step>> steps(Value *next, Value *arg, uint32_t loopDepth) const;
  void rewrite(Op &op, unsigned i, const std::vector<Step> &steps, std::vector<Op *> &after);
  Value *advance(Value *offset, const std::vector<Step> &steps);
  Value *apply(Value *start, Value *offset, const std::vector<Step> &steps);

  Builder b_;
};

std::optional<Step> AffineLoops::stepOf(Value *offset, uint32_t loopDepth) const {
  Step s;
  if (!offset->def)
    return std::nullopt;
  if (std::optional<int64_t> c = constantInt(offset)) {
    s.constant = *c;
    return s;
  }
  if (offset->def->kind == OpKind::Splat) {
    s.scalar = resolve(offset->def->operands[0]);
    return s;
  }
  if (offset->def->kind == OpKind::Broadcast && offset->mark < loopDepth) {
    s.tensor = offset;
    return s;
  }
  return std::nullopt;
}

/// The additions on the path from `arg` to `next`; nothing if other operations are on it.
std::optional<std::vector<Step>> AffineLoops::steps(Value *next, Value *arg, uint32_t loopDepth) const {
  std::vector<Step> list;
  while (next != arg) {
    const Op *op = next->def;
    bool adds = op && (op->kind == OpKind::AddPtr || op->kind == OpKind::Add || op->kind == OpKind::Sub);
    if (!adds || list.size() >= 8)
      return std::nullopt;
    Value *base = resolve(op->operands[0]), *offset = resolve(op->operands[1]);
    std::optional<Step> s = stepOf(offset, loopDepth);
    if (!s && op->kind == OpKind::Add && (s = stepOf(base, loopDepth)))
      std::swap(base, offset);
    if (!s)
      return std::nullopt;
    s->negative = op->kind == OpKind::Sub;
    list.push_back(*s);
    next = base;
  }
  // A tensor step is counted, which works for one step alone.
  for (const Step &s : list)
    if (s.tensor && list.size() > 1)
      return std::nullopt;
  return list.empty() ? std::nullopt : std::optional(list);
}

/// The carried scalar after one more iteration.
Value *AffineLoops::advance(Value *offset, const std::vector<Step> &steps) {
  for (const Step &s : steps) {
    Value *by = s.tensor ? b_.constInt(offset->type, 1) : s.scalar ? s.scalar : b_.constInt(offset->type, s.constant);
    if (by->type != offset->type)
      by = b_.cast(OpKind::SExt, by, offset->type.elem);
    offset = b_.binary(s.negative ? OpKind::Sub : OpKind::Add, offset, by);
  }
  return offset;
}

/// start + offset, or start + offset * step for a tensor step.
Value *AffineLoops::apply(Value *start, Value *offset, const std::vector<Step> &steps) {
  Value *t = b_.splat(offset, start->type.shape);
  if (Value *step = steps[0].tensor) {
    if (step->type.elem != offset->type.elem)
      step = b_.cast(OpKind::SExt, step, offset->type.elem);
    t = b_.binary(OpKind::Mul, step, t);
  }
  return start->type.isPtr ? b_.addPtr(start, t) : b_.binary(OpKind::Add, start, t);
}

void AffineLoops::rewrite(Op &op, unsigned i, const std::vector<Step> &steps, std::vector<Op *> &after) {
  Module &m = b_.module();
  Block &body = *op.region(0), *outer = b_.block();
  Value *start = resolve(op.operands[i + 3]), *arg = body.args[i + 1], *result = op.results[i];
  // Pointers move by 64-bit offsets, in which a sum of 32-bit steps cannot wrap.
  Type t = Type::scalar(start->type.isPtr ? Elem::I64 : start->type.elem);
  op.operands[i + 3] = b_.constInt(t, 0);

  auto fresh = [&](const Value *old) {
    Value *v = m.createValue(t);
    v->def = old->def, v->block = old->block, v->index = old->index, v->mark = old->mark;
    return v;
  };
  Value *offset = body.args[i + 1] = fresh(arg), *last = op.results[i] = fresh(result);

  // At the start of the body, the tensor as it was; before the yield, the next offset.
  std::vector<Op *> ops;
  ops.swap(body.ops);
  b_.setBlock(&body);
  Value *now = apply(start, offset, steps);
  now->name = arg->name;
  now->mark = arg->mark;
  arg->forward = now;
  Op *yield = ops.back();
  body.ops.insert(body.ops.end(), ops.begin(), ops.end() - 1);
  yield->operands[i] = advance(offset, steps);
  body.ops.push_back(yield);

  // After the loop, the last value.
  std::vector<Op *> before;
  before.swap(outer->ops);
  b_.setBlock(outer);
  Value *end = apply(start, last, steps);
  end->mark = result->mark;
  result->forward = end;
  after.insert(after.end(), outer->ops.begin(), outer->ops.end());
  outer->ops.swap(before);
}

void AffineLoops::loop(Op &op, std::vector<Op *> &after) {
  Block &body = *op.region(0);
  uint32_t depth = body.args[0]->mark;
  for (unsigned i = 0; i < op.results.size(); ++i) {
    const Type &t = op.results[i]->type;
    if (t.isScalar() || t.isFloatLike())
      continue;
    Value *next = resolve(body.terminator()->operands[i]);
    if (std::optional<std::vector<Step>> s = steps(next, body.args[i + 1], depth))
      rewrite(op, i, *s, after);
  }
}

void AffineLoops::block(Block &b) {
  std::vector<Op *> ops, after;
  ops.swap(b.ops);
  b.ops.reserve(ops.size());
  for (Op *op : ops) {
    for (Region *r : op->regions)
      block(*r->block);
    after.clear();
    if (op->kind == OpKind::For) {
      b_.setBlock(&b);
      b_.setLoc(op->loc);
      b_.setInlinedAt(op->inlinedAt);
      loop(*op, after);
    }
    b.ops.push_back(op);
    b.ops.insert(b.ops.end(), after.begin(), after.end());
  }
}

} // namespace

void affineCarried(Module &m) {
  for (Function *f : m.functions)
    AffineLoops(m).function(*f);
}

} // namespace tegula
