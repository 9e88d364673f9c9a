// Choice of buffered values.
#include "targets/cpu/plan/Materialize.h"
#include "targets/cpu/plan/BitMap.h"
#include <algorithm>

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {
constexpr unsigned dear = 10;          // opCost from which computing twice costs more than a trip through L1
constexpr unsigned dearChain = 48;     // the same for whole expressions
constexpr unsigned dearInLoop = 12;    // per iteration
}

const ir::Shape &nestSpace(const Op &root) {
  if (root.kind == OpKind::Store || root.kind == OpKind::Reduce || root.kind == OpKind::AtomicRmw ||
      root.kind == OpKind::Scan)
    return root.operands[0]->type.shape;
  return root.results.empty() ? root.operands[0]->type.shape : root.results[0]->type.shape;
}

static bool alwaysBuffered(OpKind k) {
  switch (k) {
  case OpKind::Dot: case OpKind::Scan: case OpKind::Histogram: case OpKind::Call: case OpKind::If: case OpKind::For:
  case OpKind::While: case OpKind::AtomicRmw: case OpKind::AtomicCas: case OpKind::Reduce: case OpKind::AsmEffect:
    return true;
  default:
    return false;
  }
}

Materialization::Materialization(const ir::Function &f, const Uses &uses) : function_(f), uses_(uses) {
  cutChains(*f.block());
  visit(*f.block());
}

/// Addresses and offsets stay virtual: they are linear forms, free at any depth. Masks do too, as loops are split where
/// they hold (fullTrips).
static bool mayEndChain(const Op &op) {
  switch (op.kind) {
  case OpKind::Add:
  case OpKind::Sub:
  case OpKind::Mul:
  case OpKind::Shl:
  case OpKind::SExt:
  case OpKind::AddPtr:
  case OpKind::Bitcast: return false;
  default:
    return op.has(ir::traits::Elementwise) && !op.results[0]->type.isPtr && op.results[0]->type.elem != ir::Elem::I1;
  }
}

// A nest's loop body computes the whole expression of each root, and LLVM's time for a block grows faster than its
// length: a thousand statements on one tile took as long as a hundred bodies of ten.
void Materialization::cutChains(const ir::Block &b) {
  for (const Op *op : b.ops) {
    if (op->kind == OpKind::For || op->kind == OpKind::While || op->kind == OpKind::If)
      for (const ir::Region *r : op->regions)
        cutChains(*r->block);
    if (!isTensorOp(*op) || (!isVirtualizable(*op) && op->kind != OpKind::Load))
      continue;
    unsigned depth = 0;
    for (const Value *v : op->operands)
      depth = std::max(depth, depth_.lookup(v));
    depth += opCost(*op) != 0;
    if (depth >= longestChain && mayEndChain(*op)) {
      chainEnds_.insert(op->results[0]);
      buffered_.insert(op->results[0]);
      depth = 0;
    }
    for (const Value *r : op->results)
      depth_[r] = depth;
  }
}

void Materialization::visit(const ir::Block &b) {
  for (size_t i = b.ops.size(); i-- > 0;) {
    const Op &op = *b.ops[i];
    if (op.kind == OpKind::Gather)
      buffered_.insert(op.operands[0]);
    if (op.kind == OpKind::For || op.kind == OpKind::While || op.kind == OpKind::If)
      for (size_t r = op.regions.size(); r-- > 0;)
        visit(*op.regions[r]->block);
    for (const Value *v : op.results)
      if (v->type.isTensor())
        visitResult(op, v);
  }
}

void Materialization::visitResult(const Op &op, const Value *v) {
  collect(v);
  if (!buffered_.contains(v) && decide(op, v))
    buffered_.insert(v);
}

