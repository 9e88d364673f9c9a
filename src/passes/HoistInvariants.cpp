// Loop-invariant code motion; see HoistInvariants.h. Value::mark holds the number of loops around a definition.
#include "passes/HoistInvariants.h"
#include "passes/Effects.h"

namespace tegula {

using namespace ir;

namespace {

bool isLoop(const Op &op) { return op.kind == OpKind::For || op.kind == OpKind::While; }

/// Values that stay in a loop around many others: scalars, addresses and offsets that are cheap to compute. Hoisted,
/// they would be live across all of the loops, and register allocation costs values times blocks.
constexpr unsigned manyLoops = 64;
bool isCheap(const Op &op) {
  switch (op.kind) {
  case OpKind::SDiv:
  case OpKind::UDiv:
  case OpKind::SRem:
  case OpKind::URem:
  case OpKind::FDiv:
  case OpKind::FRem:
  case OpKind::Gather:
  case OpKind::Exchange:
  case OpKind::Histogram:
  case OpKind::Dot: case OpKind::Asm: case OpKind::Convert: case OpKind::ClusterGather: case OpKind::ToShared:
    return false;
  default: {
    const Type &t = op.results[0]->type;
    return op.regions.empty() && (t.isScalar() || t.isPtr || isInt(t.elem));
  }
  }
}

void hoistFrom(Block &body, Block &outer, uint32_t depth, unsigned loops) {
  size_t kept = 0;
  for (Op *op : body.ops) {
    // Operations with regions, except reduce and scan, may use values of the loop inside them.
    bool moves = isPure(*op) && (op->regions.empty() || op->kind == OpKind::Reduce || op->kind == OpKind::Scan);
    for (const Value *v : op->operands)
      moves = moves && v->mark < depth;
    if (moves && loops >= manyLoops && isCheap(*op))
      moves = false;
    if (!moves) {
      body.ops[kept++] = op;
      continue;
    }
    for (Value *v : op->results)
      v->mark = depth - 1;
    op->parent = &outer;
    outer.ops.push_back(op);
  }
  body.ops.resize(kept);
}

/// Returns how many loops are in the block, at any depth.
unsigned block(Block &b, uint32_t depth) {
  unsigned all = 0;
  for (Value *v : b.args)
    v->mark = depth;
  std::vector<Op *> ops;
  ops.swap(b.ops);
  b.ops.reserve(ops.size());
  for (Op *op : ops) {
    bool loop = isLoop(*op), moves = loop && !op->disableLicm();
    unsigned inside = 0;
    for (Region *r : op->regions)
      inside += block(*r->block, depth + loop);
    all += inside + loop;
    if (moves)
      for (Region *r : op->regions)
        hoistFrom(*r->block, b, depth + 1, inside);
    for (Value *v : op->results)
      v->mark = depth;
    b.ops.push_back(op);
  }
  return all;
}

} // namespace

void hoistInvariants(Module &m) {
  for (Function *f : m.functions)
    block(*f->block(), 0);
}

} // namespace tegula
