// Users, positions, memory effects and cost estimates for planning.
#include "targets/cpu/plan/Uses.h"
#include "ir/Walk.h"
#include <algorithm>
#include <set>
#include <vector>

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using ir::Value;

/// Follows the condition back through the loop.
struct ConditionSearch {
  const Op &loop;
  std::set<const Value *> seen;
  std::vector<const Value *> todo;

  void push(const Value *v) {
    if (isInside(v, loop) && seen.insert(v).second)
      todo.push_back(v);
  }

  /// An argument of a block of the loop: what the other block, or one round before, passes.
  void pushPassed(const Value *v) {
    const ir::Block &test = *loop.regions[0]->block, &body = *loop.regions[1]->block;
    if (v->block == &test)
      push(body.terminator()->operands[v->index]);
    else if (v->block == &body)
      push(test.terminator()->operands[v->index + 1]);
    else
      pushOperands(*v->block->parent->op);
  }

  /// True if `op` reads memory; else its operands, and of what it has inside all that is used there.
  bool pushOperands(const Op &op) {
    if (op.kind == OpKind::Load || op.kind == OpKind::AtomicRmw || op.kind == OpKind::AtomicCas ||
        op.kind == OpKind::AsmEffect || op.kind == OpKind::Call)
      return true;
    for (const Value *v : op.operands)
      push(v);
    for (const ir::Region *r : op.regions)
      for (const Op *inner : r->block->ops)
        if (pushOperands(*inner))
          return true;
    return false;
  }
};

bool waitsForMemory(const Op &loop) {
  ConditionSearch s{loop, {}, {}};
  s.push(loop.regions[0]->block->terminator()->operands[0]);
  while (!s.todo.empty()) {
    const Value *v = s.todo.back();
    s.todo.pop_back();
    if (!v->def)
      s.pushPassed(v);
    else if (s.pushOperands(*v->def))
      return true;
  }
  return false;
}

bool isVirtualizable(const Op &op) {
  return op.has(ir::traits::Elementwise | ir::traits::Shape) || op.kind == OpKind::Const || op.kind == OpKind::Poison ||
         op.kind == OpKind::Range || op.kind == OpKind::Gather;
}

bool sameOffsets(const Value *a, const Value *b, const ir::Function &f) {
  while (a != b) {
    if (!a->def || !b->def)
      // two arguments, not apart by a shift
      return !a->def && !b->def && a->block == f.block() && b->block == f.block() && memoryOf(a) != memoryOf(b);
    bool moves = a->def->kind == OpKind::AddPtr || a->def->kind == OpKind::Splat || a->def->kind == OpKind::Broadcast;
    if (!moves || a->def->kind != b->def->kind || !(a->type.shape == b->type.shape))
      return false;
    for (size_t i = 1; i < a->def->operands.size(); ++i)
      if (a->def->operands[i] != b->def->operands[i])
        return false;
    a = a->def->operands[0], b = b->def->operands[0];
  }
  return true;
}

unsigned opCost(const Op &op) {
  switch (op.kind) {
  case OpKind::Exp: case OpKind::Exp2: case OpKind::Log: case OpKind::Log2: case OpKind::Sin: case OpKind::Cos:
  case OpKind::Erf: case OpKind::Tanh: case OpKind::FRem: case OpKind::Asm:
    return 20;
  case OpKind::SDiv: case OpKind::UDiv: case OpKind::SRem: case OpKind::URem:
    return 20;
  case OpKind::FDiv: case OpKind::Sqrt: case OpKind::Rsqrt: case OpKind::Gather:
    return 10;
  case OpKind::FpTrunc: case OpKind::FpExt:
    return ir::isFp8(op.operands[0]->type.elem) || ir::isFp8(op.results[0]->type.elem) ? 12 : 2;
  case OpKind::Const: case OpKind::Range: case OpKind::Splat: case OpKind::Broadcast: case OpKind::ExpandDims:
  case OpKind::Reshape: case OpKind::Permute: case OpKind::Poison:
    return 0;
  default:
    return 1;
  }
}

bool Effects::mayWrite(int argument) const {
  return writesAny || (argument < 0 && !arguments.empty()) ||
         std::find_if(arguments.begin(), arguments.end(), [&](int a) { return a == argument || a < 0; }) !=
             arguments.end();
}

