// Turns the blocks of a function into steps; see Plan.h for what a plan is.
//
// Writing in place. What leaves a block (yields of for, while and if, the values that a while's condition passes on) is written to the
// buffers of what it becomes, and every new value must be computed from the state before any of these writes. One rule for all of them
// (parallelMaterialize): move i writes its buffer b directly if
//   1. its value reads b at the element that it computes and nowhere else,
//   2. no later move reads b at all, and
//   3. no root already in the nest that it joins reads b at other elements (else that nest ends first, flushReadersOf).
// All other moves go to temporaries, which are copied behind all moves. The rule asks for buffers, not values: the arguments of a
// while's two blocks and its results share one. It suffices: by 2, what a move reads has not been written by an earlier one, unless at
// the same element of one nest, where a root's reads come before its write; by 1 and 3, each nest that writes b reads element i of it
// only for element i, in roots up to the writing one; temporaries are nobody's, and are read when no move is left. coalesceBuffers()
// drops copies under the same two conditions: nothing reads the target between the first write of the source and the copy, except
// element i for element i in the nest of that first write.
//
// Scalars are computed where they are defined (needsPending): in front of the pending nest, or behind it if the scalar needs what it
// makes (mayBeLate); the nest is ended if the scalar reads memory that it may write.
#include "targets/cpu/Plan.h"
#include "targets/cpu/BitMap.h"
#include "targets/cpu/ColumnsOfA.h"
#include "targets/cpu/Materialize.h"
#include "passes/SignificantBits.h"
#include "llvm/ADT/SmallSet.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {

class Planner {
public:
  Planner(const ir::Function &f, const CpuTarget &target, Plan &plan)
      : target_(target), plan_(plan), uses_(f), materialization_(f, uses_) {}

  void block(const ir::Block &b, Steps &out);
  const Uses &uses() const { return uses_; }

private:
  void op(const Op &op);
  void combineRegion(const Op &op);
  bool needsPending(const Op &op) const;
  void define(const Op &op);
  bool mayBeLate(const Op &op) const;
  void dot(const Op &op);
  void forLoop(const Op &op);
  void whileLoop(const Op &op);
  void ifOp(const Op &op);
  void terminator(const Op &op);
  void print(const Op &op);
  int newBuffer(const ir::Type &t, const ir::Shape &s);
  DotPlan planOf(const Op &dot) const;
  Buffer packedBuffer(const Op &dot, const Value *v, ir::Elem elem, int64_t elems, llvm::function_ref<int64_t(bool row, int64_t)> strideOf) const;
  Buffer packedLeft(const Op &dot, const DotPlan &p) const;
  Buffer bufferOfDefined(const Value *v) const;
  int resultBuffer(const Value *v);
  void materialize(const Value *v, int buffer);
  /// Writes several values to the buffers of loop-carried arguments as if at once.
  void parallelMaterialize(llvm::ArrayRef<std::pair<const Value *, const Value *>> valueAndTarget);
  /// Values already looked at, and whether at the same place.
  using Seen = llvm::SmallSet<std::pair<const Value *, bool>, 16>;
  bool reads(const Value *v, int buffer, bool atSamePlace, Seen &seen) const;
  bool reads(const Value *v, int buffer, bool atSamePlace) const {
    Seen seen;
    return reads(v, buffer, atSamePlace, seen);
  }
  void flushReadersOf(int buffer);
  bool isLoadOfMemory(const Value *v) const;
  bool onlyFeeds(const Value *v, const Op &dot) const;
  const Value *accumulatesInto(const Op &dot) const;
  const Op *addsToCarried(const Op &reduce) const;

  void add(Root root, const ir::Shape &space, int axis = -1, bool sequential = false);
  bool fits(const Root &root, const ir::Shape &space, int axis) const;
  bool memoryOrderKept(const Root &root) const;
  bool dependsOnPending(const Value *v, bool samePlace, unsigned &budget) const;
  /// Loads that `v` needs. `moved`: those among them whose elements are used at other places than they are loaded for (a transposed tile).
  void loadsOf(const Value *v, bool samePlace, llvm::SmallPtrSetImpl<const Op *> &out, llvm::SmallPtrSetImpl<const Op *> &moved, unsigned &budget) const;
  void flush();
  Step &step(StepKind kind, const Op *op);

