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

LinearLayout fit(const LinearLayout &pattern, const Extents &shape, const Extents &order) {
  LinearLayout wide = withOutputs(withInputs(pattern, {Dim::Register, Dim::Lane, Dim::Warp}), shape);
  // Cut: keep of each coordinate what lies inside the shape.
  DimList outs = tensorDims(shape), cut;
  for (DimBits d : wide.outs())
    cut.push({d.dim, static_cast<uint8_t>(std::min<unsigned>(d.bits, outs.bits(d.dim)))});
  std::vector<uint64_t> bases;
  for (uint64_t b : wide.bases()) {
    uint64_t v = 0;
    for (DimBits d : cut)
      v |= cut.flat(d.dim, wide.outs().part(b, d.dim) & (static_cast<uint64_t>(d.size()) - 1));
    bases.push_back(v);
  }
  LinearLayout r(wide.ins(), cut, bases);
  // Repeat in registers. Coordinates that the pattern does not reach stay the affair of the pattern.
  for (int64_t axis : order) {
    Dim d = tensorDim(static_cast<unsigned>(axis));
    r *= LinearLayout::identity(int64_t{1} << (outs.bits(d) - cut.bits(d)), Dim::Register, d);
  }
  return r;
}

LinearLayout blocked(const Extents &shape, const Extents &sizePerThread, const Extents &threadsPerWarp,
                     const Extents &warpsPerCta, const Extents &order) {
  LinearLayout r;
  auto spread = [&](const Extents &sizes, Dim in) {
    for (int64_t axis : order) {
      unsigned a = static_cast<unsigned>(axis);
      r *= LinearLayout::identity(in == Dim::Register ? std::min(sizes[a], shape[a]) : sizes[a], in, tensorDim(a));
    }
  };
  spread(sizePerThread, Dim::Register);
  spread(threadsPerWarp, Dim::Lane);
  spread(warpsPerCta, Dim::Warp);
  return fit(r, shape, order);
}

LinearLayout blockedFor(const Extents &shape, unsigned vector, unsigned numWarps, const Extents &order) {
  unsigned rank = shape.rank();
  Extents perThread = Extents::filled(rank, 1), lanes = perThread, warps = perThread;
  if (rank == 0)
    return LinearLayout().growIn(Dim::Register, 0).growIn(Dim::Lane, 5).growIn(Dim::Warp, log2Exact(numWarps));
  unsigned inner = static_cast<unsigned>(order[0]);
  perThread[inner] = std::min<int64_t>(vector, shape[inner]);
  int64_t lanesLeft = 32, warpsLeft = numWarps;
  for (unsigned i = 0; i < rank; ++i) {
    unsigned a = static_cast<unsigned>(order[i]);
    int64_t room = shape[a] / perThread[a];
    lanes[a] = std::min(lanesLeft, room);
    lanesLeft /= lanes[a];
    warps[a] = std::min(warpsLeft, room / lanes[a]);
    warpsLeft /= warps[a];
  }
  // What finds no room holds copies: the last axis in the order takes it and fit() cuts it off.
  unsigned outer = static_cast<unsigned>(order[rank - 1]);
  lanes[outer] *= lanesLeft;
  warps[outer] *= warpsLeft;
  return blocked(shape, perThread, lanes, warps, order);
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
  LinearLayout flat = parent.removeOut(tensorDim(axis));
  LinearLayout r = renumber(flat, rest, [&](unsigned i) { return i > axis ? i - 1 : i; });
  return r.selectIn(Dim::Register, ~uint64_t{r.freeMask(Dim::Register)});
}

LinearLayout expandDims(const LinearLayout &operand, unsigned axis) {
  Extents shape = shapeOf(operand), wide;
  for (unsigned i = 0; i <= shape.rank(); ++i)
    wide.push(i == axis ? 1 : shape[i - (i > axis)]);
  return renumber(operand, wide, [&](unsigned i) { return i >= axis ? i + 1 : i; });
}

LinearLayout broadcast(const LinearLayout &operand, const Extents &shape, bool useCopies) {
  DimList outs = tensorDims(shape);
  std::vector<uint64_t> bases;
  for (uint64_t b : operand.bases())
    bases.push_back(operand.outs().regroup(b, outs));
  // The new bits, inner axis first, go to lanes and warps that hold copies only.
  std::vector<uint64_t> todo;
  for (DimBits d : outs) {
    assert(operand.outBits(d.dim) == d.bits || operand.outBits(d.dim) == 0);
    for (unsigned i = operand.outBits(d.dim); i < d.bits; ++i)
      todo.push_back(outs.flat(d.dim, uint64_t{1} << i));
  }
  size_t used = 0;
  for (Dim hw : {Dim::Lane, Dim::Warp})
    for (unsigned i = 0; useCopies && i < operand.inBits(hw) && used < todo.size(); ++i)
      if (operand.basis(hw, i) == 0)
        bases[operand.ins().shift(hw) + i] = todo[used++];
  LinearLayout r(operand.ins(), outs, bases);
  unsigned first = operand.inBits(Dim::Register);
  r = r.growIn(Dim::Register, first + static_cast<unsigned>(todo.size() - used));
  bases.assign(r.bases().begin(), r.bases().end());
  std::copy(todo.begin() + static_cast<std::ptrdiff_t>(used), todo.end(),
            bases.begin() + static_cast<std::ptrdiff_t>(r.ins().shift(Dim::Register) + first));
  return LinearLayout(r.ins(), outs, bases);
}