Uses::Uses(const ir::Function &f) : function_(f) {
  visit(*f.block());
  for (const Op *op : f.block()->ops) {
    const Effects &e = effects(op);
    all_.writesAny |= e.writesAny && op->kind != OpKind::Barrier;
    all_.arguments.append(e.arguments.begin(), e.arguments.end());
  }
  for (const auto &[op, e] : effects_) {
    const bool atomic = op->kind == OpKind::AtomicRmw || op->kind == OpKind::AtomicCas;
    const bool isUsed = llvm::any_of(op->results, [&](const Value *v) { return !users(v).empty(); });
    all_.writesAny |= atomic; // as a whole the kernel works with others
    learns_ |= op->kind == OpKind::Call || op->kind == OpKind::AsmEffect || (atomic && isUsed);
  }
}

void Uses::note(const Op &op, Effects &e) const {
  switch (op.kind) {
  case OpKind::Store:
  case OpKind::AtomicRmw:
  case OpKind::AtomicCas:
    e.arguments.push_back(memoryOf(op.operands[0]));
    if (op.kind != OpKind::Store && op.get(ir::attr::sem, "acq_rel") != "relaxed")
      e.writesAny = true; // such an atomic orders memory
    break;
  case OpKind::Barrier:
  case OpKind::Call:
  case OpKind::AsmEffect:
    e.writesAny = true;
    break;
  default:
    break;
  }
}

static bool hasPlannedRegions(const Op &op) {
  return op.kind == OpKind::For || op.kind == OpKind::While || op.kind == OpKind::If;
}

void Uses::visit(const ir::Block &b) {
  unsigned n = 0;
  for (Op *op : b.ops) {
    position_[op] = n++;
    for (const Value *v : op->operands)
      users_.note(v, op);
    Effects e;
    note(*op, e);
    if (op->kind == OpKind::Load)
      read_.push_back(memoryOf(op->operands[0]));
    if (op->kind == OpKind::Store)
      stores_.push_back(op);
    if (hasPlannedRegions(*op))
      for (const ir::Region *r : op->regions) {
        visit(*r->block);
        for (const Op *inner : r->block->ops) {
          const Effects &i = effects_[inner];
          e.writesAny |= i.writesAny;
          e.arguments.append(i.arguments.begin(), i.arguments.end());
        }
      }
    effects_[op] = e;
    unsigned w = opCost(*op);
    if (isVirtualizable(*op))
      // Work on fewer elements than the result has does not count: an expensive part of it gets a buffer of its own
      // size.
      for (const Value *v : op->operands)
        w = std::min(100000u,
                     w + (v->type.isTensor() && v->type.numel() >= op->results[0]->type.numel() ? work_.lookup(v) : 0));
    else
      w = 1;
    for (const Value *v : op->results)
      work_[v] = w;
  }
}

bool Uses::mayChange(const Op &load) const {
  const int argument = memoryOf(load.operands[0]);
  if (argument < 0 || !all_.mayWrite(argument))
    return argument < 0;
  return all_.writesAny || llvm::any_of(stores_, [&](const Op *s) {
           const int to = memoryOf(s->operands[0]);
           return to < 0 || (to == argument && !sameOffsets(s->operands[0], load.operands[0], function_));
         });
}

bool Uses::mayBeReadEarlier(const Op &load) const {
  const int argument = memoryOf(load.operands[0]);
  return argument >= 0 && !load.isVolatile() && !learns_ && !Effects{false, all_.arguments}.mayWrite(argument);
}

bool Uses::mayRead(int argument) const {
  return std::any_of(read_.begin(), read_.end(), [&](int a) { return a < 0 || argument < 0 || a == argument; });
}

unsigned Uses::positionIn(const ir::Block *block, const Op *op) const {
  while (op && op->parent != block)
    op = op->parent->parent->op;
  return op ? position(op) : ~0u;
}

const Effects &Uses::effects(const Op *op) const {
  static const Effects none;
  auto it = effects_.find(op);
  return it == effects_.end() ? none : it->second;
}

bool Uses::loopBetween(const ir::Block *outer, const Op *inner) const {
  for (const ir::Block *b = inner->parent; b && b != outer;) {
    const Op *owner = b->parent->op;
    if (!owner)
      return false;
    if (owner->kind == OpKind::For || owner->kind == OpKind::While)
      return true;
    b = owner->parent;
  }
  return false;
}

} // namespace tegula::cpu
