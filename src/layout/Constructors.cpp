// Layouts of threads over tensors, shape operations, and layouts of shared memory.
#include "layout/Constructors.h"
#include <algorithm>

namespace tegula::layout {

/// All of these inputs present, in this order.
static LinearLayout withInputs(const LinearLayout &l, std::initializer_list<Dim> order) {
  LinearLayout r = l;
  std::vector<Dim> names(order);
  for (Dim d : order)
    r = r.growIn(d, 0);
  for (DimBits d : l.ins())
    if (std::find(names.begin(), names.end(), d.dim) == names.end())
      names.push_back(d.dim);
  return r.transposeIns(names);
}

static LinearLayout withOutputs(const LinearLayout &l, const Extents &shape) {
  LinearLayout r = l;
  std::vector<Dim> names;
  for (unsigned i = shape.rank(); i-- > 0;) {
    r = r.growOut(tensorDim(i), 0);
    names.push_back(tensorDim(i));
  }
  return r.transposeOuts(names);
}

LinearLayout overBlocks(const LinearLayout &perCta, const Extents &split, const Extents &order, unsigned copies) {
  LinearLayout r = perCta;
  for (int64_t axis : order)
    r *= LinearLayout::identity(split[static_cast<unsigned>(axis)], Dim::Block, tensorDim(static_cast<unsigned>(axis)));
  return r.growIn(Dim::Block, r.inBits(Dim::Block) + log2Exact(copies));
}

/// Axes renumbered: axis i becomes rename(i); outputs stay in the canonical order.
template <typename F> static LinearLayout renumber(const LinearLayout &l, const Extents &shape, F rename) {
  DimList named;
  for (DimBits d : l.outs())
    named.push({tensorDim(rename(axisOf(d.dim))), d.bits});
  return withOutputs(l.reshapeOuts(named), shape);
}

LinearLayout slice(const LinearLayout &parent, unsigned axis) {
  Extents shape = shapeOf(parent), rest;
  for (unsigned i = 0; i < shape.rank(); ++i)
    if (i != axis)
      rest.push(shape[i]);
  LinearLayout r = renumber(parent.removeOut(tensorDim(axis)), rest, [&](unsigned i) { return i > axis ? i - 1 : i; });
  return r.removeZeroBases(Dim::Register);
}

LinearLayout expandDims(const LinearLayout &operand, unsigned axis) {
  Extents shape = shapeOf(operand), wide;
  for (unsigned i = 0; i <= shape.rank(); ++i)
    wide.push(i == axis ? 1 : shape[i - (i > axis)]);
  return renumber(operand, wide, [&](unsigned i) { return i >= axis ? i + 1 : i; });
}

LinearLayout cut(const LinearLayout &operand, const Extents &shape) {
  DimList outs = tensorDims(shape);
  std::vector<uint64_t> bases;
  for (uint64_t b : operand.bases()) {
    uint64_t v = 0;
    for (DimBits d : outs)
      v |= outs.flat(d.dim, operand.outs().part(b, d.dim) & (static_cast<uint64_t>(d.size()) - 1));
    bases.push_back(v);
  }
  return LinearLayout(operand.ins(), outs, bases).removeZeroBases(Dim::Register);
}

LinearLayout permute(const LinearLayout &operand, const Extents &perm) {
  Extents shape = shapeOf(operand), to = shape;
  std::array<unsigned, kMaxRank> where{};
  for (unsigned i = 0; i < perm.rank(); ++i) {
    to[i] = shape[static_cast<unsigned>(perm[i])];
    where[static_cast<size_t>(perm[i])] = i;
  }
  return renumber(operand, to, [&](unsigned i) { return where[i]; });
}

LinearLayout reshape(const LinearLayout &operand, const Extents &shape) {
  return operand.reshapeOuts(tensorDims(shape));
}

LinearLayout join(const LinearLayout &operand) {
  Dim last = tensorDim(shapeOf(operand).rank());
  LinearLayout pair = LinearLayout::identity(2, Dim::Register, last);
  LinearLayout r = withInputs(pair * operand, {Dim::Register, Dim::Lane, Dim::Warp});
  return withOutputs(r, shapeOf(r));
}

LinearLayout joinOverThreads(const LinearLayout &operand) {
  LinearLayout j = join(operand);
  std::vector<uint64_t> bases(j.bases().begin(), j.bases().end());
  auto firstThread = bases.begin() + j.inBits(Dim::Register),
       end = firstThread + j.inBits(Dim::Lane) + j.inBits(Dim::Warp);
  auto copies = std::find(firstThread, end, 0u);
  if (copies == end)
    return j;
  std::swap(bases[0], *copies);
  return LinearLayout(j.ins(), j.outs(), bases).removeZeroBases(Dim::Register);
}

LinearLayout repeat(const LinearLayout &operand, unsigned axis, int64_t times) {
  LinearLayout r = operand;
  Extents shape = shapeOf(operand), perm;
  const unsigned rank = shape.rank(), bits = log2Exact(times);
  for (unsigned i = 0; i < bits; ++i)
    r = joinOverThreads(r);
  for (unsigned i = 0; i < rank + bits; ++i)
    perm.push(i <= axis ? i : i <= axis + bits ? rank + i - axis - 1 : i - bits);
  shape[axis] *= times;
  return reshape(permute(r, perm), shape);
}

LinearLayout splittable(const LinearLayout &operand) {
  unsigned last = shapeOf(operand).rank() - 1;
  const uint64_t pair = operand.outs().mask(tensorDim(last));
  auto registers = operand.bases(Dim::Register);
  if (std::find(registers.begin(), registers.end(), pair) != registers.end())
    return operand;
  // The two threads of a pair swap half of their registers, so that none holds copies.
  LinearLayout r = withInputs(operand, {Dim::Register, Dim::Lane, Dim::Warp});
  std::vector<uint64_t> bases(r.bases().begin(), r.bases().end());
  auto endOfRegisters = bases.begin() + r.inBits(Dim::Register),
       end = endOfRegisters + r.inBits(Dim::Lane) + r.inBits(Dim::Warp);
  auto thread = std::find(endOfRegisters, end, pair);
  if (thread == end || registers.empty() || registers.back() == 0)
    return join(slice(operand, last));
  std::iter_swap(endOfRegisters - 1, thread);
  std::rotate(bases.begin(), endOfRegisters - 1, endOfRegisters);
  return LinearLayout(r.ins(), r.outs(), bases);
}

LinearLayout concatenate(const LinearLayout &operand, unsigned axis) {
  return operand * LinearLayout::identity(2, Dim::Register, tensorDim(axis));
}

LinearLayout gather(const LinearLayout &operand, int64_t n) {
  return expandDims(operand, 0) * LinearLayout::identity(n, Dim::Register, Dim::Dim0);
}

LinearLayout sharedLinear(const Extents &shape, const Extents &order) {
  LinearLayout r;
  for (int64_t axis : order) {
    unsigned a = static_cast<unsigned>(axis);
    r *= LinearLayout::identity(shape[a], Dim::Offset, tensorDim(a));
  }
  return withOutputs(withInputs(r, {Dim::Offset}), shape);
}

LinearLayout sharedByThreads(const LinearLayout &registers) {
  Subspace seen;
  std::vector<uint64_t> offsets;
  for (Dim d : {Dim::Register, Dim::Lane, Dim::Warp})
    for (uint64_t b : registers.bases(d))
      if (b && seen.insert(b, 0))
        offsets.push_back(b);
  return {{{Dim::Offset, static_cast<uint8_t>(offsets.size())}}, registers.outs(), offsets};
}

/// log2 of the pieces of that many elements that a row of 128 bytes has: so many bits of an address tell the banks.
static unsigned pieceBits(int64_t vec, unsigned elemBits) { return log2Exact(1024 / elemBits / vec); }

LinearLayout sharedRows(const LinearLayout &registers, unsigned axis, int64_t vec, unsigned elemBits) {
  const std::span<const uint64_t> lanes = registers.bases(Dim::Lane);
  return sharedRows(shapeOf(registers), lanes.first(std::min<size_t>(lanes.size(), pieceBits(vec, elemBits))), axis,
                    vec, elemBits);
}

LinearLayout sharedRows(const Extents &shape, std::span<const uint64_t> together, unsigned axis, int64_t vec,
                        unsigned elemBits) {
  const unsigned other = 1 - axis;
  const DimList outs = tensorDims(shape);
  auto step = [&](unsigned a, int64_t n) { return outs.flat(tensorDim(a), static_cast<uint64_t>(n)); };
  const int64_t row = std::min<int64_t>(shape[axis], 1024 / elemBits);
  auto isTogether = [&](uint64_t base) { return std::find(together.begin(), together.end(), base) != together.end(); };
  std::vector<uint64_t> offsets, pieces;
  for (int64_t n = 1; n < row; n *= 2) {
    offsets.push_back(step(axis, n));
    if (n >= vec && !isTogether(offsets.back()))
      pieces.push_back(offsets.back());
  }
  for (int64_t n = 1; n < shape[other]; n *= 2) {
    uint64_t base = step(other, n);
    if (isTogether(base) && !pieces.empty()) {
      base |= pieces.front();
      pieces.erase(pieces.begin());
    }
    offsets.push_back(base);
  }
  for (int64_t n = row; n < shape[axis]; n *= 2)
    offsets.push_back(step(axis, n));
  return {{{Dim::Offset, static_cast<uint8_t>(offsets.size())}}, outs, offsets};
}

std::optional<SwizzleMode> widestSwizzle(int64_t contiguousBytes) {
  for (SwizzleMode m : {SwizzleMode::B128, SwizzleMode::B64, SwizzleMode::B32, SwizzleMode::None})
    if (contiguousBytes >= static_cast<int64_t>(m))
      return m;
  return std::nullopt;
}

LinearLayout sharedSwizzled(const Extents &shape, const Extents &order, unsigned elemBits, SwizzleMode mode) {
  int64_t width = static_cast<int64_t>(mode), elemBytes = elemBits / 8;
  unsigned inner = static_cast<unsigned>(order[0]),
           rows = order.rank() > 1 ? static_cast<unsigned>(order[1]) : kMaxRank;
  assert(shape[inner] * elemBytes >= width && "use a narrower swizzle");
  // The coordinates of each bit of the linear address, without swizzle.
  LinearLayout plain = LinearLayout::identity(width / elemBytes, Dim::Offset, tensorDim(inner));
  if (rows != kMaxRank)
    plain *= LinearLayout::identity(shape[rows], Dim::Offset, tensorDim(rows));
  plain *= LinearLayout::identity(shape[inner] * elemBytes / width, Dim::Offset, tensorDim(inner));
  for (unsigned i = 2; i < order.rank(); ++i)
    plain *= LinearLayout::identity(shape[static_cast<unsigned>(order[i])], Dim::Offset,
                                    tensorDim(static_cast<unsigned>(order[i])));
  plain = withOutputs(plain, shape);
  // The swizzle is its own inverse: the byte at address a is the one that lay at swizzle(a).
  unsigned shift = log2Exact(elemBytes);
  uint64_t mask = static_cast<uint64_t>(width) / 16 - 1;
  std::vector<uint64_t> bases;
  for (unsigned i = 0; i < plain.totalInBits(); ++i) {
    uint64_t address = uint64_t{1} << (i + shift);
    uint64_t lin = address ^ (((address >> 7) & mask) << 4);
    bases.push_back(plain.apply(lin >> shift));
  }
  return LinearLayout(plain.ins(), plain.outs(), bases);
}

} // namespace tegula::layout