  const CpuTarget &target_;
  Plan &plan_;
  Uses uses_;
  Materialization materialization_;
  Steps *out_ = nullptr;
  std::unique_ptr<Nest> pending_;
  llvm::SmallPtrSet<const Value *, 8> pendingResults_; // made by the pending nest
  llvm::SmallVector<const Op *, 8> late_;              // defined behind the pending nest, as they need what it makes
  llvm::SmallPtrSet<const Op *, 4> absorbed_;          // done by the roots of others
  bool pendingWrites_ = false;                         // holds a store
  bool inRegion_ = false;                              // of a reduction or scan
};

std::vector<int64_t> rowMajor(const ir::Shape &s) {
  std::vector<int64_t> stride;
  for (unsigned i = 0, n = bitCount(s); i < n; ++i)
    stride.push_back(int64_t(1) << i);
  return stride;
}

int Planner::newBuffer(const ir::Type &t, const ir::Shape &s) {
  Buffer b;
  b.element = t.scalarType();
  b.stride = rowMajor(s);
  b.elems = s.numel();
  plan_.buffers.push_back(std::move(b));
  return static_cast<int>(plan_.buffers.size() - 1);
}

int Planner::resultBuffer(const Value *v) {
  int b = plan_.bufferFor(v);
  if (b < 0) {
    b = newBuffer(v->type, v->type.shape);
    plan_.bufferOf[v] = b;
  }
  return b;
}

Step &Planner::step(StepKind kind, const Op *op) {
  out_->push_back(Step{kind, op});
  return out_->back();
}

void Planner::flush() {
  if (!pending_)
    return;
  step(StepKind::Nest, nullptr).nest = std::move(pending_);
  pending_.reset();
  pendingResults_.clear();
  pendingWrites_ = false;
  for (const Op *op : late_)
    step(StepKind::Define, op);
  late_.clear();
}

// Does v, computed inside a nest, read what the pending nest makes, other than a buffered element at the same place?
bool Planner::dependsOnPending(const Value *v, bool samePlace, unsigned &budget) const {
  if (v->def && llvm::is_contained(late_, v->def))
    return true;
  if (pendingResults_.contains(v)) {
    bool isReduction = v->def && v->def->kind == OpKind::Reduce;
    return isReduction || !samePlace || !(v->type.shape == pending_->space);
  }
  if (!v->def || plan_.bufferFor(v) >= 0)
    return false;
  if (budget == 0)
    return true;
  --budget;
  bool same = samePlace && v->def->has(ir::traits::Elementwise) | (v->def->kind == OpKind::Load);
  for (const Value *o : v->def->operands)
    if (dependsOnPending(o, same, budget))
      return true;
  return false;
}

void Planner::loadsOf(const Value *v, bool samePlace, llvm::SmallPtrSetImpl<const Op *> &out, llvm::SmallPtrSetImpl<const Op *> &moved,
                      unsigned &budget) const {
  if (!v->def || budget == 0)
    return;
  --budget;
  if (plan_.bufferFor(v) >= 0 && !pendingResults_.contains(v))
    return;
  bool isLoad = v->def->kind == OpKind::Load;
  if (isLoad)
    (samePlace ? out : moved).insert(v->def);
  for (const Value *o : v->def->operands)
    loadsOf(o, samePlace && (isLoad || v->def->has(ir::traits::Elementwise)), out, moved, budget);
}

static void valuesOf(const Root &r, llvm::SmallVectorImpl<const Value *> &out) {
  if (r.op)
    out.append(r.op->operands.begin(), r.op->operands.end());
  if (r.value) {
    if (r.value->def && r.kind == RootKind::Materialize)
      out.push_back(r.value);
  }
}