void Materialization::collect(const Value *v) {
  Ops roots;
  unsigned last = 0;
  auto add = [&](const Op *r) {
    if (roots.size() < 8 && std::find(roots.begin(), roots.end(), r) == roots.end())
      roots.push_back(r);
  };
  for (const Op *u : uses_.users(v)) {
    last = std::max(last, uses_.positionIn(v->def->parent, u));
    bool passes = (isVirtualizable(*u) || u->kind == OpKind::Load) && isTensorOp(*u);
    if (!passes) {
      add(u);
      continue;
    }
    for (const Value *r : u->results) {
      if (buffered_.contains(r)) {
        add(u);
        continue;
      }
      for (const Op *root : roots_[r])
        add(root);
      // A user in a nested block counts at the position of the op that holds it.
      last = std::max(last, u->parent == v->def->parent ? lastUse_.lookup(r) : 0);
    }
  }
  roots_[v] = roots;
  lastUse_[v] = last;
}

const Op *dotInLoop(const Uses &uses, const Value *v) {
  if (!v->def || v->type.isPtr)
    return nullptr;
  for (const Op *u : uses.users(v))
    if (u->kind == OpKind::Dot && u->operands[0] == v && uses.loopBetween(v->def->parent, u))
      return u;
  return nullptr;
}

bool Materialization::decide(const Op &op, const Value *v) {
  if (alwaysBuffered(op.kind) || dotInLoop(uses_, v))
    return true;
  const Ops &roots = roots_[v];
  if (roots.empty())
    return false;
  if (op.kind == OpKind::Load)
    return loadMustBeBuffered(op, v);
  // Linear index arithmetic costs nothing anywhere; only what has to be computed per element counts.
  unsigned cost = opCost(op), chain = uses_.work(v);
  bool shapeOnly = op.has(ir::traits::Shape) || op.kind == OpKind::Const || op.kind == OpKind::Range;
  if (cost < dear && shapeOnly && chain < dearChain)
    return false;
  if (isView(op))
    return false; // its operand was or will be asked
  if (chain >= dearInLoop)
    for (const Op *u : uses_.users(v))
      if (uses_.loopBetween(op.parent, u))
        return true;
  if (standsForLoads(op, v))
    return true;
  if (cost >= dear) {
    for (const Op *r : roots)
      if (nestSpace(*r).numel() > v->type.numel() && v->type.numel() > 1)
        return true; // would be computed once per row instead of once per vector
    return roots.size() > 1 && !canShareNest(roots);
  }
  if (chain < dearChain)
    return false;
  if (roots.size() > 1)
    return !canShareNest(roots);
  // Offsets of many quotients, in a mask and in an address: each place of the nest needs its own element, once, and
  // where it goes on along a row they are hardly computed at all (EmitRuns.cpp).
  // Not masks: made of one another they would be looked at once for each way through them (assumedTrue).
  const bool ownPlace = v->type.isIntLike() && v->type.elem != ir::Elem::I1 && v->type.shape == nestSpace(*roots[0]) &&
                        llvm::all_of(uses_.users(v), [](const Op *u) { return u->has(ir::traits::Elementwise); });
  return uses_.users(v).size() > 1 && !ownPlace;
}

// A row of a tile (a vector of weights, of column indices) whose elements are not next to one another: each row of the
// tile would gather them again.
bool Materialization::isScatteredRow(const Op &load, const Value *v) {
  constexpr int64_t rows = 4, least = 8; // rows that a trip through memory pays for, elements that a vector needs
  const ir::Shape &shape = v->type.shape;
  const int64_t columns = shape.rank() ? shape[shape.rank() - 1] : 1;
  if (columns < least || v->type.numel() != columns)
    return false;
  auto isRowOf = [&](const Op *root) {
    const ir::Shape &space = nestSpace(*root);
    return space.rank() > 1 && space[space.rank() - 1] == columns && space.numel() >= rows * columns;
  };
  if (!llvm::any_of(roots_[v], isRowOf))
    return false;
  llvm::SmallVector<const Value *, 8> todo{v}; // as a column it is one number in each row
  for (size_t i = 0; i < todo.size() && todo.size() < 16; ++i)
    for (const Op *u : uses_.users(todo[i]))
      if (u->kind == OpKind::ExpandDims && u->axis() == todo[i]->type.shape.rank())
        return false;
      else if (u->has(ir::traits::Elementwise) && u->results[0]->type.shape == shape)
        todo.push_back(u->results[0]);
  if (!facts_)
    facts_ = std::make_unique<AxisFacts>(function_);
  const AxisFact &f = facts_->of(load.operands[0], static_cast<unsigned>(shape.rank() - 1));
  return f.contiguity == 1 && f.constancy == 1;
}

