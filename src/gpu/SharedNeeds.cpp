// See SharedNeeds.h.
#include "gpu/SharedNeeds.h"
#include "gpu/SharedMemory.h"
#include "gpu/Tiles.h"
#include "layout/Conversion.h"

namespace tegula::gpu {

using namespace ir;

bool makesTiles(const Op &op) { return op.kind == OpKind::SharedAlloc || op.kind == OpKind::ToShared || op.kind == OpKind::BarrierAlloc; }

bool takesScratch(const Op &op) {
  switch (op.kind) {
  case OpKind::Reduce:
  case OpKind::Scan:
  case OpKind::Gather:
  case OpKind::Histogram:
  case OpKind::ToShared:
  case OpKind::Convert:
  case OpKind::AtomicRmw:
  case OpKind::AtomicCas:
  case OpKind::AsmEffect:
    return true;
  default:
    return false;
  }
}

const Op *descLoadOf(const Op &operand) {
  const Op *from = operand.operands[0]->def;
  while (from && (from->kind == OpKind::Permute || from->kind == OpKind::Reshape))
    from = from->operands[0]->def;
  return from && from->kind == OpKind::DescLoad ? from : nullptr;
}

uint64_t tileBytes(const Op &op) {
  bool isOwn = op.kind == OpKind::DescLoad || (op.kind == OpKind::ToShared && !descLoadOf(op));
  return isOwn ? slotBytes(op.result()->type) + SharedMemory::tileAlign : 0;
}

/// Each warp along the axis leaves its part of every result (Lowering::reduceWarps).
static uint64_t reductionBytes(const Module &m, const Op &op) {
  const Type &t = op.operands[0]->type;
  const layout::LinearLayout &l = m.layoutOf(t);
  auto axis = static_cast<unsigned>(op.intAttr("axis"));
  uint64_t parts = static_cast<uint64_t>(t.numel() / t.shape[axis]), bytes = 0;
  bool isBetweenWarps = false;
  for (unsigned i = 0; i < l.inBits(layout::Dim::Warp); ++i)
    if (l.basis(layout::Dim::Warp, i, layout::tensorDim(axis))) {
      parts *= 2;
      isBetweenWarps = true;
    }
  for (const Value *v : op.operands)
    bytes += (parts * (v->type.isPtr ? 8 : byteWidth(v->type.elem)) + 15) / 16 * 16;
  return isBetweenWarps ? bytes : 0;
}

std::optional<uint64_t> scratchOf(const Module &m, const Op &op, uint64_t most) {
  switch (op.kind) {
  case OpKind::Convert: {
    const Type &from = op.operands[0]->type, &to = op.result()->type;
    layout::ConversionOptions options;
    options.maxBytes = static_cast<unsigned>(most);
    return layout::planConversion(m.layoutOf(from), m.layoutOf(to), from.isPtr ? 64 : 8 * byteWidth(from.elem), options).cost.bytes;
  }
  case OpKind::Reduce:
    return reductionBytes(m, op);
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

} // namespace tegula::gpu
