// The walk of Simplify.h.
#include "passes/Simplify.h"
#include "ir/Scalar.h"
#include "passes/Canonicalize.h"
#include "passes/Effects.h"
#include "passes/EqualOps.h"
#include "passes/RemoveDead.h"
#include <array>

namespace tegula {

using namespace ir;

namespace {

class Simplifier : public NodeMaker {
public:
  explicit Simplifier(Module &m) : module_(m), b_(m) {}

  void function(Function &f) { block(*f.block()); }
  SimplifyWork work() const { return {work_.visited, work_.judged, work_.compared + equal_.compared()}; }
  Value *make(Node n) override;

private:
  void block(Block &b);
  void visit(Op &op);
  void visitAll(const std::vector<Op *> &ops, size_t count);
  void keep(Op &op);
  Value *value(Node n, Op *existing);
  Value *unify(Value *v);
  bool masks(Op &op);
  void memory(Op &op);
  void isolated(Op &op);
  void ifOp(Op &op);
  bool straightIf(Op &op);
  bool selectIf(Op &op);
  void arm(Region &r, Value *cond, bool holds);
  void forOp(Op &op);
  bool straightFor(Op &op);
  void whileOp(Op &op);
  void replace(Value *v, Value *by) {
    if (v != by)
      v->forward = by;
  }

