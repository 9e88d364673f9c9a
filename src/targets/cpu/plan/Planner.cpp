// Turns the blocks of a function into steps (Plan.h defines them). This file decides which roots join the pending nest,
// and when that nest ends.
//
// Scalars are computed where they are defined: before the pending nest, or after it if the scalar uses the nest's
// results (needsPending, mayBeLate). A scalar that reads memory that the nest may write ends the nest.
#include "targets/cpu/plan/Planner.h"
#include "targets/cpu/plan/Buffers.h"
#include "targets/cpu/plan/KeepTiles.h"
#include "targets/cpu/plan/OrderTiles.h"
#include "targets/cpu/plan/ProgramOrder.h"
#include "targets/cpu/plan/Stream.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using ir::Value;

static std::vector<int64_t> rowMajor(const ir::Shape &s) {
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

void Planner::loadsOf(const Value *v, bool samePlace, llvm::SmallPtrSetImpl<const Op *> &out,
                      llvm::SmallPtrSetImpl<const Op *> &moved, unsigned &budget) const {
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

llvm::SmallVector<const Value *, 4> Root::asked() const {
  if (!op)
    return {value};
  return llvm::SmallVector<const Value *, 4>(op->operands.begin(), op->operands.end());
}

// A nest interleaves its roots chunk by chunk: a load of one root and a store of another must not alias, unless both
// access the same element at each position. Two arguments may be one buffer, whose elements have one type.
bool Planner::memoryOrderKept(const Root &root) const {
  bool writes = root.kind == RootKind::Store;
  if (!writes && !pendingWrites_)
    return true;
  auto check = [&](const Root &store, const Root &reader) {
    llvm::SmallPtrSet<const Op *, 8> loads, moved;
    unsigned budget = 400;
    for (const Value *v : reader.asked())
      loadsOf(v, true, loads, moved, budget);
    if (budget == 0)
      return false;
    int arg = memoryOf(store.op->operands[0]);
    auto meets = [&](const Op *l) {
      int from = memoryOf(l->operands[0]);
      return from == arg || from < 0 || arg < 0 || l->results[0]->type.elem == store.op->operands[1]->type.elem;
    };
    return llvm::none_of(moved, meets) && llvm::none_of(loads, [&](const Op *l) {
             return meets(l) && !sameOffsets(l->operands[0], store.op->operands[0], *plan_.function);
           });
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
  unsigned budget = 400;
  for (const Value *v : root.asked()) {
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

// Does `op` use results of the pending nest? Its step runs before that nest unless the nest is flushed now. The step of
// a virtual tensor computes only its linear form, from scalars; the step of a scalar computes it, possibly from tensors
// (split, unsplat), and so reads every buffer and all memory that its operands reach.
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

// May the definition of `op` be delayed to the end of the pending nest, while other roots join that nest? Layer norm's
// backward pass divides the first of its two sums before the second one starts. `op` must be computed from scalars
// only: the roots that join meanwhile may write a tensor that it would read.
bool Planner::mayBeLate(const Op &op) const {
  auto isScalar = [](const Value *v) { return v->type.isScalar(); };
  const bool virtualTensor = isTensorOp(op) && (op.has(ir::traits::Elementwise) || op.has(ir::traits::Shape));
  return !inRegion_ && op.regions.empty() &&
         (virtualTensor || (!op.has(ir::traits::Reads | ir::traits::Writes) && op.has(ir::traits::Elementwise) &&
                            llvm::all_of(op.operands, isScalar)));
}

// A scalar or virtual tensor op.
void Planner::define(const Op &op) {
  const bool needsLate =
      llvm::any_of(op.operands, [&](const Value *v) { return v->def && llvm::is_contained(late_, v->def); });
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

// `carried = f(carried, reduce)` in a loop, element by element, with no other use of either: f. Else null.
const Op *Planner::addsToCarried(const Op &reduce) const {
  const ir::Block &body = *reduce.parent;
  const Op *loop = body.parent ? body.parent->op : nullptr;
  if (reduce.kind != OpKind::Reduce || reduce.results.size() != 1 || !reduce.result()->type.isTensor() || !loop ||
      loop->kind != OpKind::For)
    return nullptr;
  const Op *const end = body.terminator();
  auto onlyUser = [&](const Value *v) -> const Op * {
    return uses_.users(v).size() == 1 ? uses_.users(v)[0] : nullptr;
  };
  const Op *f = onlyUser(reduce.result());
  if (!f || f->parent != &body || !f->has(ir::traits::Elementwise) || f->operands.size() != 2 ||
      f->results.size() != 1 || onlyUser(f->result()) != end)
    return nullptr;
  const auto at = std::find(end->operands.begin(), end->operands.end(), f->result());
  const Value *arg = body.args[static_cast<size_t>(at - end->operands.begin()) + 1];
  const bool inPlace = std::count(at, end->operands.end(), f->result()) == 1 && onlyUser(arg) == f &&
                       f->operands[0] != f->operands[1] && arg->type == f->result()->type &&
                       arg->type == reduce.result()->type && plan_.bufferFor(arg) >= 0;
  return inPlace ? f : nullptr;
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
    case OpKind::Const:
    case OpKind::Poison:
    case OpKind::Yield:
    case OpKind::Assert:
    case OpKind::Print:
    case OpKind::Assume: return true;
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
      const auto slot = static_cast<size_t>(std::find(end->operands.begin(), end->operands.end(), f->result()) -
                                            end->operands.begin());
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
  orderTiles(plan);
  return plan;
}

} // namespace tegula::cpu