bool isBroadcastOf(const LinearLayout &result, const LinearLayout &operand, std::vector<unsigned> *map) {
  // Project the result to the operand's coordinates; then each thread must hold, register by register, what it holds.
  std::vector<uint64_t> projected;
  for (uint64_t b : result.bases()) {
    uint64_t v = 0;
    for (DimBits d : operand.outs())
      v |= operand.outs().flat(d.dim, d.bits == 0 ? 0 : result.outs().part(b, d.dim));
    projected.push_back(v);
  }
  LinearLayout want(result.ins(), operand.outs(), projected);
  for (Dim d : {Dim::Lane, Dim::Warp, Dim::Block})
    if (!std::equal(want.bases(d).begin(), want.bases(d).end(), operand.bases(d).begin(), operand.bases(d).end()))
      return false;
  Subspace registers;
  for (unsigned i = 0; i < operand.inBits(Dim::Register); ++i)
    registers.insert(operand.basis(Dim::Register, i), uint64_t{1} << i);
  std::vector<uint64_t> images;
  for (uint64_t b : want.bases(Dim::Register)) {
    auto [rest, combo] = registers.reduce(b);
    if (rest != 0)
      return false;
    images.push_back(combo);
  }
  for (uint64_t r = 0; map && r < static_cast<uint64_t>(result.inSize(Dim::Register)); ++r)
    map->push_back(static_cast<unsigned>(multiply(images, r)));
  return true;
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

LinearLayout reshape(const LinearLayout &operand, const Extents &shape) { return operand.reshapeOuts(tensorDims(shape)); }

LinearLayout join(const LinearLayout &operand) {
  Dim last = tensorDim(shapeOf(operand).rank());
  LinearLayout pair = LinearLayout::identity(2, Dim::Register, last);
  LinearLayout r = withInputs(pair * operand, {Dim::Register, Dim::Lane, Dim::Warp});
  return withOutputs(r, shapeOf(r));
}

std::optional<SplitResult> split(const LinearLayout &operand) {
  Extents shape = shapeOf(operand);
  unsigned axis = shape.rank() - 1;
  assert(shape.rank() > 0 && shape[axis] == 2);
  uint64_t bit = operand.outs().mask(tensorDim(axis));
  std::optional<unsigned> found;
  for (unsigned i = 0; i < operand.inBits(Dim::Register); ++i)
    if (operand.basis(Dim::Register, i) == bit && !found)
      found = i;
  if (!found)
    return std::nullopt;
  LinearLayout rest = operand.selectIn(Dim::Register, ~(uint64_t{1} << *found));
  for (uint64_t b : rest.bases())
    if (b & bit)
      return std::nullopt;
  return SplitResult{rest.removeOut(tensorDim(axis)), *found};
}

LinearLayout sharedLinear(const Extents &shape, const Extents &order) {
  LinearLayout r;
  for (int64_t axis : order) {
    unsigned a = static_cast<unsigned>(axis);
    r *= LinearLayout::identity(shape[a], Dim::Offset, tensorDim(a));
  }
  return withOutputs(withInputs(r, {Dim::Offset}), shape);
}

std::optional<SwizzleMode> widestSwizzle(int64_t contiguousBytes) {
  for (SwizzleMode m : {SwizzleMode::B128, SwizzleMode::B64, SwizzleMode::B32, SwizzleMode::None})
    if (contiguousBytes >= static_cast<int64_t>(m))
      return m;
  return std::nullopt;
}

LinearLayout sharedSwizzled(const Extents &shape, const Extents &order, unsigned elemBits, SwizzleMode mode) {
  int64_t width = static_cast<int64_t>(mode), elemBytes = elemBits / 8;
  unsigned inner = static_cast<unsigned>(order[0]), rows = order.rank() > 1 ? static_cast<unsigned>(order[1]) : kMaxRank;
  assert(shape[inner] * elemBytes >= width && "use a narrower swizzle");
  // Where each bit of the linear address points, without swizzle.
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