// A nest interleaves its roots chunk by chunk: a load of one root and a store of another must not meet, unless they
// touch the same element at the same place. Two arguments may be one buffer, whose elements are of one type.
bool Planner::memoryOrderKept(const Root &root) const {
  bool writes = root.kind == RootKind::Store;
  if (!writes && !pendingWrites_)
    return true;
  auto check = [&](const Root &store, const Root &reader) {
    llvm::SmallVector<const Value *, 4> values;
    valuesOf(reader, values);
    llvm::SmallPtrSet<const Op *, 8> loads, moved;
    unsigned budget = 400;
    for (const Value *v : values)
      loadsOf(v, true, loads, moved, budget);
    if (budget == 0)
      return false;
    int arg = memoryOf(store.op->operands[0]);
    auto meets = [&](const Op *l) {
      int from = memoryOf(l->operands[0]);
      return from == arg || from < 0 || arg < 0 || l->results[0]->type.elem == store.op->operands[1]->type.elem;
    };
    return llvm::none_of(moved, meets) && llvm::none_of(loads, [&](const Op *l) { return meets(l) && !sameOffsets(l->operands[0], store.op->operands[0], *plan_.function); });
  };
  for (const Root &r : pending_->roots) {
    if (writes && !check(root, r))
      return false;
    if (r.kind == RootKind::Store && !check(r, root))
      return false;
    // Two stores through one argument stay in order if each element is written at one place.
    if (writes && r.kind == RootKind::Store && r.op->operands[0] != root.op->operands[0] &&
        memoryOf(r.op->operands[0]) == memoryOf(root.op->operands[0]))
      return false;
  }
  return true;
}

bool Planner::fits(const Root &root, const ir::Shape &space, int axis) const {
  if (!pending_ || pending_->sequential || !(pending_->space == space) || pending_->roots.size() >= 16)
    return false;
  if (axis >= 0 && pending_->axis >= 0 && axis != pending_->axis)
    return false;
  llvm::SmallVector<const Value *, 4> values;
  valuesOf(root, values);
  unsigned budget = 400;
  for (const Value *v : values) {
    if (dependsOnPending(v, true, budget))
      return false;
  }
  return memoryOrderKept(root);
}

void Planner::add(Root root, const ir::Shape &space, int axis, bool sequential) {
  if (sequential || !fits(root, space, axis)) {
    flush();
    pending_ = std::make_unique<Nest>();
    pending_->space = space;
    pending_->sequential = sequential;
  }
  if (axis >= 0)
    pending_->axis = axis;
  pendingWrites_ |= root.kind == RootKind::Store;
  if (root.kind == RootKind::Materialize && root.value)
    pendingResults_.insert(root.value);
  if (root.op)
    pendingResults_.insert(root.op->results.begin(), root.op->results.end());
  pending_->roots.push_back(root);
  if (sequential)
    flush();
}

void Planner::materialize(const Value *v, int buffer) {
  add({RootKind::Materialize, nullptr, v, buffer}, v->type.shape);
}

// Does a nest that computes v read the buffer? With `atSamePlace`: other elements of it than the one that the nest is at.
bool Planner::reads(const Value *v, int buffer, bool atSamePlace, Seen &seen) const {
  if (int b = plan_.bufferFor(v); b >= 0)
    return b == buffer && !atSamePlace;
  if (!v->def || !seen.insert({v, atSamePlace}).second)
    return false;
  bool same = atSamePlace && v->def->has(ir::traits::Elementwise);
  return llvm::any_of(v->def->operands, [&](const Value *o) { return reads(o, buffer, same, seen); });
}

// The step runs before the pending nest unless that is flushed now. A virtual tensor only gets its linear form, of scalars; a
// scalar is computed here, from tensors too (split, unsplat): from every buffer and all memory that its operands reach.
bool Planner::needsPending(const Op &op) const {
  if (!pending_)
    return false;
  llvm::SmallPtrSet<const Op *, 8> loads;
  unsigned budget = 400;
  for (const Value *v : op.operands) {
    if (v->type.isScalar() && pendingResults_.contains(v))
      return true;
    if (!v->type.isTensor() || isTensorOp(op))
      continue;
    if (dependsOnPending(v, false, budget))
      return true;
    loadsOf(v, true, loads, loads, budget);
    if (budget == 0 || (pendingWrites_ && !loads.empty()))
      return true;
  }
  return false;
}

// May the definition of `op` wait for the end of the pending nest, which goes on without it? Layer norm's backward pass divides the first of its two sums before it has begun the second one. It must be
// computed from scalars alone: a tensor would be read when the nest has made other roots, which may write it.
bool Planner::mayBeLate(const Op &op) const {
  auto isScalar = [](const Value *v) { return v->type.isScalar(); };
  const bool virtualTensor = isTensorOp(op) && (op.has(ir::traits::Elementwise) || op.has(ir::traits::Shape));
  return !inRegion_ && op.regions.empty() && (virtualTensor || (!op.has(ir::traits::Reads | ir::traits::Writes) && op.has(ir::traits::Elementwise) && llvm::all_of(op.operands, isScalar)));
}

