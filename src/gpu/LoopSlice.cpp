// See LoopSlice.h.
#include "gpu/LoopSlice.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

bool LoopSlice::add(const Value *v, int64_t mostLoaded) {
  auto carried = carried_;
  auto branches = branches_;
  bool had = hasLoads_;
  Seen seen;
  bool ok = needs(v, mostLoaded, seen);
  // Carried values that addresses use must be computable for later iterations, too, whether those run or not.
  for (size_t i = 0; ok && i < carried_.size(); ++i)
    ok = needs(nextOf(carried_[i]), 0, seen);
  if (!ok) {
    carried_ = std::move(carried);
    branches_ = std::move(branches);
    hasLoads_ = had;
  }
  return ok;
}

static bool loadsFew(const Op &op, int64_t most) {
  const Type &t = op.result()->type;
  return op.kind == OpKind::Load && !op.isVolatile() && (t.isScalar() ? 1 : t.numel()) <= most;
}

/// Is `v` defined in the body, or in a branch in it?
bool LoopSlice::isWithin(const Value *v) const {
  const Block *b = v->def ? v->def->parent : v->block;
  while (b != &body_ && b->parent && b->parent->op && b->parent->op->kind == OpKind::If)
    b = b->parent->op->parent;
  return b == &body_;
}

bool LoopSlice::needs(const Value *v, int64_t mostLoaded, Seen &seen) {
  if (!isWithin(v))
    return true;
  if (!v->def) {
    if (v->index && std::find(carried_.begin(), carried_.end(), v) == carried_.end())
      carried_.push_back(const_cast<Value *>(v));
    return true;
  }
  const Op *op = v->def;
  if (op->kind == OpKind::If)
    return needsResult(v, seen);
  if (!(mostLoaded ? seen.withLoads : seen.others).insert(op).second)
    return true;
  bool isLoad = op->kind == OpKind::Load && loadsFew(*op, mostLoaded);
  if (!isLoad &&
      (!op->has(traits::Pure) || op->kind == OpKind::Dot || op->kind == OpKind::ToShared || !op->regions.empty()))
    return false;
  hasLoads_ |= isLoad;
  return std::all_of(op->operands.begin(), op->operands.end(),
                     [&](const Value *o) { return needs(o, mostLoaded, seen); });
}

/// Adds a result of an `if`. The copy is executed whether that iteration runs or not, so it must not need loads.
bool LoopSlice::needsResult(const Value *v, Seen &seen) {
  Op *op = v->def;
  auto branch = std::find_if(branches_.begin(), branches_.end(), [&](const Branch &b) { return b.op == op; });
  if (branch == branches_.end())
    branch = branches_.insert(branches_.end(), {op, {}});
  if (std::find(branch->results.begin(), branch->results.end(), v->index) != branch->results.end())
    return true;
  branch->results.push_back(v->index);
  return needs(op->operands[0], 0, seen) && std::all_of(op->regions.begin(), op->regions.end(), [&](const Region *r) {
           return needs(r->block->terminator()->operands[v->index], 0, seen);
         });
}

void LoopSlice::copyBranches(Builder &b, Map &map) const {
  for (const Branch &branch : branches_)
    if (branch.op->parent == &body_)
      copy(b, branch.op->results[branch.results.front()], map);
}

void LoopSlice::copyBranch(Builder &b, const Branch &branch, Map &map) const {
  Value *condition = copy(b, branch.op->operands[0], map);
  std::vector<Type> types;
  for (size_t i : branch.results)
    types.push_back(branch.op->results[i]->type);
  b.setLoc(branch.op->loc);
  b.setInlinedAt(branch.op->inlinedAt);
  Op *now = b.ifOp(condition, types);
  Block *outer = b.block();
  for (unsigned side = 0; side < 2; ++side) {
    b.setBlock(now->region(side));
    Map inside = map;
    std::vector<Value *> yields;
    for (size_t i : branch.results)
      yields.push_back(copy(b, branch.op->region(side)->terminator()->operands[i], inside));
    b.yield(yields);
  }
  b.setBlock(outer);
  for (size_t i = 0; i < branch.results.size(); ++i)
    map[branch.op->results[branch.results[i]]] = now->results[i];
}

