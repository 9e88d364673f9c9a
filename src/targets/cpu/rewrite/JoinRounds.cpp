// See JoinRounds.h.
#include "targets/cpu/rewrite/JoinRounds.h"
#include "ir/Builder.h"
#include "passes/Users.h"
#include "targets/cpu/plan/DotPlan.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include <array>
#include <cmath>

namespace tegula::cpu {
using ir::Elem;
using ir::Op;
using ir::OpKind;
using ir::Shape;
using ir::Type;
using ir::Value;

namespace {

/// k of one dot at most: more of them in one round gain nothing, and tiles of the left operand leave L1 anyway.
constexpr int64_t mostDepth = 256;

struct ShallowLoop {
  Op *loop = nullptr;
  int64_t rounds = 0, depth = 0;                        // to be joined; k of one of them
  llvm::DenseMap<const Op *, unsigned> loads;           // of operands: which of their dimensions is k
  // carried scalars that each round adds the same number to, and these additions
  llvm::SmallVector<std::pair<size_t, Op *>, 4> steps;
};

/// Does `op` map zeros to zeros, element by element?
bool keepsZeros(const Op &op) {
  switch (op.kind) {
  case OpKind::FpTrunc:
  case OpKind::FpExt:
  case OpKind::SExt:
  case OpKind::ZExt:
  case OpKind::Trunc:
  case OpKind::SIToFp:
  case OpKind::UIToFp: return true;
  default:
    return false;
  }
}

bool isZero(const Value *v) {
  if (!v->def || v->def->kind != OpKind::Const || v->type.isPtr)
    return false;
  return v->type.isIntLike() ? v->def->intValue() == 0
                             : v->def->floatValue() == 0 && !std::signbit(v->def->floatValue());
}

class ShallowLoops {
public:
  ShallowLoops(const ir::Function &f, const CpuTarget &target) : target_(target), users_(*f.block()) {
    find(*f.block());
  }
  std::vector<ShallowLoop> found;

private:
  void find(const ir::Block &b) {
    for (Op *op : b.ops) {
      if (op->kind == OpKind::For)
        if (std::optional<ShallowLoop> loop = look(*op)) {
          found.push_back(std::move(*loop));
          continue;
        }
      for (const ir::Region *r : op->regions)
        find(*r->block);
    }
  }

  std::optional<ShallowLoop> look(Op &loop) const;
  bool lookAtOperand(const Value *v, unsigned dim, ShallowLoop &out) const;
  bool lookAtDot(const Op &dot, ShallowLoop &out) const;
  bool lookAtCarried(size_t i, ShallowLoop &out) const;
  bool isVarying(const Value *v) const { return varying_.contains(v); }

