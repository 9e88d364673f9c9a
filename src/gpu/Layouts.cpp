// See Layouts.h. Layouts are built and changed as lists of bases in coordinates.
#include "gpu/Layouts.h"
#include <algorithm>
#include <functional>
#include <numeric>

namespace tegula::gpu {

using ir::OpKind;
using ir::Shape;
using layout::BasisRow;
using layout::Dim;
using Coords = std::vector<int64_t>;

namespace {

constexpr Dim hardwareDims[] = {Dim::Register, Dim::Lane, Dim::Warp};

std::vector<int64_t> extents(const Shape &s) { return {s.begin(), s.end()}; }

layout::DimList dimsOf(const Shape &s) { return layout::tensorDims(extents(s)); }

LinearLayout build(const Shape &shape, std::vector<BasisRow> rows) {
  layout::DimList ins, outs = dimsOf(shape);
  std::vector<uint64_t> bases;
  for (const BasisRow &row : rows) {
    ins.push({row.in, static_cast<uint8_t>(row.images.size())});
    for (const Coords &c : row.images) {
      uint64_t flat = 0;
      for (unsigned k = 0; k < c.size(); ++k)
        flat |= outs.flat(layout::tensorDim(k), static_cast<uint64_t>(c[k]));
      bases.push_back(flat);
    }
  }
  return LinearLayout(ins, outs, bases).removeZeroBases(Dim::Register);
}

std::vector<BasisRow> rowsOf(const LinearLayout &l, unsigned rank) {
  // A tile in shared memory has one input, its offset.
  static constexpr Dim sharedDims[] = {Dim::Offset};
  std::span<const Dim> dims(hardwareDims);
  if (l.hasIn(Dim::Offset))
    dims = sharedDims;
  std::vector<BasisRow> rows;
  for (Dim d : dims) {
    BasisRow row{d, {}};
    for (unsigned i = 0; i < l.inBits(d); ++i) {
      Coords c(rank);
      for (unsigned k = 0; k < rank; ++k)
        c[k] = l.basis(d, i, layout::tensorDim(k));
      row.images.push_back(std::move(c));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Every basis changed by `f`, for a tensor of another shape.
LinearLayout mapped(const LinearLayout &l, unsigned rank, const Shape &to, const std::function<void(Coords &)> &f) {
  std::vector<BasisRow> rows = rowsOf(l, rank);
  for (BasisRow &row : rows)
    for (Coords &c : row.images)
      f(c);
  return build(to, std::move(rows));
}

/// Unit steps that have no owner yet, per axis, and the means to hand them out.
class Dealer {
public:
  Dealer(const Shape &shape, Threads t) : shape_(shape), left_(shape.rank(), 1), lanes_(layout::log2Exact(t.lanes)), warps_(layout::log2Exact(t.warps)) {}

  /// Up to `n` steps of the axis to registers, lanes or warps (whichever still have room).
  void give(Dim to, unsigned axis, unsigned n) {
    std::vector<Coords> &row = rows_[static_cast<unsigned>(to)];
    for (; n && left_[axis] < shape_[axis] && room(to); --n, left_[axis] *= 2) {
      Coords c(shape_.rank());
      c[axis] = left_[axis];
      row.push_back(std::move(c));
    }
  }
  void giveAll(Dim to, std::span<const unsigned> order) {
    for (unsigned axis : order)
      give(to, axis, 64);
  }
  LinearLayout finish() {
    for (auto [dim, bits] : {std::pair(Dim::Lane, lanes_), std::pair(Dim::Warp, warps_)})
      while (rows_[static_cast<unsigned>(dim)].size() < bits)
        rows_[static_cast<unsigned>(dim)].push_back(Coords(shape_.rank()));
    std::vector<BasisRow> rows;
    for (Dim d : hardwareDims)
      rows.push_back({d, std::move(rows_[static_cast<unsigned>(d)])});
    return build(shape_, std::move(rows));
  }

private:
  bool room(Dim to) const {
    return to == Dim::Register || rows_[static_cast<unsigned>(to)].size() < (to == Dim::Lane ? lanes_ : warps_);
  }
  const Shape &shape_;
  Coords left_;
  unsigned lanes_, warps_;
  std::vector<Coords> rows_[3];
};

std::vector<unsigned> rowMajor(unsigned rank) {
  std::vector<unsigned> order(rank);
  std::iota(order.rbegin(), order.rend(), 0u);
  return order;
}

} // namespace

LinearLayout dealtLayout(const Shape &shape, std::span<const unsigned> order, int64_t vec, Threads threads) {
  Dealer d(shape, threads);
  d.give(Dim::Register, order[0], layout::log2Exact(vec));
  d.giveAll(Dim::Lane, order);
  d.giveAll(Dim::Warp, order);
  d.giveAll(Dim::Register, order);
  return d.finish();
}

LinearLayout defaultLayout(const Shape &shape, Threads threads) {
  std::vector<unsigned> order = rowMajor(shape.rank());
  int64_t perThread = std::max<int64_t>(1, shape.numel() / threads.count());
  return dealtLayout(shape, order, std::min({perThread, int64_t{4}, shape[order[0]]}), threads);
}

LinearLayout withWarpsOf(const LinearLayout &l, const LinearLayout &other, unsigned kept) {
  std::span<const uint64_t> warps = l.bases(Dim::Warp), wanted = other.bases(Dim::Warp);
  std::vector<uint64_t> bases(l.bases().begin(), l.bases().end());
  unsigned firstWarp = l.inBits(Dim::Register) + l.inBits(Dim::Lane);
  auto registers = bases.begin() + kept, end = bases.begin() + l.inBits(Dim::Register);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i] || !warps[i])
      return l;
    // Where the wanted basis is now: already with the warps, or with a register that takes what the warps had.
    auto now = std::find(bases.begin() + firstWarp + static_cast<long>(i), bases.end(), wanted[i]);
    if (now == bases.end())
      if (now = std::find(registers, end, wanted[i]); now == end)
        return l;
    std::swap(*now, bases[firstWarp + i]);
  }
  std::sort(registers, end);
  return LinearLayout(l.ins(), l.outs(), bases);
}

LinearLayout scanLayout(const Shape &shape, unsigned axis, Threads threads) {
  Dealer d(shape, threads);
  int64_t others = shape.numel() / shape[axis];
  // Threads that the other axes can use are worth more there: a scan inside a thread needs no exchange.
  unsigned threadBits = layout::log2Exact(threads.count()), otherBits = std::min(threadBits, layout::log2Exact(others));
  unsigned axisThreadBits = std::min(threadBits - otherBits, layout::log2Exact(shape[axis]));
  d.give(Dim::Register, axis, layout::log2Exact(shape[axis]) - axisThreadBits);
  d.give(Dim::Lane, axis, 64);
  d.give(Dim::Warp, axis, 64);
  std::vector<unsigned> order;
  for (unsigned a : rowMajor(shape.rank()))
    if (a != axis)
      order.push_back(a);
  for (Dim to : hardwareDims)
    if (to != Dim::Register)
      d.giveAll(to, order);
  d.giveAll(Dim::Register, order);
  return d.finish();
}

LinearLayout fmaAccLayout(const Shape &shape, Threads threads) {
  Dealer d(shape, threads);
  unsigned n = shape.rank() - 1, m = n - 1;
  std::vector<unsigned> order = rowMajor(shape.rank());
  // About square tiles of registers and of lanes: fewest operand elements per product.
  if (shape.numel() >= threads.count() * 4)
    d.give(Dim::Register, n, 1);
  if (shape.numel() >= threads.count() * 16) {
    d.give(Dim::Register, n, 1);
    d.give(Dim::Register, m, 2);
  }
  d.give(Dim::Lane, n, 3);
  d.give(Dim::Lane, m, 2);
  d.giveAll(Dim::Lane, order);
  std::reverse(order.begin(), order.end());
  d.giveAll(Dim::Warp, order);
  std::reverse(order.begin(), order.end());
  d.giveAll(Dim::Register, order);
  return d.finish();
}

LinearLayout fmaOperandLayout(const LinearLayout &acc, const Shape &operand, bool isA) {
  unsigned rank = operand.rank(), kAxis = isA ? rank - 1 : rank - 2;
  std::vector<BasisRow> rows = rowsOf(acc, rank);
  for (BasisRow &row : rows)
    for (Coords &c : row.images)
      c[kAxis] = 0;
  for (int64_t k = 1; k < operand[kAxis]; k *= 2) {
    Coords c(rank);
    c[kAxis] = k;
    rows[0].images.push_back(std::move(c));
  }
  return build(operand, std::move(rows));
}

LinearLayout reducedLayout(const LinearLayout &l, const Shape &shape, unsigned axis) {
  Shape to = shape;
  to.erase(axis);
  return mapped(l, shape.rank(), to, [&](Coords &c) { c.erase(c.begin() + axis); });
}

LinearLayout gatheredLayout(const LinearLayout &l, const Shape &gathered) {
  std::vector<BasisRow> rows = rowsOf(l, gathered.rank() - 1);
  for (BasisRow &row : rows)
    for (Coords &c : row.images)
      c.insert(c.begin(), 0);
  for (int64_t part = 1; part < gathered[0]; part *= 2) {
    Coords c(gathered.rank());
    c[0] = part;
    rows[0].images.push_back(std::move(c));
  }
  return build(gathered, std::move(rows));
}

LinearLayout scalarLayout(Threads threads) { return Dealer({}, threads).finish(); }

LinearLayout joinedLayout(const LinearLayout &l, const Shape &operand) {
  std::vector<BasisRow> rows = rowsOf(l, operand.rank());
  for (BasisRow &row : rows)
    for (Coords &c : row.images)
      c.push_back(0);
  Coords last(operand.rank() + 1);
  last.back() = 1;
  rows[0].images.insert(rows[0].images.begin(), std::move(last));
  Shape to = operand;
  to.push(2);
  return build(to, std::move(rows));
}

LinearLayout splitLayout(const LinearLayout &l, const Shape &operand) { return reducedLayout(l, operand, operand.rank() - 1); }

LinearLayout splittableLayout(const LinearLayout &l, const Shape &operand) {
  Shape half = operand;
  half.erase(operand.rank() - 1);
  unsigned last = operand.rank() - 1;
  std::vector<BasisRow> rows = rowsOf(l, operand.rank());
  for (const Coords &c : rows[0].images)
    if (c[last] == 1 && std::count(c.begin(), c.end(), 0) == last)
      return l;
  return joinedLayout(splitLayout(l, operand), half);
}

LinearLayout concatenatedLayout(const LinearLayout &l, const Shape &operand, unsigned axis) {
  std::vector<BasisRow> rows = rowsOf(l, operand.rank());
  Coords c(operand.rank());
  c[axis] = operand[axis];
  rows[0].images.push_back(std::move(c));
  Shape to = operand;
  to.set(axis, operand[axis] * 2);
  return build(to, std::move(rows));
}

LinearLayout catOperandLayout(const LinearLayout &l, const Shape &operand) {
  return mapped(l, operand.rank(), operand, [&](Coords &c) {
    for (unsigned k = 0; k < c.size(); ++k)
      c[k] &= operand[k] - 1;
  });
}

LinearLayout operandLayout(const ir::Op &op, const LinearLayout &result) {
  const Shape &to = op.operands[0]->type.shape, &from = op.result()->type.shape;
  switch (op.kind) {
  case OpKind::ExpandDims:
    return reducedLayout(result, from, static_cast<unsigned>(op.axis()));
  case OpKind::Broadcast:
    return mapped(result, from.rank(), to, [&](Coords &c) {
      for (unsigned k = 0; k < c.size(); ++k)
        if (to[k] == 1)
          c[k] = 0;
    });
  case OpKind::Permute: {
    std::span<const int64_t> perm = op.perm();
    return mapped(result, from.rank(), to, [&](Coords &c) {
      Coords source(c.size());
      for (unsigned k = 0; k < c.size(); ++k)
        source[static_cast<size_t>(perm[k])] = c[k];
      c = std::move(source);
    });
  }
  default:
    assert(op.kind == OpKind::Reshape);
    return result.reshapeOuts(dimsOf(to));
  }
}

LinearLayout resultLayout(const ir::Op &op, const LinearLayout &operand) {
  const Shape &from = op.operands[0]->type.shape, &to = op.result()->type.shape;
  switch (op.kind) {
  case OpKind::ExpandDims: {
    auto at = static_cast<long>(op.axis());
    return mapped(operand, from.rank(), to, [&](Coords &c) { c.insert(c.begin() + at, 0); });
  }
  case OpKind::Permute: {
    std::span<const int64_t> perm = op.perm();
    return mapped(operand, from.rank(), to, [&](Coords &c) {
      Coords result(c.size());
      for (unsigned k = 0; k < c.size(); ++k)
        result[k] = c[static_cast<size_t>(perm[k])];
      c = std::move(result);
    });
  }
  default:
    assert(op.kind == OpKind::Reshape);
    return operand.reshapeOuts(dimsOf(to));
  }
}

Partner partnerOf(const LinearLayout &l, const ir::Op &exchange) {
  uint64_t step = l.outs().flat(layout::tensorDim(static_cast<unsigned>(exchange.axis())), static_cast<uint64_t>(exchange.distance()));
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

bool keepsVectors(const LinearLayout &tile, const LinearLayout &registers, int64_t n) {
  std::span<const uint64_t> offsets = tile.bases(Dim::Offset), own = registers.bases(Dim::Register);
  size_t bits = layout::log2Exact(n);
  return bits <= offsets.size() && bits <= own.size() && std::equal(own.begin(), own.begin() + static_cast<long>(bits), offsets.begin());
}

LinearLayout tileByThreads(const LinearLayout &registers) {
  layout::Subspace seen;
  std::vector<uint64_t> offsets;
  for (Dim d : {Dim::Register, Dim::Lane, Dim::Warp})
    for (uint64_t b : registers.bases(d))
      if (b && seen.insert(b, 0))
        offsets.push_back(b);
  return {{{Dim::Offset, static_cast<uint8_t>(offsets.size())}}, registers.outs(), offsets};
}

} // namespace tegula::gpu
