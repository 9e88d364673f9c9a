// See BlockEdit.h.
#include "gpu/BlockEdit.h"
#include <algorithm>
#include <cmath>

namespace tegula::gpu {

using namespace ir;

const Block &entryOf(const Op &op) {
  const Block *b = op.parent;
  while (b->parent->op)
    b = b->parent->op->parent;
  return *b;
}

bool isInLoop(const Op &op) {
  for (const Op *o = op.parent->parent->op; o; o = o->parent->parent->op)
    if (o->kind == OpKind::For || o->kind == OpKind::While)
      return true;
  return false;
}

bool isZero(const Value *v) {
  const Op *op = v->def;
  while (op && (op->kind == OpKind::Splat || op->kind == OpKind::Broadcast))
    op = op->operands[0]->def;
  if (!op || op->kind != OpKind::Const)
    return false;
  const AttrValue &value = *op->value();
  if (const double *x = std::get_if<double>(&value))
    return *x == 0 && !std::signbit(*x);
  return std::get<int64_t>(value) == 0;
}

size_t positionOf(const Block &b, const Op *op) {
  return static_cast<size_t>(std::find(b.ops.begin(), b.ops.end(), op) - b.ops.begin());
}

std::vector<Op *> usersIn(const Block &b, const Value *v) {
  std::vector<Op *> out;
  for (Op *op : b.ops)
    if (uses(*op, v))
      out.push_back(op);
  return out;
}

bool uses(const Op &op, const Value *v) {
  return std::find(op.operands.begin(), op.operands.end(), v) != op.operands.end() ||
         std::any_of(op.regions.begin(), op.regions.end(), [&](const Region *r) {
           return std::any_of(r->block->ops.begin(), r->block->ops.end(), [&](const Op *o) { return uses(*o, v); });
         });
}

void replaceUses(Op &op, const Value *from, Value *to) {
  std::replace(op.operands.begin(), op.operands.end(), const_cast<Value *>(from), to);
  for (Region *r : op.regions)
    replaceUses(*r->block, from, to);
}

void replaceUses(Block &b, const Value *from, Value *to, size_t position) {
  for (size_t i = position; i < b.ops.size(); ++i)
    replaceUses(*b.ops[i], from, to);
}

void replaceUses(Block &b, std::span<Value *const> from, std::span<Value *const> to, size_t position) {
  for (size_t i = position; i < b.ops.size(); ++i) {
    for (Value *&v : b.ops[i]->operands)
      if (auto found = std::ranges::find(from, v); found != from.end())
        v = to[static_cast<size_t>(found - from.begin())];
    for (Region *r : b.ops[i]->regions)
      replaceUses(*r->block, from, to);
  }
}

void takeUsers(std::span<Value *const> values, Op &op) {
  for (size_t i = 0; i < values.size(); ++i) {
    Value *taken = values[i], *other = op.results[i];
    std::swap(taken->def->results[taken->index], op.results[i]);
    std::swap(taken->def, other->def);
    std::swap(taken->index, other->index);
    std::swap(taken->name, other->name);
    std::ranges::replace(op.operands, taken, other);
  }
}

void splice(Block &from, Block &to, size_t position) {
  for (Op *op : from.ops)
    op->parent = &to;
  to.ops.insert(to.ops.begin() + static_cast<long>(position), from.ops.begin(), from.ops.end());
  from.ops.clear();
}

// ---- BlockEditor

BlockEditor::BlockEditor(Block &b) : block_(b) {
  for (size_t i = 0; i < b.ops.size(); ++i) {
    Op *op = b.ops[i];
    positions_[op] = i;
    users_.noteOperands(*op, op);
  }
}

std::vector<Op *> BlockEditor::users(const Value *v) const {
  std::span<Op *const> known = users_.of(v);
  std::vector<Op *> out(known.begin(), known.end());
  std::erase_if(out, [&](const Op *op) { return gone_.contains(op); });
  return out;
}

void BlockEditor::insertBefore(const Op *op, Block &from) {
  std::vector<Op *> &to = before_[op];
  for (Op *o : from.ops)
    o->parent = &block_;
  to.insert(to.end(), from.ops.begin(), from.ops.end());
  from.ops.clear();
}

void BlockEditor::replace(const Op *op, Block &by) {
  insertBefore(op, by);
  erase(op);
}

void BlockEditor::replaceUses(const Value *from, Value *to) {
  replaced_[from] = to;
  if (users_.of(from).empty())
    return;
  std::vector<Op *> both = users_.take(from);
  for (Op *op : users_.take(to))
    both.push_back(op);
  std::sort(both.begin(), both.end(), [&](const Op *a, const Op *b) { return positions_.at(a) < positions_.at(b); });
  for (Op *op : both)
    users_.note(to, op);
}

Value *BlockEditor::now(Value *v) const {
  for (auto found = replaced_.find(v); found != replaced_.end(); found = replaced_.find(v))
    v = found->second;
  return v;
}

void BlockEditor::rename(Block &b) const {
  for (Op *op : b.ops) {
    for (Value *&v : op->operands)
      v = now(v);
    for (Region *r : op->regions)
      rename(*r->block);
  }
}

BlockEditor::~BlockEditor() {
  if (!before_.empty() || !gone_.empty()) {
    std::vector<Op *> ops;
    for (Op *op : block_.ops) {
      if (auto found = before_.find(op); found != before_.end())
        ops.insert(ops.end(), found->second.begin(), found->second.end());
      if (!gone_.contains(op))
        ops.push_back(op);
    }
    block_.ops = std::move(ops);
  }
  if (!replaced_.empty())
    rename(block_);
}

// ----

Value *carry(Module &m, Op &loop, Value *init, std::string name) {
  Block &body = *loop.region(0);
  Value *arg = m.addArg(&body, init->type);
  arg->name = std::move(name);
  loop.operands.push_back(init);
  m.addResult(&loop, init->type);
  body.terminator()->operands.push_back(nullptr);
  return arg;
}

bool writesGlobal(const Op &op) {
  return (op.has(traits::Writes) && !op.has(traits::Shared) && op.kind != OpKind::Assume) ||
         std::any_of(op.regions.begin(), op.regions.end(), [](const Region *r) {
           return std::any_of(r->block->ops.begin(), r->block->ops.end(), [](const Op *o) { return writesGlobal(*o); });
         });
}

} // namespace tegula::gpu