  const CpuTarget &target_;
  Users users_;
  mutable llvm::SmallPtrSet<const Value *, 32> varying_; // of the loop that is looked at
};

// An operand is what a load gives, zero where its mask is false. `dim`: of k.
bool ShallowLoops::lookAtOperand(const Value *v, unsigned dim, ShallowLoop &out) const {
  const ir::Block &body = *out.loop->region(0);
  for (; v->def && v->def->parent == &body && v->type.shape.rank() == 2; v = v->def->operands[0]) {
    const Op &op = *v->def;
    if (op.kind == OpKind::Load) {
      const bool zero = op.operands.size() < 3 || isZero(op.operands[2]);
      if (op.isVolatile() || !isVarying(op.operands[0]) || !zero || v->type.isPtr)
        return false;
      return out.loads.try_emplace(&op, dim).first->second == dim;
    }
    if (op.kind == OpKind::Permute)
      dim = static_cast<unsigned>(op.perm()[dim]);
    else if (!keepsZeros(op))
      return false;
  }
  return false;
}

bool ShallowLoops::lookAtDot(const Op &dot, ShallowLoop &out) const {
  const ir::Block &body = *out.loop->region(0);
  const Value *a = dot.operands[0], *b = dot.operands[1], *acc = dot.operands[2];
  const Type &result = dot.result()->type;
  if (result.shape.rank() != 2 || acc->block != &body || acc->index == 0 || users_.only(acc) != &dot ||
      users_.only(dot.result()) != body.terminator() || body.terminator()->operands[acc->index - 1] != dot.result() ||
      dot.precision() == "wide")
    return false;
  if (result.elem != Elem::F32 && result.elem != Elem::F64 && result.elem != Elem::I32)
    return false;
  const int64_t m = result.shape[0], n = result.shape[1], k = a->type.shape[1];
  auto planFor = [&](int64_t depth) {
    return dotPlan(target_, a->type.elem, b->type.elem, result.elem, m, n, depth, dot.precision());
  };
  constexpr int64_t manyRows = 64; // where sums of fours are what takes the time, not packing
  const int64_t most = m >= manyRows && planFor(mostDepth).kGroup == 4 ? 2 * mostDepth : mostDepth;
  const DotPlan plan = planFor(most);
  const int64_t rounds = std::min(plan.kBlock, most) / k;
  if (plan.nr == 1 || rounds < 2)
    return false;
  if (out.rounds && (out.depth != k))
    return false;
  out.rounds = out.rounds ? std::min(out.rounds, rounds) : rounds, out.depth = k;
  return lookAtOperand(a, 1, out) && lookAtOperand(b, 0, out);
}

// A carried number that each iteration adds the same amount to, unused after the loop. If the amount is not constant,
// all its uses must be offsets: in these, sums of 32 bits do not wrap around (Lin.h).
bool ShallowLoops::lookAtCarried(size_t i, ShallowLoop &out) const {
  const ir::Block &body = *out.loop->region(0);
  const Value *arg = body.args[1 + i];
  if (!arg->type.isScalar() || arg->type.isPtr || (arg->type.elem != Elem::I32 && arg->type.elem != Elem::I64) ||
      !users_.of(out.loop->results[i]).empty())
    return false;
  Op *add = body.terminator()->operands[i]->def;
  if (!add || add->kind != OpKind::Add || add->parent != &body || users_.only(add->result()) != body.terminator() ||
      llvm::count(body.terminator()->operands, add->result()) != 1)
    return false;
  const size_t at = add->operands[0] == arg ? 0 : 1;
  const Value *by = add->operands[1 - at];
  if (add->operands[at] != arg || by == arg || (by->def && by->def->parent == &body) || by->block == &body)
    return false;
  if (!ir::constantInt(by))
    for (const Op *user : users_.of(arg)) {
      const bool splat = user->kind == OpKind::Splat &&
                         llvm::all_of(users_.of(user->result()), [](const Op *u) { return u->kind == OpKind::AddPtr; });
      if (user != add && user->kind != OpKind::AddPtr && !splat)
        return false;
    }
  out.steps.push_back({i, add});
  return true;
}

std::optional<ShallowLoop> ShallowLoops::look(Op &loop) const {
  const ir::Block &body = *loop.region(0);
  ShallowLoop out;
  out.loop = &loop;
  const std::optional<int64_t> step = ir::constantInt(loop.operands[2]);
  if (loop.reverse() || !step || *step <= 0 || *step > (1 << 20) || body.args.size() < 2)
    return {};
  if (llvm::none_of(body.ops, [](const Op *op) { return op->kind == OpKind::Dot; }))
    return {};
  llvm::SmallPtrSet<const Op *, 4> additions;
  for (size_t i = 0; i + 1 < body.args.size(); ++i) {
    if (body.args[1 + i]->type.isTensor())
      continue; // of dots
    if (!lookAtCarried(i, out))
      return {};
    additions.insert(out.steps.back().second);
  }
  varying_.clear();
  varying_.insert(body.args[0]);
  for (const auto &[i, add] : out.steps)
    varying_.insert(body.args[1 + i]);
  size_t dots = 0;
  for (const Op *op : body.ops) {
    if (additions.contains(op) || op->kind == OpKind::Assume)
      continue;
    if (op->kind == OpKind::Yield)
      break;
    if (!op->regions.empty() || op->results.size() != 1)
      return {};
    if (op->kind == OpKind::Dot) {
      if (!lookAtDot(*op, out))
        return {};
      ++dots;
      continue;
    }
    if (llvm::none_of(op->operands, [&](const Value *v) { return isVarying(v); })) {
      if (!op->has(ir::traits::Pure) && op->kind != OpKind::Load)
        return {};
      continue;
    }
    const bool shape = op->kind == OpKind::Splat || op->kind == OpKind::ExpandDims || op->kind == OpKind::Broadcast ||
                       op->kind == OpKind::Reshape || op->kind == OpKind::Permute;
    if (!shape && op->kind != OpKind::Load && !(op->has(ir::traits::Elementwise) && op->has(ir::traits::Pure)))
      return {};
    if (op->result()->type.shape.rank() > 2)
      return {};
    varying_.insert(op->result());
  }
  // Accumulators of dots and numbers that are stepped are all that is carried; loads are for dots only.
  if (dots == 0 || dots + out.steps.size() + 1 != body.args.size())
    return {};
  for (const Op *op : body.ops)
    if (op->kind == OpKind::Load && isVarying(op->result()) && !out.loads.contains(op))
      return {};
  return out;
}

class RoundJoiner {
public:
  RoundJoiner(ir::Module &m, ShallowLoop &loop) : b_(m), l_(loop), body_(*loop.loop->region(0)) {}

