// Products: packing of their operands, operands that are read in place, and accumulators.
#include "targets/cpu/plan/Planner.h"
#include "targets/cpu/plan/ColumnsOfA.h"
#include "passes/SignificantBits.h"

namespace tegula::cpu {
using ir::Op;
using ir::OpKind;
using ir::Value;

// True if every use of `v` ends in the accumulator operand of `dot`, element by element: there is no other use.
bool Planner::onlyFeeds(const Value *v, const Op &dot) const {
  for (const Op *u : uses_.users(v)) {
    if (u == &dot) {
      if (dot.operands[0] == v || dot.operands[1] == v)
        return false;
      continue;
    }
    bool passes = u->parent == dot.parent && u->has(ir::traits::Elementwise) && plan_.bufferFor(u->results[0]) < 0;
    if (!passes || !onlyFeeds(u->results[0], dot))
      return false;
  }
  return true;
}

// `acc = dot(a, b, f(acc))` in a loop, f elementwise: the loop-carried value whose buffer can be accumulated into, or
// null.
const Value *Planner::accumulatesInto(const Op &dot) const {
  const ir::Block &body = *dot.parent;
  const Op *loop = body.parent ? body.parent->op : nullptr;
  const std::span<Op *const> users = uses_.users(dot.results[0]);
  if (!loop || loop->kind != OpKind::For || users.size() != 1 || users[0] != body.terminator())
    return nullptr;
  const auto &yields = body.terminator()->operands;
  if (std::count(yields.begin(), yields.end(), dot.results[0]) != 1)
    return nullptr;
  size_t slot = static_cast<size_t>(std::find(yields.begin(), yields.end(), dot.results[0]) - yields.begin());
  const Value *arg = body.args[slot + 1];
  bool inPlace =
      plan_.bufferFor(arg) >= 0 && onlyFeeds(arg, dot) && !reads(dot.operands[2], plan_.bufferFor(arg), true);
  return inPlace ? arg : nullptr;
}

// A load that needs no buffer, perhaps under view operations.
bool Planner::isLoadOfMemory(const Value *v) const {
  for (; v->def && plan_.bufferFor(v) < 0; v = v->def->operands[0]) {
    if (v->def->kind == OpKind::Load)
      return !v->def->isVolatile() && !v->type.isPtr;
    if (!v->def->has(ir::traits::Shape) || v->def->operands.size() != 1 || v->def->kind == OpKind::Split)
      return false;
  }
  return false;
}

DotPlan Planner::planOf(const Op &dot) const {
  const ir::Shape &as = dot.operands[0]->type.shape, &cs = dot.results[0]->type.shape;
  unsigned r = cs.rank();
  return dotPlan(target_, dot.operands[0]->type.elem, dot.operands[1]->type.elem, dot.results[0]->type.elem, cs[r - 2],
                 cs[r - 1], as[r - 1], dot.precision(),
                 dot.operands[1]->type.elem == ir::Elem::I8 && signIsZero(dot.operands[1]));
}

// An operand of a dot as it is packed: rows and columns of each of its matrices are as far apart as strideOf() says,
// matrices `elems` elements.
Buffer Planner::packedBuffer(const Op &dot, const Value *v, ir::Elem elem, int64_t elems,
                             llvm::function_ref<int64_t(bool row, int64_t)> strideOf) const {
  const ir::Shape &shape = v->type.shape;
  unsigned r = shape.rank(), low = dimBits(shape, r - 1), high = dimBits(shape, r - 2);
  Buffer b;
  b.element = ir::Type::scalar(elem);
  b.elems = elems * (shape.numel() / (shape[r - 2] * shape[r - 1]));
  b.tf32 = dot.precision() == "tf32" && v->type.elem == ir::Elem::F32;
  for (unsigned i = 0; i < bitCount(shape); ++i)
    b.stride.push_back(i < low          ? strideOf(false, int64_t(1) << i)
                       : i < low + high ? strideOf(true, int64_t(1) << (i - low))
                                        : elems << (i - low - high));
  return b;
}

Buffer Planner::packedLeft(const Op &dot, const DotPlan &p) const {
  int64_t elems = (p.aElems + 63) / 64 * 64; // rows of A stay 64-byte aligned from batch to batch
  return packedBuffer(dot, dot.operands[0], p.aElem, elems,
                      [&](bool row, int64_t i) { return i * (row ? p.aRowStride : p.aDepthStride); });
}

void Planner::dot(const Op &op) {
  const ir::Shape &cs = op.results[0]->type.shape;
  unsigned r = cs.rank();
  int64_t batch = cs.numel() / (cs[r - 2] * cs[r - 1]);
  DotPlan p = planOf(op);
  if (batch == 1)
    packByPanel(target_, p);
  if (batch == 1 && plan_.bufferFor(op.operands[0]) < 0 && columnsLieTogether(op.operands[0]))
    takeColumns(p);
  const Value *carried = p.accElem == op.results[0]->type.elem ? accumulatesInto(op) : nullptr;
  int c = carried ? plan_.bufferFor(carried) : newBuffer(ir::Type::scalar(p.accElem), cs);
  plan_.bufferOf[op.results[0]] = c;
  const Value *acc = op.operands[2];
  bool zero = acc->def && acc->def->kind == OpKind::Const &&
              (acc->type.isIntLike() ? acc->def->intValue() == 0 : acc->def->floatValue() == 0);
  if (carried)
    flushReadersOf(c);
  if (!zero && acc != carried)
    materialize(acc, c);
  auto pack = [&](const Value *v, Buffer buffer) {
    plan_.buffers.push_back(std::move(buffer));
    int b = static_cast<int>(plan_.buffers.size() - 1);
    flush();
    materialize(v, b);
    return b;
  };
  // In its own buffer's layout, or packed.
  auto left = [&](Buffer buffer) {
    int own = plan_.bufferFor(op.operands[0]);
    if (own >= 0) {
      const Buffer &b = plan_.buffers[static_cast<size_t>(own)];
      if (b.element == buffer.element && b.stride == buffer.stride && b.tf32 == buffer.tf32) {
        flush();
        return own;
      }
    }
    return pack(op.operands[0], std::move(buffer));
  };
  int a = left(packedLeft(op, p));
  auto takePending = [&] {
    assert(late_.empty() && "a nest that packs makes no scalars");
    pendingResults_.clear();
    return std::move(pending_);
  };
  std::unique_ptr<Nest> aNest, panel;
  const bool copied = op.operands[0]->type.elem == p.aElem && isLoadOfMemory(op.operands[0]),
             inMemory = copied && !plan_.buffers[static_cast<size_t>(a)].tf32;
  if (pending_ && batch == 1 && copied && (inMemory || p.byPanel))
    aNest = takePending();
  auto strideOfB = [&](bool row, int64_t i) -> int64_t {
    if (p.byPanel && i >= (row ? p.kBlock : p.nr)) // the next panel overwrites this one
      return 0;
    return row ? packedBOffset(p, i, 0) : packedBOffset(p, 0, i);
  };
  Buffer right = packedBuffer(op, op.operands[1], p.bElem, (p.bElems + 63) / 64 * 64, strideOfB);
  right.biased = p.bBiased;
  int b = pack(op.operands[1], std::move(right));
  if (p.byPanel) {
    panel = takePending();
    panel->panelColumnBits = log2Exact(p.nr);
    panel->panelDepthBits = log2Exact(p.kBlock);
  }
  flush();
  Step &s = step(StepKind::Dot, &op);
  s.nest = std::move(panel);
  s.left = std::move(aNest), s.leftInMemory = inMemory;
  s.bufferA = a;
  s.bufferB = b;
  s.bufferC = c;
  s.accumulate = !zero;
  s.dot = p;
  if (p.byPanel)
    s.part = partOf(op, uses_);
  s.batch = batch;
}

} // namespace tegula::cpu
