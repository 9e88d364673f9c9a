// See ShareTiles.h.
#include "gpu/layouts/ShareTiles.h"
#include "gpu/Layouts.h"
#include "passes/EqualOps.h"

namespace tegula::gpu {

using namespace ir;

namespace {

using Same = std::unordered_map<const Value *, Value *>;

/// Definitions dominate their uses in this order, so one walk renames all of them. removeDead removes the operations
/// left without users.
void share(Block &b, Same &same) {
  EqualOps equal;
  for (Op *op : b.ops) {
    if (!same.empty())
      for (Value *&v : op->operands)
        if (auto it = same.find(v); it != same.end())
          v = it->second;
    for (Region *r : op->regions)
      share(*r->block, same);
    if (op->kind != OpKind::ToShared && !(renames(op->kind) && op->operands[0]->type.isTensor()))
      continue;
    if (Op *first = equal.findOrAdd(*op, 0); first != op)
      same[op->result()] = first->result();
  }
}

} // namespace

void shareTiles(Module &m) {
  Same same;
  for (Function *f : m.functions)
    share(*f->block(), same);
}

} // namespace tegula::gpu
