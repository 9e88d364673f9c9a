#include "passes/Users.h"

namespace tegula {

void Users::note(const ir::Value *v, ir::Op *op) {
  if (std::vector<ir::Op *> &users = users_[v]; users.empty() || users.back() != op) // a square has its operand twice
    users.push_back(op);
}

void Users::noteOperands(const ir::Op &op, ir::Op *by) {
  for (const ir::Value *v : op.operands)
    note(v, by);
  for (const ir::Region *r : op.regions)
    for (const ir::Op *inner : r->block->ops)
      noteOperands(*inner, by);
}

void Users::add(const ir::Block &b) {
  for (ir::Op *op : b.ops) {
    for (const ir::Value *v : op->operands)
      note(v, op);
    for (const ir::Region *r : op->regions)
      add(*r->block);
  }
}

std::span<ir::Op *const> Users::of(const ir::Value *v) const {
  auto it = users_.find(v);
  return it == users_.end() ? std::span<ir::Op *const>() : it->second;
}

std::vector<ir::Op *> Users::take(const ir::Value *v) {
  auto it = users_.find(v);
  if (it == users_.end())
    return {};
  std::vector<ir::Op *> taken = std::move(it->second);
  users_.erase(it);
  return taken;
}

ir::Op *Users::only(const ir::Value *v) const {
  std::span<ir::Op *const> users = of(v);
  return users.size() == 1 ? users[0] : nullptr;
}

} // namespace tegula
