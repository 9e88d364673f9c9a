// Layouts of threads over tensors: elements distributed to registers, lanes and warps.
#include "layout/Constructors.h"
#include <algorithm>

namespace tegula::layout {

namespace {

constexpr Dim hardwareDims[] = {Dim::Register, Dim::Lane, Dim::Warp};

/// Unit steps without an owner, per axis, and functions to assign them.
class Dealer {
public:
  Dealer(const Extents &shape, Threads t)
      : shape_(shape), outs_(tensorDims(shape)), left_(Extents::filled(shape.rank(), 1)), lanes_(log2Exact(t.lanes)),
        warps_(log2Exact(t.warps)) {}

  /// Up to `n` steps of the axis to registers, lanes or warps (whichever still have room).
  void give(Dim to, unsigned axis, unsigned n) {
    for (; n && left_[axis] < shape_[axis] && hasRoom(to); --n, left_[axis] *= 2)
      rows_[static_cast<unsigned>(to)].push_back(outs_.flat(tensorDim(axis), static_cast<uint64_t>(left_[axis])));
  }
  void giveAll(Dim to, const Extents &order) {
    for (int64_t axis : order)
      give(to, static_cast<unsigned>(axis), 64);
  }
  LinearLayout finish() {
    rows_[1].resize(lanes_), rows_[2].resize(warps_);
    DimList ins;
    std::vector<uint64_t> bases;
    for (Dim d : hardwareDims) {
      const std::vector<uint64_t> &row = rows_[static_cast<unsigned>(d)];
      ins.push({d, static_cast<uint8_t>(row.size())});
      bases.insert(bases.end(), row.begin(), row.end());
    }
    return LinearLayout(ins, outs_, bases);
  }

private:
  bool hasRoom(Dim to) const {
    return to == Dim::Register || rows_[static_cast<unsigned>(to)].size() < (to == Dim::Lane ? lanes_ : warps_);
  }
  static_assert(static_cast<unsigned>(Dim::Register) == 0 && static_cast<unsigned>(Dim::Lane) == 1 &&
                static_cast<unsigned>(Dim::Warp) == 2);

  const Extents &shape_;
  DimList outs_;
  Extents left_;
  unsigned lanes_, warps_;
  std::vector<uint64_t> rows_[3];
};

Extents rowMajor(unsigned rank) {
  Extents order;
  while (rank)
    order.push(--rank);
  return order;
}

Extents reversed(const Extents &order) {
  Extents r;
  for (unsigned i = order.rank(); i-- > 0;)
    r.push(order[i]);
  return r;
}

} // namespace

LinearLayout dealt(const Extents &shape, const Extents &order, int64_t vec, Threads threads) {
  Dealer d(shape, threads);
  d.give(Dim::Register, static_cast<unsigned>(order[0]), log2Exact(vec));
  d.giveAll(Dim::Lane, order);
  d.giveAll(Dim::Warp, order);
  d.giveAll(Dim::Register, order);
  return d.finish();
}

LinearLayout dealtInBlocks(const Extents &shape, const Extents &order, int64_t vec, int64_t run, Threads threads) {
  const unsigned fast = static_cast<unsigned>(order[0]), across = static_cast<unsigned>(order[1]);
  Dealer d(shape, threads);
  d.give(Dim::Register, fast, log2Exact(vec));
  d.give(Dim::Register, across, log2Exact(run));
  // A run's place in its row of 128 bytes is the number of the run, exclusive-or the row's number modulo eight: of
  // these three bits what a thread does not have of the row, and the rest of the run.
  constexpr unsigned placeBits = 3;
  const unsigned ofRow = placeBits - std::min(placeBits, log2Exact(vec));
  d.give(Dim::Lane, fast, ofRow);
  d.give(Dim::Lane, across, placeBits - ofRow);
  for (Dim to : {Dim::Lane, Dim::Warp, Dim::Register})
    d.giveAll(to, order);
  return d.finish();
}

LinearLayout dealtForTurns(const Extents &shape, const Extents &order, Threads threads) {
  const unsigned fast = static_cast<unsigned>(order[0]), across = static_cast<unsigned>(order[1]);
  Dealer d(shape, threads);
  d.give(Dim::Register, fast, 1);
  d.give(Dim::Register, across, 2);
  d.give(Dim::Lane, across, 2);
  d.give(Dim::Lane, fast, 3);
  for (Dim to : {Dim::Lane, Dim::Warp, Dim::Register})
    d.giveAll(to, order);
  return d.finish();
}

LinearLayout dealtAcross(const Extents &shape, const Extents &order, int64_t run, Threads threads) {
  const unsigned fast = static_cast<unsigned>(order[0]), across = static_cast<unsigned>(order[1]);
  Dealer d(shape, threads);
  d.give(Dim::Register, across, log2Exact(run));
  d.give(Dim::Lane, fast, 64);
  d.give(Dim::Warp, across, 64);
  for (Dim to : {Dim::Lane, Dim::Warp, Dim::Register})
    d.giveAll(to, order);
  return d.finish();
}

LinearLayout dealtByRows(const Extents &shape, Threads threads) {
  int64_t perThread = std::max<int64_t>(1, shape.product() / threads.count());
  return dealt(shape, rowMajor(shape.rank()), std::min({perThread, int64_t{4}, shape[shape.rank() - 1]}), threads);
}

LinearLayout scalar(Threads threads) { return Dealer({}, threads).finish(); }

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

LinearLayout dealtAlong(const Extents &shape, unsigned axis, Threads threads) {
  Dealer d(shape, threads);
  int64_t others = shape.product() / shape[axis];
  // Threads are preferably assigned to the other axes: a scan inside a thread needs no exchange.
  unsigned threadBits = log2Exact(threads.count()), otherBits = std::min(threadBits, log2Exact(others));
  unsigned axisThreadBits = std::min(threadBits - otherBits, log2Exact(shape[axis]));
  d.give(Dim::Register, axis, log2Exact(shape[axis]) - axisThreadBits);
  d.give(Dim::Lane, axis, 64);
  d.give(Dim::Warp, axis, 64);
  Extents order;
  for (int64_t a : rowMajor(shape.rank()))
    if (a != axis)
      order.push(a);
  for (Dim to : hardwareDims)
    if (to != Dim::Register)
      d.giveAll(to, order);
  d.giveAll(Dim::Register, order);
  return d.finish();
}

LinearLayout fmaAccumulator(const Extents &shape, Threads threads) {
  Dealer d(shape, threads);
  unsigned n = shape.rank() - 1, m = n - 1;
  const Extents order = rowMajor(shape.rank());
  // About square tiles of registers and of lanes: fewest operand elements per product.
  if (shape.product() >= threads.count() * 4)
    d.give(Dim::Register, n, 1);
  if (shape.product() >= threads.count() * 16) {
    d.give(Dim::Register, n, 1);
    d.give(Dim::Register, m, 2);
  }
  d.give(Dim::Lane, n, 3);
  d.give(Dim::Lane, m, 2);
  d.giveAll(Dim::Lane, order);
  d.giveAll(Dim::Warp, reversed(order));
  d.giveAll(Dim::Register, order);
  return d.finish();
}

} // namespace tegula::layout