// A scalar or virtual tensor op.
void Planner::define(const Op &op) {
  const bool needsLate = llvm::any_of(op.operands, [&](const Value *v) { return v->def && llvm::is_contained(late_, v->def); });
  if (needsLate || needsPending(op)) {
    if (mayBeLate(op) && late_.size() < 32) {
      late_.push_back(&op);
      return;
    }
    flush();
  }
  bool memory = op.has(ir::traits::Reads | ir::traits::Writes) && !isTensorOp(op);
  if (memory && pending_ && (pendingWrites_ || op.has(ir::traits::Writes)))
    flush();
  step(StepKind::Define, &op);
}

// The pending nest must not read the buffer at other places than the one it writes next.
void Planner::flushReadersOf(int buffer) {
  if (!pending_)
    return;
  for (const Root &r : pending_->roots) {
    llvm::SmallVector<const Value *, 4> values;
    valuesOf(r, values);
    for (const Value *v : values) {
      // What the nest itself makes has a buffer, but is computed here.
      const Op *made = r.makes ? v->def : nullptr;
      bool same = !made || made->has(ir::traits::Elementwise);
      if (made ? llvm::any_of(made->operands, [&](const Value *o) { return reads(o, buffer, same); }) : reads(v, buffer, true))
        return flush();
    }
  }
}

void Planner::parallelMaterialize(llvm::ArrayRef<std::pair<const Value *, const Value *>> moves) {
  // moves[i]: value, and the carried value whose buffer takes it. Direct if nobody after i still reads that buffer.
  std::vector<std::pair<int, int>> copies; // temporary, target
  std::vector<const Value *> targets;
  for (size_t i = 0; i < moves.size(); ++i) {
    auto [v, target] = moves[i];
    int buffer = plan_.bufferFor(target);
    if (v == target || plan_.bufferFor(v) == buffer)
      continue;
    bool direct = !reads(v, buffer, true);
    for (size_t j = i + 1; j < moves.size() && direct; ++j)
      direct = !reads(moves[j].first, buffer, false);
    if (direct) {
      flushReadersOf(buffer);
      materialize(v, buffer);
      continue;
    }
    int temporary = newBuffer(v->type, v->type.shape);
    materialize(v, temporary);
    copies.push_back({temporary, buffer});
    targets.push_back(target);
  }
  flush();
  for (size_t i = 0; i < copies.size(); ++i) {
    // A copy between buffers: a materialize root without value, source in bufferA of the step.
    Step &s = step(StepKind::Nest, nullptr);
    s.bufferA = copies[i].first;
    s.nest = std::make_unique<Nest>();
    s.nest->space = targets[i]->type.shape;
    s.nest->roots.push_back({RootKind::Materialize, nullptr, targets[i], copies[i].second});
  }
}

void Planner::forLoop(const Op &op) {
  const ir::Block &body = *op.regions[0]->block;
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Value *arg = body.args[i + 1];
    if (!arg->type.isTensor())
      continue;
    int b = resultBuffer(arg);
    plan_.bufferOf[op.results[i]] = b;
    materialize(op.operands[3 + i], b);
  }
  flush();
  size_t at = out_->size();
  step(StepKind::For, &op);
  Steps steps;
  block(body, steps);
  (*out_)[at].bodies.push_back(std::move(steps));
}

void Planner::whileLoop(const Op &op) {
  const ir::Block &before = *op.regions[0]->block, &after = *op.regions[1]->block;
  for (size_t i = 0; i < before.args.size(); ++i)
    if (before.args[i]->type.isTensor())
      materialize(op.operands[i], resultBuffer(before.args[i]));
  const Op *cond = before.terminator();
  for (size_t i = 0; i < after.args.size(); ++i)
    if (after.args[i]->type.isTensor()) {
      // A value passed through unchanged needs no second buffer.
      const Value *passed = cond->operands[1 + i];
      int b = !passed->def && passed->block == &before ? plan_.bufferFor(passed) : resultBuffer(after.args[i]);
      plan_.bufferOf[after.args[i]] = b;
      plan_.bufferOf[op.results[i]] = b;
    }
  flush();
  size_t at = out_->size();
  step(StepKind::While, &op);
  for (const ir::Block *b : {&before, &after}) {
    Steps steps;
    block(*b, steps);
    (*out_)[at].bodies.push_back(std::move(steps));
  }
}

