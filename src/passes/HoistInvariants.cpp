// Loop-invariant code motion; see HoistInvariants.h. Value::mark holds the number of loops around a definition.
#include "passes/HoistInvariants.h"
#include "passes/Effects.h"

namespace tegula {

using namespace ir;

namespace {

bool isLoop(const Op &op) { return op.kind == OpKind::For || op.kind == OpKind::While; }

void hoistFrom(Block &body, Block &outer, uint32_t depth) {
  size_t kept = 0;
  for (Op *op : body.ops) {
    // What has regions beside reduce and scan may use values of the loop inside them.
    bool moves = isPure(*op) && (op->regions.empty() || op->kind == OpKind::Reduce || op->kind == OpKind::Scan);
    for (const Value *v : op->operands)
      moves = moves && v->mark < depth;
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

void block(Block &b, uint32_t depth) {
  for (Value *v : b.args)
    v->mark = depth;
  std::vector<Op *> ops;
  ops.swap(b.ops);
  b.ops.reserve(ops.size());
  for (Op *op : ops) {
    bool loop = isLoop(*op), moves = loop && op->intAttr("disable_licm") == 0;
    for (Region *r : op->regions)
      block(*r->block, depth + loop);
    if (moves)
      for (Region *r : op->regions)
        hoistFrom(*r->block, b, depth + 1);
    for (Value *v : op->results)
      v->mark = depth;
    b.ops.push_back(op);
  }
}

} // namespace

void hoistInvariants(Module &m) {
  for (Function *f : m.functions)
    block(*f->block(), 0);
}

} // namespace tegula