  void run() {
    inFront();
    std::vector<Op *> ops;
    ops.swap(body_.ops);
    b_.setBlock(&body_);
    at(*l_.loop);
    begin();
    for (Op *op : ops)
      rewrite(*op);
  }

private:
  void at(const Op &op) { b_.setLoc(op.loc), b_.setInlinedAt(op.inlinedAt); }
  Shape rounds(const Shape &s) const {
    Shape out = s;
    out.insert(0, l_.rounds);
    return out;
  }
  void inFront(), begin(), rewrite(Op &op);
  Value *numbers(const Value *scalar, Value *by), *deep(Value *v), *operand(Value *v, unsigned dim),
      *inside(const Op &load);
  Value *extended(Value *x, Elem to) { return x->type.elem == to ? x : b_.cast(OpKind::SExt, x, to); }

  ir::Builder b_;
  ShallowLoop &l_;
  ir::Block &body_;
  llvm::DenseMap<const Value *, Value *> deep_;
  llvm::SmallPtrSet<const Value *, 32> varying_; // what differs from round to round
  llvm::DenseMap<const Op *, Value *> inSteps_; // what an addition adds from now on
  // i32: k that are left, at most those of two tiles; null: never fewer than one has
  Value *left_ = nullptr;
};

// Constants and products that the loop needs, and its new step.
void RoundJoiner::inFront() {
  Op &loop = *l_.loop;
  ir::Block &outside = *loop.parent;
  std::vector<Op *> behind(llvm::find(outside.ops, &loop), outside.ops.end());
  outside.ops.resize(outside.ops.size() - behind.size());
  b_.setBlock(&outside);
  at(loop);
  const Type t = loop.operands[2]->type;
  loop.operands[2] = b_.constInt(t, *ir::constantInt(loop.operands[2]) * l_.rounds);
  for (const auto &[i, add] : l_.steps) {
    Value *by = add->operands[add->operands[0] == body_.args[1 + i] ? 1 : 0];
    inSteps_[add] = b_.binary(OpKind::Mul, by, b_.constInt(by->type, l_.rounds));
  }
  outside.ops.insert(outside.ops.end(), behind.begin(), behind.end());
}

// `scalar` in each round: it, and once, twice .. `by` more. `by` = sext(x * constant) becomes part of the form that
// offsets inside of the tile have.
Value *RoundJoiner::numbers(const Value *scalar, Value *by) {
  const Elem elem = scalar->type.elem;
  Value *round = b_.range(0, l_.rounds), *factor = by;
  if (factor->def && factor->def->kind == OpKind::SExt && factor->def->operands[0]->type.elem == Elem::I32)
    factor = factor->def->operands[0];
  round = extended(round, factor->type.elem);
  if (const Op *def = factor->def; def && def->kind == OpKind::Mul)
    for (unsigned i = 0; i < 2; ++i)
      if (std::optional<int64_t> c = ir::constantInt(def->operands[i])) {
        round = b_.binary(OpKind::Mul, round, b_.constInt(round->type, *c));
        factor = def->operands[1 - i];
        break;
      }
  Value *grown = b_.binary(OpKind::Mul, round, b_.splat(factor, {l_.rounds}));
  return b_.binary(OpKind::Add, b_.splat(const_cast<Value *>(scalar), {l_.rounds}), extended(grown, elem));
}

void RoundJoiner::begin() {
  Value *iv = body_.args[0];
  const Op &loop = *l_.loop;
  const int64_t step = *ir::constantInt(loop.operands[2]) / l_.rounds;
  varying_.insert(iv);
  deep_[iv] = numbers(iv, b_.constInt(iv->type, step));
  for (const auto &[i, add] : l_.steps) {
    varying_.insert(body_.args[1 + i]);
    deep_[body_.args[1 + i]] = numbers(body_.args[1 + i], add->operands[add->operands[0] == body_.args[1 + i] ? 1 : 0]);
  }
  const std::optional<int64_t> from = ir::constantInt(loop.operands[0]), to = ir::constantInt(loop.operands[1]);
  if (from && to && *to > *from && (*to - *from) % (step * l_.rounds) == 0)
    return;
  // The distance to the bound is positive here and fits without a sign.
  Value *rest = b_.binary(OpKind::Sub, loop.operands[1], iv);
  auto number = [&](int64_t n) { return b_.constInt(rest->type, n); };
  if (step > 1)
    rest = b_.binary(OpKind::Add, b_.binary(OpKind::UDiv, b_.binary(OpKind::Sub, rest, number(1)), number(step)),
                     number(1));
  // What is left is looked at for the tile after this one, too (FunctionEmitter::nextTile).
  rest = b_.binary(OpKind::Mul, b_.binary(OpKind::UMin, rest, number(2 * l_.rounds)), number(l_.depth));
  left_ = rest->type.elem == Elem::I32 ? rest : b_.cast(OpKind::Trunc, rest, Elem::I32);
}

// As all rounds have it.
Value *RoundJoiner::deep(Value *v) {
  Value *&out = deep_[v];
  if (out)
    return out;
  const Shape to = rounds(v->type.shape);
  Value *made;
  if (v->def && v->def->kind == OpKind::Const) {
    const Type t = v->type.withShape(to);
    made = b_.create(OpKind::Const, {}, {&t, 1}, v->def->attrs)->result();
  } else {
    made = v->type.isScalar() ? b_.splat(v, to) : b_.broadcast(b_.expandDims(v, 0), to);
  }
  return deep_[v] = made;
}

// An operand of a dot, of which dimension `dim` is k.
Value *RoundJoiner::operand(Value *v, unsigned dim) {
  Value *x = deep(v);
  Shape to = v->type.shape;
  to.set(dim, to[dim] * l_.rounds);
  if (dim == 1)
    x = b_.permute(x, std::array<int64_t, 3>{1, 0, 2});
  return b_.reshape(x, to);
}

// For elements of the load, [rounds, .., ..]: whether there is such a round.
Value *RoundJoiner::inside(const Op &load) {
  const Shape to = rounds(load.result()->type.shape);
  const unsigned dim = l_.loads.lookup(&load);
  Value *k = b_.reshape(b_.range(0, l_.rounds * l_.depth), Shape{l_.rounds, l_.depth});
  k = b_.expandDims(k, dim == 1 ? 1 : 2);
  return b_.broadcast(b_.cmp(ir::CmpPred::Slt, k, b_.splat(left_, k->type.shape)), to);
}

void RoundJoiner::rewrite(Op &op) {
  at(op);
  if (auto step = inSteps_.find(&op); step != inSteps_.end()) {
    op.operands[llvm::is_contained(body_.args, op.operands[0]) ? 1 : 0] = step->second;
    body_.ops.push_back(&op);
    return;
  }
  const bool varies = llvm::any_of(op.operands, [&](const Value *v) { return varying_.contains(v); });
  if (op.kind == OpKind::Assume && varies)
    return;
  if (op.kind == OpKind::Dot) {
    op.operands[0] = operand(op.operands[0], 1);
    op.operands[1] = operand(op.operands[1], 0);
    body_.ops.push_back(&op);
    return;
  }
  if (!varies || op.kind == OpKind::Yield) {
    body_.ops.push_back(&op);
    return;
  }
  varying_.insert(op.result());
  const Type type = op.result()->type.withShape(rounds(op.result()->type.shape));
  if (op.kind == OpKind::Splat) {
    Value *x = deep(op.operands[0]);
    for (unsigned i = 0; i < op.result()->type.shape.rank(); ++i)
      x = b_.expandDims(x, 1);
    deep_[op.result()] = b_.broadcast(x, type.shape);
    return;
  }
  std::vector<Value *> operands;
  for (Value *v : op.operands)
    operands.push_back(deep(v));
  std::vector<ir::Attr> attrs = op.attrs;
  std::erase_if(attrs, [](const ir::Attr &a) {
    return a.key == ir::attr::divisibility || a.key == ir::attr::contiguity || a.key == ir::attr::constancy;
  });
  if (op.kind == OpKind::Load && left_) {
    Value *there = inside(op);
    if (operands.size() > 1)
      operands[1] = b_.binary(OpKind::And, operands[1], there);
    else
      operands.push_back(there);
  }
  Op *made = b_.create(op.kind, operands, {&type, 1}, std::move(attrs));
  if (op.kind == OpKind::ExpandDims)
    made->set(ir::attr::axis, op.axis() + 1);
  if (op.kind == OpKind::Permute) {
    std::vector<int64_t> perm{0};
    for (int64_t d : op.perm())
      perm.push_back(d + 1);
    made->set(ir::attr::perm, perm);
  }
  made->result()->name = op.result()->name;
  deep_[op.result()] = made->result();
}

} // namespace

bool hasShallowRounds(const ir::Module &m, const CpuTarget &target) {
  return llvm::any_of(m.functions, [&](const ir::Function *f) { return !ShallowLoops(*f, target).found.empty(); });
}

void joinRounds(ir::Module &m, const CpuTarget &target) {
  for (ir::Function *f : m.functions)
    for (ShallowLoop &loop : ShallowLoops(*f, target).found)
      RoundJoiner(m, loop).run();
}

} // namespace tegula::cpu