void Planner::ifOp(const Op &op) {
  for (const Value *r : op.results)
    if (r->type.isTensor())
      resultBuffer(r);
  flush();
  size_t at = out_->size();
  step(StepKind::If, &op);
  for (const ir::Region *r : op.regions) {
    Steps steps;
    if (r->block)
      block(*r->block, steps);
    (*out_)[at].bodies.push_back(std::move(steps));
  }
}

void Planner::terminator(const Op &op) {
  const Op *owner = op.parent->parent->op;
  std::vector<std::pair<const Value *, const Value *>> moves;
  auto move = [&](const Value *v, const Value *target) {
    if (v->type.isTensor() && plan_.bufferFor(v) != plan_.bufferFor(target))
      moves.push_back({v, target});
    else if (v->type.isTensor() && v != target && plan_.bufferFor(v) < 0)
      moves.push_back({v, target});
  };
  if (!owner) {
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (op.operands[i]->type.isTensor()) {
        int b = newBuffer(op.operands[i]->type, op.operands[i]->type.shape);
        plan_.buffers[static_cast<size_t>(b)].external = static_cast<int>(i);
        materialize(op.operands[i], b);
      }
    flush();
    step(StepKind::Return, &op);
    return;
  }
  if (owner->kind == OpKind::For) {
    for (size_t i = 0; i < op.operands.size(); ++i)
      move(op.operands[i], op.parent->args[i + 1]);
  } else if (owner->kind == OpKind::While && op.kind == OpKind::Condition) {
    for (size_t i = 0; i + 1 < op.operands.size(); ++i)
      move(op.operands[i + 1], owner->regions[1]->block->args[i]);
  } else if (owner->kind == OpKind::While) {
    for (size_t i = 0; i < op.operands.size(); ++i)
      move(op.operands[i], owner->regions[0]->block->args[i]);
  } else {
    for (size_t i = 0; i < op.operands.size(); ++i)
      move(op.operands[i], owner->results[i]);
  }
  parallelMaterialize(moves);
  flush();
}

// True if every use of `v` ends in the accumulator operand of `dot`, element by element: nobody else looks at it.
bool Planner::onlyFeeds(const Value *v, const Op &dot) const {
  for (const Op *u : uses_.users(v)) {
    if (u == &dot) {
      if (dot.operands[0] == v || dot.operands[1] == v)
        return false;
      continue;
    }
    bool passes = u->parent == dot.parent && u->has(ir::traits::Elementwise) && plan_.bufferFor(u->results[0]) < 0;
    if (!passes || !onlyFeeds(u->results[0], dot))
      return false;
  }
  return true;
}

// `acc = dot(a, b, f(acc))` in a loop, f elementwise: the loop-carried value whose buffer can be accumulated into, or null.
const Value *Planner::accumulatesInto(const Op &dot) const {
  const ir::Block &body = *dot.parent;
  const Op *loop = body.parent ? body.parent->op : nullptr;
  const std::span<Op *const> users = uses_.users(dot.results[0]);
  if (!loop || loop->kind != OpKind::For || users.size() != 1 || users[0] != body.terminator())
    return nullptr;
  const auto &yields = body.terminator()->operands;
  if (std::count(yields.begin(), yields.end(), dot.results[0]) != 1)
    return nullptr;
  size_t slot = static_cast<size_t>(std::find(yields.begin(), yields.end(), dot.results[0]) - yields.begin());
  const Value *arg = body.args[slot + 1];
  bool inPlace = plan_.bufferFor(arg) >= 0 && onlyFeeds(arg, dot) && !reads(dot.operands[2], plan_.bufferFor(arg), true);
  return inPlace ? arg : nullptr;
}