Value *LoopSlice::copy(Builder &b, Value *v, Map &map, Value *runs) const {
  if (auto it = map.find(v); it != map.end())
    return it->second;
  if (!isWithin(v) || !v->def)
    return v;
  if (v->def->kind == OpKind::If) {
    copyBranch(
        b, *std::find_if(branches_.begin(), branches_.end(), [&](const Branch &branch) { return branch.op == v->def; }),
        map);
    return map[v];
  }
  std::vector<Value *> operands;
  for (Value *o : v->def->operands)
    operands.push_back(copy(b, o, map, runs));
  Op *now = runs && v->def->kind == OpKind::Load ? cloneLoad(b, *v->def, operands, runs) : clone(b, *v->def, operands);
  for (size_t i = 0; i < now->results.size(); ++i)
    map[v->def->results[i]] = now->results[i];
  return map[v];
}

LoopSlice::Map LoopSlice::start() const {
  Map map{{body_.args[0], loop_.operands[0]}};
  for (Value *v : carried_)
    map[v] = loop_.operands[2 + v->index];
  return map;
}

LoopSlice::Map LoopSlice::next(Builder &b, Map now) const {
  Map out;
  for (Value *v : carried_)
    out[v] = copy(b, nextOf(v), now);
  b.setLoc(loop_.loc);
  b.setInlinedAt(loop_.inlinedAt);
  Value *index = now.count(body_.args[0]) ? now[body_.args[0]] : body_.args[0];
  out[body_.args[0]] = b.binary(isReverse(loop_) ? OpKind::Sub : OpKind::Add, index, loop_.operands[2]);
  return out;
}

Op *LoopSlice::clone(Builder &b, const Op &op, std::span<Value *const> operands) {
  std::vector<Type> types;
  for (const Value *r : op.results)
    types.push_back(r->type);
  b.setLoc(op.loc);
  b.setInlinedAt(op.inlinedAt);
  return b.create(op.kind, operands, types, op.attrs);
}

Op *LoopSlice::cloneLoad(Builder &b, const Op &load, std::vector<Value *> operands, Value *runs) {
  Type maskType = load.result()->type.withElem(Elem::I1);
  Value *mask = maskType.isTensor() ? b.create1(OpKind::Splat, {runs}, maskType) : runs;
  if (operands.size() > 1)
    operands[1] = b.create1(OpKind::And, {operands[1], mask}, maskType);
  else
    operands.push_back(mask);
  return clone(b, load, operands);
}

std::vector<Op *> loadsOfDots(const Block &body, const std::unordered_set<const Op *> &ends) {
  std::vector<const Value *> work;
  for (const Op *op : body.ops)
    if (op->kind == OpKind::Dot)
      work.insert(work.end(), op->operands.begin(), op->operands.begin() + 2);
    else if (op->kind == OpKind::SharedStore)
      work.push_back(op->operands[1]);
  std::unordered_set<const Value *> seen;
  while (!work.empty()) {
    const Value *v = work.back();
    work.pop_back();
    if (v->def && v->def->parent == &body && seen.insert(v).second && v->def->kind != OpKind::Load &&
        v->def->kind != OpKind::DescLoad && v->def->kind != OpKind::Dot && !ends.count(v->def))
      work.insert(work.end(), v->def->operands.begin(), v->def->operands.end());
  }
  std::vector<Op *> loads;
  for (Op *op : body.ops)
    if ((op->kind == OpKind::Load || op->kind == OpKind::DescLoad) && op->result()->type.isTensor() &&
        seen.count(op->result()))
      loads.push_back(op);
  return loads;
}

bool isReverse(const Op &loop) { return loop.reverse(); }

Value *runs(Builder &b, const Op &loop, Value *iv) {
  return b.cmp(isReverse(loop) ? CmpPred::Sgt : CmpPred::Slt, iv, loop.operands[1]);
}

Value *runsAhead(Builder &b, const Op &loop, Value *iv, int64_t ahead) {
  Type wide = Type::scalar(Elem::I64);
  auto widen = [&](Value *v) { return v->type == wide ? v : b.create1(OpKind::SExt, {v}, wide); };
  Value *distance = b.binary(OpKind::Mul, widen(loop.operands[2]), b.constInt(wide, ahead));
  OpKind step = isReverse(loop) ? OpKind::Sub : OpKind::Add;
  return b.cmp(isReverse(loop) ? CmpPred::Sgt : CmpPred::Slt, b.binary(step, widen(iv), distance),
               widen(loop.operands[1]));
}

} // namespace tegula::gpu