bool Materialization::loadMustBeBuffered(const Op &op, const Value *v) {
  if (op.isVolatile())
    return true;
  for (const Op *u : uses_.users(v))
    if (u->parent != op.parent)
      return true;
  const Ops &roots = roots_[v];
  for (const Op *r : roots)
    if (r->parent != op.parent)
      return true;
  if (clobbered(op, v) || isScatteredRow(op, v))
    return true;
  if (roots.size() <= 1 || canShareNest(roots))
    return false;
  return uses_.mayChange(op);
}

// A nest visits its positions in order, and at each of them reads before the store writes. So a load that the store's
// own nest evaluates reads memory as it was before the store if no position reads an element that an earlier position
// has written. That holds if
//   1. load and store use the same pointer value: position i writes the address of element i, and
//   2. position i reads element i only, on every path from the load to an operand of the store, its value or its mask
//      (`v + permute(v)` reads two elements).
// Element i is then read at position i only. If an earlier position wrote its address, one store would write it twice,
// which has no defined result. The store must be the only root of the load, so that no path leads through a buffered
// value.
bool Materialization::readsOwnPlaceOnly(const Op &store, const Value *load) const {
  llvm::SmallPtrSet<const Value *, 16> seen;
  llvm::SmallVector<const Value *, 16> todo; // values needed at the store's own position
  const Ops roots = roots_.lookup(load); // these others are before the store
  auto isInside = [&](const Value *v) {
    return v->def && !buffered_.contains(v) && !llvm::is_contained(roots, v->def);
  };
  auto push = [&](const Value *v) {
    if (isInside(v) && v != load && seen.insert(v).second)
      todo.push_back(v);
  };
  auto pushOperands = [&](const Op &op) { llvm::for_each(op.operands, push); };
  pushOperands(store);
  llvm::SmallVector<const Value *, 16> moved; // needed at other positions
  while (!todo.empty()) {
    const Op &op = *todo.pop_back_val()->def;
    if (op.has(ir::traits::Elementwise) || op.kind == OpKind::Load)
      pushOperands(op);
    else
      moved.append(op.operands.begin(), op.operands.end());
  }
  seen.clear();
  while (!moved.empty()) {
    const Value *v = moved.pop_back_val();
    if (v == load)
      return false;
    if (isInside(v) && seen.insert(v).second)
      moved.append(v->def->operands.begin(), v->def->operands.end());
  }
  return true;
}

// One buffer may be passed for two arguments, so that a program works in place although its code does not show it
// (passes/MergeArguments.h): a write through either may come between a load and its uses. Elements of another type are
// assumed not to alias, as in C; so are single elements beside a tile (a row's mean: docs/differences.md). If the last
// use is that write, its nest reads element i before it writes element i: only a value that uses other elements (a
// flip) and is written at the offsets that it was read from must be loaded before. A copy to other offsets (a
// transposition into another matrix) cannot be in place: its programs would write elements that others read. An atomic
// updates elements that it did not load.
static bool mayWriteElements(const Op &w, const Effects &effects, ir::Elem elem) {
  const ir::Type *t = w.kind == OpKind::Store || w.kind == OpKind::AtomicRmw ? &w.operands[1]->type : nullptr;
  return !effects.none() && (!t || (t->isTensor() && (t->isPtr || t->elem == elem)));
}