// `carried = f(carried, reduce)` in a loop, element by element, and nobody else sees either of them: f. Else null.
const Op *Planner::addsToCarried(const Op &reduce) const {
  const ir::Block &body = *reduce.parent;
  const Op *loop = body.parent ? body.parent->op : nullptr;
  if (reduce.kind != OpKind::Reduce || reduce.results.size() != 1 || !reduce.result()->type.isTensor() || !loop || loop->kind != OpKind::For)
    return nullptr;
  const Op *const end = body.terminator();
  auto onlyUser = [&](const Value *v) -> const Op * { return uses_.users(v).size() == 1 ? uses_.users(v)[0] : nullptr; };
  const Op *f = onlyUser(reduce.result());
  if (!f || f->parent != &body || !f->has(ir::traits::Elementwise) || f->operands.size() != 2 || f->results.size() != 1 || onlyUser(f->result()) != end)
    return nullptr;
  const auto at = std::find(end->operands.begin(), end->operands.end(), f->result());
  const Value *arg = body.args[static_cast<size_t>(at - end->operands.begin()) + 1];
  const bool inPlace = std::count(at, end->operands.end(), f->result()) == 1 && onlyUser(arg) == f && f->operands[0] != f->operands[1] && arg->type == f->result()->type &&
                       arg->type == reduce.result()->type && plan_.bufferFor(arg) >= 0;
  return inPlace ? f : nullptr;
}

// A load whose elements nobody has to keep, its dimensions perhaps renamed.
bool Planner::isLoadOfMemory(const Value *v) const {
  for (; v->def && plan_.bufferFor(v) < 0; v = v->def->operands[0]) {
    if (v->def->kind == OpKind::Load)
      return !v->def->isVolatile() && !v->type.isPtr;
    if (!v->def->has(ir::traits::Shape) || v->def->operands.size() != 1 || v->def->kind == OpKind::Split)
      return false;
  }
  return false;
}

DotPlan Planner::planOf(const Op &dot) const {
  const ir::Shape &as = dot.operands[0]->type.shape, &cs = dot.results[0]->type.shape;
  unsigned r = cs.rank();
  return dotPlan(target_, dot.operands[0]->type.elem, dot.operands[1]->type.elem, dot.results[0]->type.elem, cs[r - 2], cs[r - 1], as[r - 1], dot.precision(),
                 dot.operands[1]->type.elem == ir::Elem::I8 && signIsZero(dot.operands[1]));
}

// An operand of a dot as it is packed: rows and columns of each of its matrices are as far apart as strideOf() says, matrices `elems` elements.
Buffer Planner::packedBuffer(const Op &dot, const Value *v, ir::Elem elem, int64_t elems, llvm::function_ref<int64_t(bool row, int64_t)> strideOf) const {
  const ir::Shape &shape = v->type.shape;
  unsigned r = shape.rank(), low = dimBits(shape, r - 1), high = dimBits(shape, r - 2);
  Buffer b;
  b.element = ir::Type::scalar(elem);
  b.elems = elems * (shape.numel() / (shape[r - 2] * shape[r - 1]));
  b.tf32 = dot.precision() == "tf32" && v->type.elem == ir::Elem::F32;
  for (unsigned i = 0; i < bitCount(shape); ++i)
    b.stride.push_back(i < low ? strideOf(false, int64_t(1) << i) : i < low + high ? strideOf(true, int64_t(1) << (i - low)) : elems << (i - low - high));
  return b;
}

Buffer Planner::packedLeft(const Op &dot, const DotPlan &p) const {
  int64_t elems = (p.aElems + 63) / 64 * 64; // rows of A stay 64-byte aligned from batch to batch
  return packedBuffer(dot, dot.operands[0], p.aElem, elems, [&](bool row, int64_t i) { return i * (row ? p.aRowStride : p.aDepthStride); });
}

// Of what is computed where it is defined. The left operand of a dot in a loop is packed there.
Buffer Planner::bufferOfDefined(const Value *v) const {
  if (const Op *dot = dotInLoop(uses_, v)) {
    Buffer b = packedLeft(*dot, planOf(*dot));
    if (!b.tf32) // others would miss what it cuts off
      return b;
  }
  Buffer b;
  b.element = v->type.scalarType();
  b.stride = rowMajor(v->type.shape);
  b.elems = v->type.shape.numel();
  return b;
}

