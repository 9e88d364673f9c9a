// See TileLoop.h.
#include "targets/nvidia/TileLoop.h"
#include "layout/Conversion.h"
#include "targets/nvidia/BaseArgument.h"
#include "targets/nvidia/BulkStores.h"
#include <algorithm>

namespace tegula::nvidia {

using namespace ir;

namespace {

const Function &functionOf(const Op &op) {
  const Region *r = op.parent->parent;
  while (r->op)
    r = r->op->parent->parent;
  return *r->function;
}

} // namespace

std::optional<uint64_t> scratchOf(const Module &m, const Op &op, uint64_t most) {
  switch (op.kind) {
  case OpKind::Convert: {
    const Type &from = op.operands[0]->type, &to = op.result()->type;
    layout::ConversionOptions options;
    options.maxBytes = static_cast<unsigned>(most);
    return layout::planConversion(m.layoutOf(from), m.layoutOf(to), from.isPtr ? 64 : 8 * byteWidth(from.elem), options).cost.bytes;
  }
  case OpKind::Reduce:
    return 4096;
  case OpKind::Scan:
  case OpKind::Gather:
  case OpKind::Histogram:
  case OpKind::ToShared:
  case OpKind::Dot:
    return std::nullopt;
  default:
    if (op.has(traits::Pure) || op.kind == OpKind::Load || op.kind == OpKind::Store || op.kind == OpKind::DescStore || op.kind == OpKind::DescReduce ||
        op.kind == OpKind::Yield || op.kind == OpKind::Condition || op.kind == OpKind::Assume)
      return 0;
    return std::nullopt;
  }
}

bool TileLoop::allows(const Module &m, const Op &inner, uint64_t freeBytes, const std::vector<const Op *> &loads) {
  const Op *loop = inner.parent->parent->op;
  if (!loop || loop->kind != OpKind::For || loop->intAttr("reverse") || inner.intAttr("ops_ahead"))
    return false;
  const Function &f = functionOf(*loop);
  // Buffers of bulk stores are kept as long as the loop runs.
  uint64_t buffers = 0;
  for (const Op *op : inner.parent->ops)
    if (op->kind == OpKind::DescStore || op->kind == OpKind::DescReduce) {
      const Type &t = op->operands.back()->type;
      buffers = std::max(buffers, planBulkStore(m.layoutOf(t), t.shape, t.elem)->sharedBytes(1));
    }
  if (buffers > freeBytes)
    return false;
  freeBytes -= buffers;
  for (const Op *op : inner.parent->ops) {
    if (op == &inner)
      continue;
    std::optional<uint64_t> bytes = scratchOf(m, *op, freeBytes);
    if (!bytes || *bytes > freeBytes)
      return false;
    // The next tile is loaded before this one is stored: they must be different memory.
    if (op->kind == OpKind::Store || op->kind == OpKind::DescStore || op->kind == OpKind::DescReduce) {
      int to = baseArgument(op->operands[0], f);
      if (to < 0 || std::any_of(loads.begin(), loads.end(), [&](const Op *l) { return baseArgument(l->operands[0], f) == to; }))
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
    // What regions use is computed once, in front of them.
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

TileLoop::Map TileLoop::firstTile() const {
  Map map{{body_.args[0], loop_.operands[0]}};
  for (Value *v : slice_.carried())
    map[v] = loop_.operands[2 + v->index];
  return map;
}

TileLoop::Map TileLoop::nextTile(Builder &b) const {
  Map now, next;
  for (Value *v : slice_.carried())
    next[v] = slice_.copy(b, slice_.nextOf(v), now);
  next[body_.args[0]] = b.binary(OpKind::Add, body_.args[0], loop_.operands[2]);
  return next;
}

} // namespace tegula::nvidia
