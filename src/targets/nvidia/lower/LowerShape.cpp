// Operations that rename coordinates: free, as registers are picked.
#include "targets/nvidia/lower/Lower.h"
#include <unordered_map>

namespace tegula::nvidia {

using ir::OpKind;
using layout::Dim;

/// The thread parts of both layouts agree, so the element of a register is found by the register's own image.
Regs Lowering::pick(const Regs &have, const LinearLayout &l, unsigned count,
                    const std::function<uint64_t(unsigned)> &flatOf) {
  std::unordered_map<uint64_t, unsigned> at;
  for (unsigned r = 0; r < have.size(); ++r)
    at.try_emplace(l.apply(r), r);
  Regs out;
  for (unsigned r = 0; r < count; ++r) {
    auto it = at.find(flatOf(r));
    assert(it != at.end() && "element is not in this thread");
    out.push_back(have[it->second]);
  }
  return out;
}

Regs Lowering::renamed(const Op &op) {
  const Value *from = op.operands[0];
  if (from->type.isShared) // another name for the same bytes
    return get(from);
  const LinearLayout &result = layoutOf(op.result()), &operand = layoutOf(from);
  // The element of the operand that element `flat` of the result is; linear, so images of registers map like elements.
  auto project = [&](uint64_t flat) {
    std::vector<uint64_t> coords;
    const layout::DimList &outs = result.outs();
    for (unsigned k = 0; k < op.result()->type.shape.rank(); ++k)
      coords.push_back(outs.part(flat, layout::tensorDim(k)));
    const ir::Shape &s = from->type.shape;
    if (op.kind == OpKind::ExpandDims)
      coords.erase(coords.begin() + op.axis());
    if (op.kind == OpKind::Permute) {
      std::vector<uint64_t> source(coords.size());
      for (size_t k = 0; k < coords.size(); ++k)
        source[static_cast<size_t>(op.perm()[k])] = coords[k];
      coords = std::move(source);
    }
    uint64_t index = 0;
    for (unsigned k = 0; k < s.rank(); ++k)
      index = index * static_cast<uint64_t>(s[k]) + (s[k] == 1 ? 0 : coords[k]);
    return index;
  };
  unsigned n = registersOf(op.result()->type);
  if (op.kind == OpKind::Reshape)
    return pick(get(from), operand, n, [&](unsigned r) { return result.apply(r); });
  return pick(get(from), operand, n, [&](unsigned r) { return project(result.apply(r)); });
}

Regs Lowering::joined(const Op &op) {
  const ir::Type &t = op.result()->type;
  const LinearLayout &result = layoutOf(op.result()), &half = layoutOf(op.operands[0]);
  // Element `flat` of the result is element `index` of operand `part`.
  struct Source {
    uint64_t index, part;
  };
  auto axis = static_cast<unsigned>(op.axis());
  uint64_t inner = 1, extent = 1;
  if (op.kind == OpKind::Cat) {
    extent = static_cast<uint64_t>(op.operands[0]->type.shape[axis]);
    for (unsigned k = axis + 1; k < t.shape.rank(); ++k)
      inner *= static_cast<uint64_t>(t.shape[k]);
  }
  auto sourceOf = [&](unsigned r) -> Source {
    uint64_t flat = result.apply(r);
    if (op.kind == OpKind::Join)
      return {flat >> 1, flat & 1};
    uint64_t outer = flat / (inner * extent * 2), along = flat / inner % (extent * 2);
    return {(outer * extent + along % extent) * inner + flat % inner, along >= extent};
  };
  unsigned n = registersOf(t);
  Regs parts[2], out;
  for (unsigned part = 0; part < 2; ++part)
    parts[part] = pick(get(op.operands[part]), half, n, [&](unsigned r) { return sourceOf(r).index; });
  // Where the parts lie in different threads (layout::joinOverThreads), each has copies of both and takes its own.
  layout::ThreadBit second;
  auto oddBits = [&](Dim d) {
    uint32_t bits = 0;
    for (unsigned i = 0; i < result.inBits(d); ++i)
      bits |= static_cast<uint32_t>(result.basis(d, i) & 1) << i;
    return bits;
  };
  if (op.kind == OpKind::Join)
    second = {oddBits(Dim::Lane), oddBits(Dim::Warp), 0};
  V isSecond = second.lane || second.warp ? threadBit(second) : nullptr;
  for (unsigned r = 0; r < n; ++r) {
    unsigned part = sourceOf(r).part;
    out.push_back(isSecond ? b_.CreateSelect(isSecond, parts[part ^ 1][r], parts[part][r]) : parts[part][r]);
  }
  return out;
}

void Lowering::split(const Op &op) {
  const LinearLayout &whole = layoutOf(op.operands[0]);
  for (unsigned part = 0; part < 2; ++part) {
    const Value *r = op.results[part];
    if (r->type.isScalar()) {
      set(r, pick(get(op.operands[0]), whole, 1, [&](unsigned) { return part; }));
      continue;
    }
    const LinearLayout &half = layoutOf(r);
    set(r,
        pick(get(op.operands[0]), whole, registersOf(r->type), [&](unsigned i) { return half.apply(i) * 2 + part; }));
  }
}

} // namespace tegula::nvidia