void Planner::dot(const Op &op) {
  const ir::Shape &cs = op.results[0]->type.shape;
  unsigned r = cs.rank();
  int64_t batch = cs.numel() / (cs[r - 2] * cs[r - 1]);
  DotPlan p = planOf(op);
  if (batch == 1)
    packByPanel(target_, p);
  if (batch == 1 && plan_.bufferFor(op.operands[0]) < 0 && columnsLieTogether(op.operands[0]))
    takeColumns(p);
  const Value *carried = p.accElem == op.results[0]->type.elem ? accumulatesInto(op) : nullptr;
  int c = carried ? plan_.bufferFor(carried) : newBuffer(ir::Type::scalar(p.accElem), cs);
  plan_.bufferOf[op.results[0]] = c;
  const Value *acc = op.operands[2];
  bool zero = acc->def && acc->def->kind == OpKind::Const &&
              (acc->type.isIntLike() ? acc->def->intValue() == 0 : acc->def->floatValue() == 0);
  if (carried)
    flushReadersOf(c);
  if (!zero && acc != carried)
    materialize(acc, c);
  auto pack = [&](const Value *v, Buffer buffer) {
    plan_.buffers.push_back(std::move(buffer));
    int b = static_cast<int>(plan_.buffers.size() - 1);
    flush();
    materialize(v, b);
    return b;
  };
  // As it lies in its own buffer, or packed.
  auto left = [&](Buffer buffer) {
    int own = plan_.bufferFor(op.operands[0]);
    if (own >= 0) {
      const Buffer &b = plan_.buffers[static_cast<size_t>(own)];
      if (b.element == buffer.element && b.stride == buffer.stride && b.tf32 == buffer.tf32) {
        flush();
        return own;
      }
    }
    return pack(op.operands[0], std::move(buffer));
  };
  int a = left(packedLeft(op, p));
  auto takePending = [&] {
    assert(late_.empty() && "a nest that packs makes no scalars");
    pendingResults_.clear();
    return std::move(pending_);
  };
  std::unique_ptr<Nest> aNest, panel;
  const bool copied = op.operands[0]->type.elem == p.aElem && isLoadOfMemory(op.operands[0]), inMemory = copied && !plan_.buffers[static_cast<size_t>(a)].tf32;
  if (pending_ && batch == 1 && copied && (inMemory || p.byPanel))
    aNest = takePending();
  auto strideOfB = [&](bool row, int64_t i) -> int64_t {
    if (p.byPanel && i >= (row ? p.kBlock : p.nr)) // the next panel lies in the same place
      return 0;
    return row ? packedBOffset(p, i, 0) : packedBOffset(p, 0, i);
  };
  Buffer right = packedBuffer(op, op.operands[1], p.bElem, (p.bElems + 63) / 64 * 64, strideOfB);
  right.biased = p.bBiased;
  int b = pack(op.operands[1], std::move(right));
  if (p.byPanel) {
    panel = takePending();
    panel->panelColumnBits = log2Exact(p.nr);
    panel->panelDepthBits = log2Exact(p.kBlock);
  }
  flush();
  Step &s = step(StepKind::Dot, &op);
  s.nest = std::move(panel);
  s.left = std::move(aNest), s.leftInMemory = inMemory;
  s.bufferA = a;
  s.bufferB = b;
  s.bufferC = c;
  s.accumulate = !zero;
  s.dot = p;
  if (p.byPanel)
    s.part = partOf(op, uses_);
  s.batch = batch;
}

void Planner::print(const Op &op) {
  for (unsigned i = 0; i < op.operands.size() || (i == 0 && op.operands.empty()); ++i) {
    int buffer = -1;
    if (!op.operands.empty()) {
      const Value *v = op.operands[i];
      buffer = newBuffer(v->type, v->type.shape);
      if (v->type.isTensor())
        materialize(v, buffer);
    }
    flush();
    Step &s = step(StepKind::Print, &op);
    s.bufferA = buffer;
    s.operand = i;
  }
}

/// Nothing but what is computed lane by lane on vectors; both arms of an `if` are.
static bool isStraight(const ir::Block &b) {
  return llvm::all_of(b.ops, [](const Op *op) {
    switch (op->kind) {
    case OpKind::Const: case OpKind::Poison: case OpKind::Yield: case OpKind::Assert: case OpKind::Print: case OpKind::Assume:
      return true;
    case OpKind::If:
      return llvm::all_of(op->regions, [](const ir::Region *r) { return isStraight(*r->block); });
    default:
      return op->has(ir::traits::Elementwise);
    }
  });
}

void Planner::combineRegion(const Op &op) {
  const ir::Region &r = *op.regions[0];
  if (isStraight(*r.block))
    return;
  flush();
  inRegion_ = true;
  Steps steps;
  block(*r.block, steps);
  inRegion_ = false;
  plan_.regions[&r] = std::move(steps);
}

