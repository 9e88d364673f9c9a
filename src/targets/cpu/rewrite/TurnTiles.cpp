// See TurnTiles.h.
#include "targets/cpu/rewrite/TurnTiles.h"
#include "ir/Walk.h"
#include "passes/AxisFacts.h"
#include "llvm/ADT/STLExtras.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using ir::Type;
using ir::Value;

namespace {

bool hasRows(const Type &t) { return t.isTensor() && t.shape.rank() == 2; }
bool isRowOrColumn(const Type &t) { return hasRows(t) && (t.shape[0] == 1 || t.shape[1] == 1); }

/// Is `op`, apart from the axes that it names, the same operation on tiles whose two dimensions are exchanged?
bool canTurn(const Op &op) {
  auto any = [&](auto test) {
    return llvm::any_of(op.operands, [&](const Value *v) { return test(v->type); }) ||
           llvm::any_of(op.results, [&](const Value *v) { return test(v->type); });
  };
  if (any([](const Type &t) { return t.isTensor() && t.shape.rank() > 2; }))
    return false;
  if (!any(hasRows))
    return op.kind != OpKind::Call;
  if (op.has(ir::traits::Elementwise))
    return true;
  switch (op.kind) {
  case OpKind::Const:
  case OpKind::Poison:
  case OpKind::Splat:
  case OpKind::Unsplat:
  case OpKind::ExpandDims:
  case OpKind::Broadcast:
  case OpKind::Permute:
  case OpKind::Gather:
  case OpKind::Load:
  case OpKind::Reduce:
  case OpKind::Scan:
  case OpKind::For:
  case OpKind::While:
  case OpKind::If:
  case OpKind::Yield:
  case OpKind::Condition:
  case OpKind::Return: return true;
  case OpKind::Store:
    return !op.isVolatile();
  case OpKind::Reshape: // of a row or a column: the order of its elements is the same either way
    return llvm::none_of(op.operands, [](const Value *v) { return hasRows(v->type) && !isRowOrColumn(v->type); }) &&
           (!hasRows(op.result()->type) || isRowOrColumn(op.result()->type));
  default:
    return false;
  }
}

/// Numbers of loads and stores that are contiguous in memory along axis 0 and along axis 1.
struct Votes {
  unsigned along0 = 0, along1 = 0;
};

Votes count(const ir::Function &f) {
  Votes votes;
  const AxisFacts facts(f);
  ir::anyOp(*f.block(), [&](const Op &op) {
    if (op.kind != OpKind::Load && op.kind != OpKind::Store)
      return false;
    const Type &t = op.operands[0]->type;
    if (!hasRows(t) || isRowOrColumn(t))
      return false;
    const AxisFact &rows = facts.of(op.operands[0], 0), &columns = facts.of(op.operands[0], 1);
    votes.along1 += columns.contiguity > 1;
    votes.along0 += columns.contiguity == 1 && columns.constancy == 1 && rows.contiguity > 1;
    return false;
  });
  return votes;
}

bool hasPlainTiles(const ir::Function &f) {
  bool accesses = false;
  return !ir::anyOp(*f.block(), [&](const Op &op) {
    accesses |= (op.kind == OpKind::Load || op.kind == OpKind::Store) && hasRows(op.operands[0]->type) &&
                !isRowOrColumn(op.operands[0]->type);
    return !canTurn(op);
  }) && accesses;
}

void turn(Value &v) {
  if (hasRows(v.type))
    v.type = v.type.withShape({v.type.shape[1], v.type.shape[0]});
}

void turn(ir::Block &b) {
  for (Value *v : b.args)
    turn(*v);
  for (Op *op : b.ops) {
    const bool expands = op->kind == OpKind::ExpandDims && hasRows(op->result()->type);
    // Types of operands may be turned already: those from outside of a region always are, so what decides is that there
    // are two dimensions, which stays.
    const bool names = op->kind == OpKind::Reduce || op->kind == OpKind::Scan || op->kind == OpKind::Gather;
    if (expands || (names && hasRows(op->operands[0]->type)))
      op->set(ir::attr::axis, 1 - op->axis());
    for (ir::ListKey hint : {ir::attr::divisibility, ir::attr::contiguity, ir::attr::constancy})
      if (const std::span<const int64_t> list = op->get(hint);
          list.size() == 2 && !op->results.empty() && hasRows(op->result()->type))
        op->set(hint, std::vector<int64_t>{list[1], list[0]});
    for (Value *v : op->results)
      turn(*v);
    for (const ir::Region *r : op->regions)
      turn(*r->block);
  }
}

} // namespace

bool hasTurnedTiles(const ir::Module &m) {
  if (m.functions.size() != 1 || !hasPlainTiles(*m.kernel()))
    return false;
  const Votes votes = count(*m.kernel());
  return votes.along0 && !votes.along1;
}

void turnTiles(ir::Module &m) { turn(*m.kernel()->block()); }

} // namespace tegula::cpu