  Module &module_;
  Builder b_;
  EqualOps equal_;
  uint64_t epoch_ = 0;     // changes when memory may have changed
  uint64_t lastEpoch_ = 0; // never used again
  unsigned depth_ = 0;     // of make(), against rules that feed each other
  bool combining_ = false; // in the region of a reduction or scan
  SimplifyWork work_;      // `compared` only of tables that are gone
};

/// Rebuilds a block: visit() appends the operations that remain.
void Simplifier::block(Block &b) {
  Block *outer = b_.block();
  std::vector<Op *> ops;
  ops.swap(b.ops);
  b.ops.reserve(ops.size());
  b_.setBlock(&b);
  size_t scope = equal_.open();
  visitAll(ops, ops.size());
  equal_.close(scope);
  b_.setBlock(outer);
}

void Simplifier::visitAll(const std::vector<Op *> &ops, size_t count) {
  for (size_t i = 0; i < count; ++i)
    visit(*ops[i]);
}

void Simplifier::keep(Op &op) {
  op.parent = b_.block();
  b_.block()->ops.push_back(&op);
}

/// A constant that the folder has just made may exist already.
Value *Simplifier::unify(Value *v) {
  Block &b = *b_.block();
  if (!v->def || v->def->kind != OpKind::Const || b.ops.empty() || b.ops.back() != v->def)
    return v;
  Op *op = v->def;
  Op *same = equal_.findOrAdd(*op, 0);
  if (same == op)
    return v;
  b.ops.pop_back();
  return same->result();
}

Value *Simplifier::make(Node n) {
  for (Value *&v : n.operands)
    v = resolve(v);
  return value(std::move(n), nullptr);
}

/// The value of a pure node; `existing` is the operation it comes from and is kept if nothing better is found.
Value *Simplifier::value(Node n, Op *existing) {
  ++work_.judged;
  if (n.kind != OpKind::Const) {
    if (Value *v = fold(b_, n.kind, n.operands, n.type, n.attrs))
      return unify(v);
    if (depth_ < 32) {
      ++depth_;
      Value *v = canonicalize(*this, n);
      --depth_;
      if (v)
        return v;
    }
  }
  if (existing) {
    existing->operands = std::move(n.operands);
    existing->attrs = std::move(n.attrs);
    if (Op *same = equal_.findOrAdd(*existing, 0); same != existing)
      return same->result();
    keep(*existing);
    return existing->result();
  }
  Op *op = b_.create(n.kind, n.operands, {&n.type, 1}, std::move(n.attrs));
  if (Op *same = equal_.findOrAdd(*op, 0); same != op) {
    b_.block()->ops.pop_back();
    return same->result();
  }
  return op->result();
}

void Simplifier::visit(Op &op) {
  ++work_.visited;
  for (Value *&v : op.operands)
    v = resolve(v);
  b_.setLoc(op.loc);
  b_.setInlinedAt(op.inlinedAt);
  switch (op.kind) {
  case OpKind::If: return ifOp(op);
  case OpKind::For: return forOp(op);
  case OpKind::While: return whileOp(op);
  case OpKind::Reduce: case OpKind::Scan: return isolated(op);
  case OpKind::Load: case OpKind::Store: case OpKind::AtomicRmw: case OpKind::AtomicCas: return memory(op);
  case OpKind::Assert: case OpKind::Assume:
    if (constantInt(op.operands[0]) == 1)
      return;
    return keep(op);
  default: break;
  }
  if (!op.has(traits::Pure)) {
    keep(op);
    if (writesMemory(op))
      epoch_ = ++lastEpoch_;
    return;
  }
  if (op.results.size() == 1) {
    Node n{op.kind, op.operands, op.result()->type, op.attrs};
    return replace(op.result(), value(std::move(n), &op));
  }
  if (op.kind == OpKind::Split)
    if (Value *x = op.operands[0]; x->def && (x->def->kind == OpKind::Splat || x->def->kind == OpKind::Const)) {
      for (Value *r : op.results)
        replace(r, x->def->kind == OpKind::Const ? make({OpKind::Const, {}, r->type, x->def->attrs})
                                                 : make({OpKind::Splat, {x->def->operands[0]}, r->type, {}}));
      return;
    }
  Op *same = equal_.findOrAdd(op, 0);
  if (same == &op)
    return keep(op);
  for (size_t i = 0; i < op.results.size(); ++i)
    replace(op.results[i], same->results[i]);
}

/// Constant masks. True if the operation is gone.
bool Simplifier::masks(Op &op) {
  std::optional<int64_t> c = op.mask() ? constantInt(op.mask()) : std::nullopt;
  if (!c)
    return false;
  if (*c) {
    op.operands.resize(op.maskAt());
    return false;
  }
  if (op.kind == OpKind::Load) {
    const Type &t = op.result()->type;
    bool hasOther = op.operands.size() > 2;
    replace(op.result(),
            hasOther ? op.operands[2] : make({OpKind::Const, {}, t, {{attr::value, constantAttr(t.elem, 0)}}}));
  }
  // an atomic's result is used as if unspecified; targets know what they give
  return op.results.empty() || op.kind == OpKind::Load;
}

void Simplifier::memory(Op &op) {
  if (masks(op))
    return;
  if (op.kind != OpKind::Load) {
    keep(op);
    epoch_ = ++lastEpoch_;
    return;
  }
  if (op.isVolatile())
    return keep(op);
  // A load of one address for all elements is a scalar load.
  bool uniform = op.result()->type.isTensor() && isUnhinted(op.attrs);
  for (const Value *v : op.operands)
    uniform =
        uniform && v->def && (v->def->kind == OpKind::Splat || (v->def->kind == OpKind::Const && v != op.operands[0]));
  if (uniform) {
    std::vector<Value *> scalars;
    for (Value *v : op.operands)
      scalars.push_back(v->def->kind == OpKind::Splat ? v->def->operands[0]
                                                      : make({OpKind::Const, {}, v->type.scalarType(), v->def->attrs}));
    Type t = op.result()->type.scalarType();
    Op *load = b_.create(OpKind::Load, scalars, {&t, 1}, op.attrs);
    Op *same = equal_.findOrAdd(*load, epoch_ + 1);
    if (same != load)
      b_.block()->ops.pop_back();
    return replace(op.result(), make({OpKind::Splat, {same->result()}, op.result()->type, {}}));
  }
  // Epochs are told apart from the 0 of pure operations.
  Op *same = equal_.findOrAdd(op, epoch_ + 1);
  if (same != &op)
    return replace(op.result(), same->result());
  keep(op);
}

void Simplifier::isolated(Op &op) {
  EqualOps outer;
  std::swap(outer, equal_);
  combining_ = true;
  for (Region *r : op.regions)
    block(*r->block);
  combining_ = false;
  work_.compared += equal_.compared();
  std::swap(outer, equal_);
  keep(op);
  if (writesMemory(op))
    epoch_ = ++lastEpoch_;
}

/// Replaces an `if` with a known condition by its taken arm.
bool Simplifier::straightIf(Op &op) {
  std::optional<int64_t> c = constantInt(op.operands[0]);
  if (!c)
    return false;
  const std::vector<Op *> ops = op.region(*c ? 0 : 1)->ops;
  visitAll(ops, ops.size() - 1);
  for (size_t i = 0; i < op.results.size(); ++i)
    replace(op.results[i], resolve(ops.back()->operands[i]));
  return true;
}

void Simplifier::arm(Region &r, Value *cond, bool holds) {
  // Within the arm the condition is known. A forward on the condition itself does it; nothing outside sees it.
  Op *known = module_.createOp(OpKind::Const, b_.loc(), {}, std::array<Type, 1>{cond->type}, {{attr::value, holds}});
  known->parent = r.block;
  r.block->ops.insert(r.block->ops.begin(), known);
  cond->forward = known->result();
  block(*r.block);
  cond->forward = nullptr;
}

/// An `if` whose arms hold at most constants is a select, if all its results are scalars. In the region of a reduction
/// or scan the arms may compute: it is executed for each element, where a branch prevents vectors, and hundreds of
/// branches in a row, each with several merged values, take LLVM minutes and gigabytes.
bool Simplifier::selectIf(Op &op) {
  for (const Value *v : op.results)
    if (v->type.isTensor())
      return false;
  for (const Region *r : op.regions)
    for (const Op *o : r->block->ops)
      if (o->kind != OpKind::Const && o != r->block->ops.back() && !(combining_ && o->regions.empty() && isPure(*o)))
        return false;
  for (const Region *r : op.regions)
    visitAll(r->block->ops, r->block->ops.size() - 1);
  for (unsigned i = 0; i < op.results.size(); ++i) {
    Value *a = resolve(op.region(0)->terminator()->operands[i]), *b = resolve(op.region(1)->terminator()->operands[i]);
    replace(op.results[i], make({OpKind::Select, {op.operands[0], a, b}, op.results[i]->type, {}}));
  }
  return true;
}

void Simplifier::ifOp(Op &op) {
  if (straightIf(op))
    return;
  uint64_t before = epoch_;
  arm(*op.regions[0], op.operands[0], true);
  epoch_ = before;
  arm(*op.regions[1], op.operands[0], false);
  epoch_ = before;
  b_.setLoc(op.loc);
  b_.setInlinedAt(op.inlinedAt);
  for (unsigned i = static_cast<unsigned>(op.results.size()); i-- > 0;) {
    Value *a = resolve(op.region(0)->terminator()->operands[i]), *b = resolve(op.region(1)->terminator()->operands[i]);
    if (a == b) { // the same value from outside, whatever the condition
      replace(op.results[i], a);
      eraseCarried(op, i);
    }
  }
  if (selectIf(op))
    return;
  keep(op);
  if (writesMemory(op))
    epoch_ = ++lastEpoch_;
}

bool Simplifier::straightFor(Op &op) {
  std::optional<int64_t> lb = constantInt(op.operands[0]), ub = constantInt(op.operands[1]),
                         step = constantInt(op.operands[2]);
  bool reverse = op.reverse();
  Block &body = *op.region(0);
  bool never = (lb && ub && (reverse ? *lb <= *ub : *lb >= *ub)) || op.operands[0] == op.operands[1];
  if (never) {
    for (size_t i = 0; i < op.results.size(); ++i)
      replace(op.results[i], op.operands[i + 3]);
    return true;
  }
  if (!lb || !ub || !step || *step <= 0)
    return false;
  // Distances in 128 bits, so that bounds at the ends of the range cannot overflow.
  __int128 distance = reverse ? static_cast<__int128>(*lb) - *ub : static_cast<__int128>(*ub) - *lb;
  if (distance > *step)
    return false;
  replace(body.args[0], op.operands[0]);
  for (size_t i = 0; i < op.results.size(); ++i)
    replace(body.args[i + 1], op.operands[i + 3]);
  const std::vector<Op *> ops = body.ops;
  visitAll(ops, ops.size() - 1);
  for (size_t i = 0; i < op.results.size(); ++i)
    replace(op.results[i], resolve(ops.back()->operands[i]));
  return true;
}

void Simplifier::forOp(Op &op) {
  if (straightFor(op))
    return;
  Block &body = *op.region(0);
  for (unsigned i = static_cast<unsigned>(op.results.size()); i-- > 0;)
    // Unchanged, or set again to what it began with: `offsets = tl.arange(0, N)` in the loop, too.
    if (const Value *next = resolve(body.terminator()->operands[i]);
        next == body.args[i + 1] || next == op.operands[i + 3]) {
      replace(body.args[i + 1], op.operands[i + 3]);
      replace(op.results[i], op.operands[i + 3]);
      eraseCarried(op, i);
    }
  bool writes = writesMemory(op);
  if (writes)
    epoch_ = ++lastEpoch_;
  block(body);
  if (writes)
    epoch_ = ++lastEpoch_;
  keep(op);
}

void Simplifier::whileOp(Op &op) {
  bool writes = writesMemory(op);
  if (writes)
    epoch_ = ++lastEpoch_;
  // The second region runs only after the first, but sees nothing of it, so both open their own scope.
  for (Region *r : op.regions)
    block(*r->block);
  if (writes)
    epoch_ = ++lastEpoch_;
  keep(op);
}

} // namespace

void simplify(Module &m, SimplifyWork *work) {
  for (Function *f : m.functions) {
    Simplifier s(m);
    s.function(*f);
    if (work) {
      const SimplifyWork w = s.work();
      work->visited += w.visited, work->judged += w.judged, work->compared += w.compared;
    }
  }
  removeDead(m);
}

} // namespace tegula
