// See WidenDots.h.
#include "targets/nvidia/WidenDots.h"
#include "ir/Builder.h"
#include "targets/nvidia/DotChoice.h"

namespace tegula::nvidia {

using namespace ir;

static bool wantsFp16(const Op &op, const NvTarget &target) {
  if (op.kind != OpKind::Dot || !isFp8(op.operands[0]->type.elem) || !isFp8(op.operands[1]->type.elem))
    return false;
  DotKind kind = chooseDot(op, target, 4).kind;
  return op.precision() == "wide" || kind == DotKind::Fma || kind == DotKind::FmaTiles;
}

static void widen(Builder &b, Block &block, const NvTarget &target) {
  std::vector<Op *> ops;
  ops.swap(block.ops);
  block.ops.reserve(ops.size());
  for (Op *op : ops) {
    for (Region *r : op->regions)
      widen(b, *r->block, target);
    if (wantsFp16(*op, target)) {
      b.setBlock(&block);
      b.setLoc(op->loc);
      b.setInlinedAt(op->inlinedAt);
      for (unsigned i = 0; i < 2; ++i)
        op->operands[i] = b.cast(OpKind::FpExt, op->operands[i], Elem::F16);
    }
    block.ops.push_back(op);
  }
}

void widenDots(Module &module, const NvTarget &target) {
  Builder b(module);
  for (Function *f : module.functions)
    widen(b, *f->block(), target);
}

} // namespace tegula::nvidia