bool Materialization::clobbered(const Op &load, const Value *v) const {
  int arg = memoryOf(load.operands[0]);
  unsigned last = lastUse_.lookup(v);
  const auto &ops = load.parent->ops;
  for (unsigned p = uses_.position(&load) + 1; p <= last && p < ops.size(); ++p) {
    const Op &w = *ops[p];
    if (!uses_.effects(&w).mayWrite(arg)) {
      if (!mayWriteElements(w, uses_.effects(&w), v->type.elem))
        continue;
      if (p < last || w.kind == OpKind::AtomicRmw ||
          (w.kind == OpKind::Store && sameOffsets(w.operands[0], load.operands[0], function_) &&
           !readsOwnPlaceOnly(w, v)))
        return true;
      continue;
    }
    bool sameElements = p == last && w.kind == OpKind::Store && w.operands[0] == load.operands[0] &&
                        roots_.lookup(v).size() == 1 && readsOwnPlaceOnly(w, v);
    if (!sameElements)
      return true;
  }
  return false;
}

// The sum of a residual connection: x += delta is stored and used again after the store. Both loads would need a
// buffer, from which each use computes the sum again;
// one buffer with the sum takes half of the L1 cache. So does whatever is computed from loads that nothing else uses,
// in no more bytes than theirs.
bool Materialization::standsForLoads(const Op &op, const Value *v) const {
  if (!op.has(ir::traits::Elementwise) || v->type.isPtr || v->type.elem == ir::Elem::I1)
    return false;
  auto bytesOf = [](const Value *x) { return uint64_t(x->type.numel()) * ir::byteWidth(x->type.elem); };
  llvm::SmallVector<const Value *, 8> todo(op.operands.begin(), op.operands.end());
  uint64_t bytes = 0;
  unsigned loads = 0, here = uses_.position(&op), last = lastUse_.lookup(v);
  const auto &ops = op.parent->ops;
  last = std::min(last, static_cast<unsigned>(ops.size()));
  if (here + 1 >= last ||
      std::none_of(ops.begin() + here + 1, ops.begin() + last, [&](const Op *w) { return !uses_.effects(w).none(); }))
    return false; // nothing is written before the last use, as almost always
  for (unsigned budget = 16; !todo.empty() && budget; --budget) {
    const Value *o = todo.pop_back_val();
    if (!o->def || o->def->parent != op.parent || !o->type.isTensor() || o->type.isPtr || uses_.users(o).size() != 1)
      continue;
    if (o->def->has(ir::traits::Elementwise))
      todo.append(o->def->operands.begin(), o->def->operands.end());
    if (o->def->kind != OpKind::Load || o->def->isVolatile() || !(o->type.shape == v->type.shape))
      continue;
    int arg = memoryOf(o->def->operands[0]);
    auto writes = [&](unsigned from, unsigned to) {
      for (unsigned p = from + 1; p < to && p < ops.size(); ++p)
        if (uses_.effects(ops[p]).mayWrite(arg) || mayWriteElements(*ops[p], uses_.effects(ops[p]), o->type.elem))
          return true;
      return false;
    };
    if (writes(uses_.position(o->def), here) || !writes(here, last))
      continue;
    ++loads;
    bytes += bytesOf(o);
  }
  return loads > 1 && bytesOf(v) <= bytes;
}

static bool dependsOn(const Value *v, const Op *producer, unsigned &budget) {
  if (!v->def || budget == 0)
    return budget == 0;
  if (v->def == producer)
    return true;
  --budget;
  return std::any_of(v->def->operands.begin(), v->def->operands.end(),
                     [&](const Value *o) { return dependsOn(o, producer, budget); });
}

bool Materialization::canShareNest(const Ops &roots) const {
  for (size_t i = 0; i < roots.size(); ++i) {
    const Op &r = *roots[i];
    if (!r.results.empty() && chainEnds_.contains(r.results[0]))
      return false;
    bool nestable = r.kind == OpKind::Store || r.kind == OpKind::Reduce || isVirtualizable(r);
    if (!nestable || r.parent != roots[0]->parent || !(nestSpace(r) == nestSpace(*roots[0])))
      return false;
    if (r.kind == OpKind::Reduce && roots[0]->kind == OpKind::Reduce && r.axis() != roots[0]->axis())
      return false;
    for (size_t j = 0; j < roots.size(); ++j)
      for (const Value *o : r.operands) {
        unsigned budget = 200;
        if (i != j && dependsOn(o, roots[j], budget))
          return false;
      }
  }
  return true;
}

} // namespace tegula::cpu
