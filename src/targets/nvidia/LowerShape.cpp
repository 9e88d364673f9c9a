// Operations that rename coordinates (free: registers are picked), and conversions between layouts.
#include "targets/nvidia/Lower.h"
#include <unordered_map>

namespace tegula::nvidia {

using ir::OpKind;
using layout::Dim;

/// The thread parts of both layouts agree, so the element of a register is found by the register's own image.
Regs Lowering::pick(const Regs &have, const LinearLayout &l, unsigned count, const std::function<uint64_t(unsigned)> &flatOf) {
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
  const LinearLayout &result = layoutOf(op.result()), &operand = layoutOf(from);
  // The element of the operand that element `flat` of the result is; linear, so images of registers map like elements.
  auto project = [&](uint64_t flat) {
    std::vector<uint64_t> coords;
    const layout::DimList &outs = result.outs();
    for (unsigned k = 0; k < op.result()->type.shape.rank(); ++k)
      coords.push_back(outs.part(flat, layout::tensorDim(k)));
    const ir::Shape &s = from->type.shape;
    if (op.kind == OpKind::ExpandDims)
      coords.erase(coords.begin() + op.intAttr("axis"));
    if (op.kind == OpKind::Permute) {
      std::vector<uint64_t> source(coords.size());
      for (size_t k = 0; k < coords.size(); ++k)
        source[static_cast<size_t>(op.listAttr("perm")[k])] = coords[k];
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
  auto axis = static_cast<unsigned>(op.intAttr("axis"));
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
  for (unsigned r = 0; r < n; ++r)
    out.push_back(parts[sourceOf(r).part][r]);
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
    set(r, pick(get(op.operands[0]), whole, registersOf(r->type), [&](unsigned i) { return half.apply(i) * 2 + part; }));
  }
}

/// Rows of `count` registers that hold neighbours in row-major order, and start aligned.
static unsigned neighbours(const LinearLayout &l, unsigned bytes) {
  unsigned n = 1;
  for (unsigned i = 0; i < l.inBits(Dim::Register) && l.basis(Dim::Register, i) == n && 2 * n * bytes <= 16; ++i)
    n *= 2;
  // No other bit may reach into the run.
  for (const layout::DimBits &in : l.ins())
    for (unsigned i = 0; i < in.bits; ++i)
      if (uint64_t b = l.basis(in.dim, i); (b & (n - 1)) && !(in.dim == Dim::Register && b < n))
        return 1;
  return n;
}

llvm::SmallVector<Regs, 2> Lowering::exchange(llvm::ArrayRef<Regs> tensors, llvm::ArrayRef<ir::Type> types, uint16_t to) {
  llvm::SmallVector<Regs, 2> out;
  for (size_t k = 0; k < tensors.size(); ++k) {
    const ir::Type &t = types[k];
    const Regs &regs = tensors[k];
    unsigned bytes = t.isPtr ? 8 : ir::byteWidth(t.elem);
    const LinearLayout &from = m_.layouts[t.layout - 1u], &dest = m_.layouts[to - 1u];
    llvm::Type *memory = b_.getIntNTy(8 * bytes);
    auto vectorOf = [&](unsigned n) { return n == 1 ? memory : static_cast<llvm::Type *>(llvm::FixedVectorType::get(memory, n)); };
    V owns = ownsElements(t.layout);
    unsigned free = from.freeMask(Dim::Register), n = neighbours(from, bytes);
    for (unsigned r = 0; r < regs.size(); r += n) {
      if (r & free)
        continue;
      V packed = n == 1 ? toMemory(bitsOf(regs[r])) : llvm::PoisonValue::get(vectorOf(n));
      for (unsigned i = 0; n > 1 && i < n; ++i)
        packed = b_.CreateInsertElement(packed, toMemory(bitsOf(regs[r + i])), i);
      in_->storeShared(sharedAt(shared_, flatIndex(t.layout, r), bytes), packed, owns);
    }
    in_->barrier();
    Regs now;
    unsigned count = 1u << dest.inBits(Dim::Register);
    n = neighbours(dest, bytes);
    llvm::Type *reg = regType(t);
    for (unsigned r = 0; r < count; r += n) {
      V packed = in_->loadShared(sharedAt(shared_, flatIndex(to, r), bytes), vectorOf(n));
      for (unsigned i = 0; i < n; ++i) {
        V x = n == 1 ? packed : b_.CreateExtractElement(packed, i);
        now.push_back(!t.isPtr && t.elem == ir::Elem::I1 ? fromMemory(x, t) : fromBits(x, reg));
      }
    }
    out.push_back(std::move(now));
    if (k + 1 < tensors.size())
      in_->barrier();
  }
  return out;
}

void Lowering::convert(const Op &op) {
  const Value *from = op.operands[0];
  const ir::Type &t = op.result()->type;
  const LinearLayout &source = layoutOf(from), &dest = layoutOf(op.result());
  auto samePart = [&](Dim d) { return std::equal(source.bases(d).begin(), source.bases(d).end(), dest.bases(d).begin(), dest.bases(d).end()); };
  if (samePart(Dim::Lane) && samePart(Dim::Warp))
    return set(op.result(), pick(get(from), source, registersOf(t), [&](unsigned r) { return dest.apply(r); }));
  scratch(op, static_cast<uint64_t>(t.numel()) * (t.isPtr ? 8 : ir::byteWidth(t.elem)));
  set(op.result(), std::move(exchange({get(from)}, {from->type}, t.layout)[0]));
  // Other threads may still read: whoever uses the scratch next has to wait (scratchUsed_ stays set).
}

} // namespace tegula::nvidia
namespace tegula::nvidia {
void Lowering::storeShared(const LinearLayout &memory, V base, const Regs &regs, const ir::Type &t) {
  const LinearLayout &l = m_.layoutOf(t);
  LinearLayout inverse = memory.invert();
  unsigned bytes = ir::byteWidth(t.elem);
  uint64_t mask;
  V thread = gatherBits(l, [&](uint64_t flat) { return inverse.apply(flat); }, mask);
  for (unsigned r = 0; r < regs.size(); ++r)
    in_->storeShared(sharedAt(base, combineIndex(thread, mask, inverse.apply(l.apply(r))), bytes), toMemory(regs[r]), ownsElements(t.layout));
}
}
