// See Layouts.h.
#include "gpu/Layouts.h"
#include "layout/Constructors.h"
#include <algorithm>

namespace tegula::gpu {

using ir::OpKind;
using layout::Dim;

LinearLayout operandLayout(const ir::Op &op, const LinearLayout &result) {
  const ir::Shape &to = op.operands[0]->type.shape;
  switch (op.kind) {
  case OpKind::ExpandDims: return layout::slice(result, static_cast<unsigned>(op.axis()));
  case OpKind::Broadcast: return layout::cut(result, to);
  case OpKind::Permute: {
    std::span<const int64_t> perm = op.perm();
    layout::Extents back = perm;
    for (unsigned k = 0; k < perm.size(); ++k)
      back[static_cast<unsigned>(perm[k])] = k;
    return layout::permute(result, back);
  }
  default: assert(op.kind == OpKind::Reshape); return layout::reshape(result, to);
  }
}

LinearLayout resultLayout(const ir::Op &op, const LinearLayout &operand) {
  switch (op.kind) {
  case OpKind::ExpandDims: return layout::expandDims(operand, static_cast<unsigned>(op.axis()));
  case OpKind::Permute: return layout::permute(operand, op.perm());
  default: assert(op.kind == OpKind::Reshape); return layout::reshape(operand, op.result()->type.shape);
  }
}

Partner partnerOf(const LinearLayout &l, const ir::Op &exchange) {
  uint64_t step = l.outs().flat(layout::tensorDim(static_cast<unsigned>(exchange.axis())),
                                static_cast<uint64_t>(exchange.distance()));
  uint64_t at = l.pseudoInvert().apply(step);
  return {l.ins().part(at, Dim::Register), l.ins().part(at, Dim::Lane), l.ins().part(at, Dim::Warp)};
}

bool axesAreSeparate(const LinearLayout &l) {
  for (const layout::DimBits &in : l.ins())
    for (uint64_t b : l.bases(in.dim)) {
      unsigned touched = 0;
      for (const layout::DimBits &out : l.outs())
        touched += l.outs().part(b, out.dim) != 0;
      if (touched > 1)
        return false;
    }
  return true;
}

bool crossesThreads(const ir::Module &m, const ir::Op &op) {
  const LinearLayout &l = m.layoutOf(op.operands[0]->type);
  return !l.sublayoutIsZero({Dim::Lane, Dim::Warp}, {layout::tensorDim(static_cast<unsigned>(op.axis()))});
}

bool keepsVectors(const LinearLayout &tile, const LinearLayout &registers, int64_t n) {
  std::span<const uint64_t> offsets = tile.bases(Dim::Offset), own = registers.bases(Dim::Register);
  size_t bits = layout::log2Exact(n);
  return bits <= offsets.size() && bits <= own.size() &&
         std::equal(own.begin(), own.begin() + static_cast<long>(bits), offsets.begin());
}

int64_t storedInPlace(const LinearLayout &home, const LinearLayout &coalesced, int64_t vec, int64_t bytes) {
  constexpr int64_t leastBytes = 8, lineBytes = 128;
  unsigned registers = coalesced.inBits(layout::Dim::Register), n = 0;
  if (home.inBits(layout::Dim::Register) != registers)
    return 0;
  while (n < registers && int64_t{1} << n < vec &&
         home.basis(layout::Dim::Register, n) == coalesced.basis(layout::Dim::Register, n))
    ++n;
  if ((bytes << n) < leastBytes)
    return 0;
  // The bits of consecutive addresses, the lowest first: those of the registers of the coalesced layout, then those of
  // its lanes.
  unsigned first = static_cast<unsigned>(layout::log2Exact(vec)), lanes = coalesced.inBits(layout::Dim::Lane);
  for (unsigned lane = 0, at = n; lane < lanes && (bytes << at) < lineBytes; ++lane, ++at) {
    uint64_t next =
        at < first ? coalesced.basis(layout::Dim::Register, at) : coalesced.basis(layout::Dim::Lane, at - first);
    if (next == 0)
      break;
    if (home.basis(layout::Dim::Lane, lane) != next)
      return 0;
  }
  return int64_t{1} << n;
}

} // namespace tegula::gpu
