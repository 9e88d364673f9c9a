// See BlockEdit.h.
#include "targets/nvidia/BlockEdit.h"
#include <algorithm>

namespace tegula::nvidia {

using namespace ir;

const Block &entryOf(const Op &op) {
  const Block *b = op.parent;
  while (b->parent->op)
    b = b->parent->op->parent;
  return *b;
}

size_t positionOf(const Block &b, const Op *op) { return static_cast<size_t>(std::find(b.ops.begin(), b.ops.end(), op) - b.ops.begin()); }

std::vector<Op *> usersIn(const Block &b, const Value *v) {
  std::vector<Op *> out;
  for (Op *op : b.ops)
    if (std::find(op->operands.begin(), op->operands.end(), v) != op->operands.end())
      out.push_back(op);
  return out;
}

void replaceUses(Block &b, const Value *from, Value *to, size_t position) {
  for (size_t i = position; i < b.ops.size(); ++i) {
    std::replace(b.ops[i]->operands.begin(), b.ops[i]->operands.end(), const_cast<Value *>(from), to);
    for (Region *r : b.ops[i]->regions)
      replaceUses(*r->block, from, to);
  }
}

void splice(Block &from, Block &to, size_t position) {
  for (Op *op : from.ops)
    op->parent = &to;
  to.ops.insert(to.ops.begin() + static_cast<long>(position), from.ops.begin(), from.ops.end());
  from.ops.clear();
}

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
  return (op.has(traits::Writes) && !op.has(traits::Shared) && op.kind != OpKind::Assume) || std::any_of(op.regions.begin(), op.regions.end(), [](const Region *r) {
    return std::any_of(r->block->ops.begin(), r->block->ops.end(), [](const Op *o) { return writesGlobal(*o); });
  });
}

} // namespace tegula::nvidia