void Planner::op(const Op &op) {
  // How often a combine function prints is unspecified.
  if ((inRegion_ && op.kind == OpKind::Print) || absorbed_.contains(&op))
    return;
  switch (op.kind) {
  case OpKind::For: return forLoop(op);
  case OpKind::While: return whileLoop(op);
  case OpKind::If: return ifOp(op);
  case OpKind::Dot:
    if (!late_.empty())
      flush();
    return dot(op);
  case OpKind::Print: return print(op);
  case OpKind::Yield:
  case OpKind::Condition:
  case OpKind::Return: return terminator(op);
  case OpKind::Barrier:
  case OpKind::Assume:
  case OpKind::GridWait:
  case OpKind::GridLaunch:
    return flush();
  case OpKind::Clock:
    flush();
    return define(op);
  case OpKind::Call:
    flush();
    for (const Value *v : op.results)
      if (v->type.isTensor())
        resultBuffer(v);
    step(StepKind::Call, &op);
    return;
  case OpKind::Reduce:
  case OpKind::Scan: {
    Root root{op.kind == OpKind::Reduce ? RootKind::Reduce : RootKind::Scan, &op};
    if (const Op *f = addsToCarried(op)) {
      const Op *const end = op.parent->terminator();
      const auto slot = static_cast<size_t>(std::find(end->operands.begin(), end->operands.end(), f->result()) - end->operands.begin());
      root.value = f->result();
      root.buffer = plan_.bufferOf[root.value] = plan_.bufferFor(op.parent->args[slot + 1]);
      absorbed_.insert(f);
    } else {
      for (const Value *v : op.results)
        if (v->type.isTensor())
          resultBuffer(v);
    }
    combineRegion(op);
    if (op.kind == OpKind::Scan)
      flush();
    add(root, op.operands[0]->type.shape, static_cast<int>(op.axis()));
    if (op.kind == OpKind::Scan)
      flush();
    return;
  }
  case OpKind::Histogram:
    resultBuffer(op.results[0]);
    return add({RootKind::Histogram, &op}, op.operands[0]->type.shape, -1, true);
  case OpKind::Store:
  case OpKind::Assert:
    if (op.operands[0]->type.isScalar()) {
      flush();
      return define(op);
    }
    return add({op.kind == OpKind::Store ? RootKind::Store : RootKind::Assert, &op}, op.operands[0]->type.shape);
  case OpKind::AsmEffect:
    flush();
    if (op.results[0]->type.isScalar())
      return define(op);
    for (const Value *v : op.results)
      if (!uses_.users(v).empty())
        resultBuffer(v);
    return add({RootKind::Atomic, &op}, op.results[0]->type.shape, -1, true);
  case OpKind::AtomicRmw:
  case OpKind::AtomicCas:
    if (op.operands[0]->type.isScalar()) {
      flush();
      return define(op);
    }
    if (!uses_.users(op.results[0]).empty())
      resultBuffer(op.results[0]);
    return add({RootKind::Atomic, &op}, op.operands[0]->type.shape, -1, true);
  default:
    define(op);
    for (const Value *v : op.results)
      if (v->type.isTensor() && materialization_.buffered(v)) {
        // Registered after the root was added: inside its own nest the value is computed, not read.
        plan_.buffers.push_back(bufferOfDefined(v));
        add({RootKind::Materialize, nullptr, v, static_cast<int>(plan_.buffers.size() - 1), true}, v->type.shape);
        plan_.bufferOf[v] = pending_->roots.back().buffer;
        if (materialization_.endsChain(v))
          flush();
      }
  }
}

void Planner::block(const ir::Block &b, Steps &out) {
  Steps *saved = out_;
  out_ = &out;
  for (const Op *o : b.ops)
    op(*o);
  flush();
  out_ = saved;
}

} // namespace

Plan planFunction(const ir::Function &f, const CpuTarget &target, const ProgramGroup *group) {
  Plan plan;
  plan.function = &f;
  plan.group = group;
  Planner planner(f, target, plan);
  planner.block(*f.block(), plan.steps);
  plan.alongY = group ? group->axis == 1 : runsAlongY(f, planner.uses());
  coalesceBuffers(plan);
  markStreaming(plan, planner.uses(), target);
  placeBuffers(plan);
  keepTiles(plan, planner.uses(), target);
  return plan;
}

} // namespace tegula::cpu
