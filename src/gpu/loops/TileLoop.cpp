// See TileLoop.h.
#include "gpu/loops/TileLoop.h"
#include "gpu/BlockEdit.h"
#include "gpu/loops/RotateDots.h"
#include "gpu/shared/SharedNeeds.h"
#include "passes/ArgumentAccess.h"
#include <algorithm>

namespace tegula::gpu {

using namespace ir;

bool TileLoop::allows(const Module &m, const Op &inner, const TargetInfo &target, uint64_t freeBytes,
                      const std::vector<const Op *> &loads) {
  const Op *loop = inner.parent->parent->op;
  if (!loop || loop->kind != OpKind::For || opsOfFirstDot(inner))
    return false;
  // Buffers of bulk stores stay allocated for the whole loop.
  uint64_t buffers = 0;
  for (const Op *op : inner.parent->ops)
    buffers = std::max(buffers, target.blockStore(m, *op).bytes);
  if (buffers > freeBytes)
    return false;
  freeBytes -= buffers;
  for (const Op *op : inner.parent->ops) {
    if (op == &inner)
      continue;
    std::optional<uint64_t> bytes = scratchOf(m, *op, freeBytes);
    if (!bytes || *bytes > freeBytes)
      return false;
    // The next tile is loaded before this one is stored, so loads and stores must be of different memory.
    if (op->kind == OpKind::Store || op->kind == OpKind::DescStore || op->kind == OpKind::DescReduce) {
      int to = memoryOf(op->operands[0]);
      if (to < 0 ||
          std::any_of(loads.begin(), loads.end(), [&](const Op *l) { return memoryOf(l->operands[0]) == to; }))
        return false;
    }
  }
  return true;
}

bool TileLoop::covers(const Block &prologue, const Map &given) {
  std::unordered_set<const Value *> made;
  auto walk = [&](auto &&self, const Block &b) -> bool {
    for (const Op *op : b.ops) {
      for (const Value *v : op->operands)
        if (!made.count(v) && !given.count(v) && !slice_.add(v))
          return false;
      made.insert(op->results.begin(), op->results.end());
      for (const Region *r : op->regions)
        if (!self(self, *r->block))
          return false;
    }
    return true;
  };
  return walk(walk, prologue);
}

void TileLoop::place(Builder &b, const Block &prologue, Map map) const {
  for (const Op *op : prologue.ops) {
    std::vector<Value *> operands;
    for (Value *v : op->operands)
      operands.push_back(slice_.copy(b, v, map));
    // Values that regions use are computed once, before the operation.
    for (const Region *r : op->regions)
      for (const Op *o : r->block->ops)
        for (Value *v : o->operands)
          if (slice_.isInside(v))
            slice_.copy(b, v, map);
    Op *now = LoopSlice::clone(b, *op, operands);
    for (size_t i = 0; i < now->results.size(); ++i)
      map[op->results[i]] = now->results[i];
    Block *outer = b.block();
    for (unsigned i = 0; i < op->regions.size(); ++i) {
      b.setBlock(now->region(i));
      place(b, *op->region(i), map);
    }
    b.setBlock(outer);
  }
}

} // namespace tegula::gpu
