// See BulkStores.h. Layouts are looked at as vectors of flat coordinate bits: a step is a set of such bits.
#include "targets/nvidia/BulkStores.h"
#include "ir/Builder.h"
#include "layout/Gf2.h"
#include <algorithm>
#include <numeric>

namespace tegula::nvidia {

using namespace ir;
using layout::Dim;

namespace {

/// The most bytes that a warp stores in one step. Two buffers of eight warps then take 32 KiB, which fit beside a ring
/// of 192 KiB.
constexpr uint32_t stepBytes = 2048;
/// Smaller copies cost more than the stores that they replace (unless the warp has no more bytes).
constexpr uint32_t leastBytes = 512;
/// And rows of less write a part of a sector, which memory takes as long for as for a whole one (unless the tile has no
/// more).
constexpr int64_t leastRowBytes = 32;

/// The low bits of each dimension that are in a step.
struct StepBits {
  const Shape &shape;
  layout::DimList outs;
  std::vector<unsigned> bits;

  explicit StepBits(const Shape &s) : shape(s), outs(layout::tensorDims(s)), bits(s.rank()) {}
  uint64_t unit(unsigned d, unsigned bit) const { return outs.flat(layout::tensorDim(d), uint64_t{1} << bit); }
  uint64_t mask() const {
    uint64_t m = 0;
    for (unsigned d = 0; d < bits.size(); ++d)
      for (unsigned i = 0; i < bits[d]; ++i)
        m |= unit(d, i);
    return m;
  }
  /// So that it holds these coordinates.
  void cover(uint64_t flat) {
    for (unsigned d = 0; d < bits.size(); ++d)
      bits[d] =
          std::max<unsigned>(bits[d], static_cast<unsigned>(std::bit_width(outs.part(flat, layout::tensorDim(d)))));
  }
  int64_t elements() const { return int64_t{1} << std::accumulate(bits.begin(), bits.end(), 0u); }
};

bool isInside(uint64_t v, uint64_t mask) { return (v & ~mask) == 0; }

/// Rows of up to 128 bytes, then more of them, then longer ones, as far as registers hold them and a step may be large.
void grow(StepBits &step, std::span<const uint64_t> registers, unsigned bytes) {
  unsigned last = step.shape.rank() - 1;
  auto widen = [&](unsigned d, int64_t limit) {
    while (step.elements() * bytes < stepBytes &&
           (int64_t{1} << step.bits[d]) < std::min<int64_t>(limit, step.shape[d])) {
      uint64_t unit = step.unit(d, step.bits[d]), mask = step.mask() | unit;
      if (std::none_of(registers.begin(), registers.end(), [&](uint64_t v) { return v & unit && isInside(v, mask); }))
        return;
      ++step.bits[d];
    }
  };
  widen(last, 128 / bytes);
  for (unsigned d = last; d-- > 0;)
    widen(d, 256);
  widen(last, 256);
}

} // namespace

std::optional<BulkStore> planBulkStore(const layout::LinearLayout &l, const Shape &shape, Elem elem) {
  unsigned bytes = byteWidth(elem), last = shape.rank() - 1;
  std::span<const uint64_t> registers = l.bases(Dim::Register), lanes = l.bases(Dim::Lane), warps = l.bases(Dim::Warp);
  StepBits step(shape);
  for (uint64_t v : lanes)
    step.cover(v);
  grow(step, registers, bytes);
  uint64_t mask = step.mask();
  if (std::any_of(warps.begin(), warps.end(), [&](uint64_t v) { return v & mask; }))
    return std::nullopt;
  // Registers of one step, and those that count the steps.
  std::vector<unsigned> within, between;
  std::vector<uint64_t> images, spanned;
  for (unsigned i = 0; i < registers.size(); ++i) {
    if (!isInside(registers[i], mask) && (registers[i] & mask))
      return std::nullopt;
    (registers[i] & mask ? within : between).push_back(i);
  }
  Shape extents;
  for (unsigned b : step.bits)
    extents.push(int64_t{1} << b);
  if (extents[last] * bytes < 16)
    return std::nullopt;
  int64_t size = step.elements() * bytes;

  // Flat coordinates of the tensor as flat coordinates in the step.
  layout::DimList outs = layout::tensorDims(extents);
  auto inStep = [&](uint64_t v) {
    uint64_t r = 0;
    for (unsigned d = 0; d <= last; ++d)
      r |= outs.flat(layout::tensorDim(d), step.outs.part(v & mask, layout::tensorDim(d)));
    return r;
  };
  for (unsigned i : within)
    images.push_back(inStep(registers[i]));
  for (uint64_t v : lanes)
    images.push_back(inStep(v));
  layout::DimList ins{{Dim::Register, static_cast<uint8_t>(within.size())},
                      {Dim::Lane, static_cast<uint8_t>(lanes.size())},
                      {Dim::Warp, 0}};
  BulkStore out{TmaTile(extents, elem),
                layout::LinearLayout(ins, outs, images),
                {},
                {},
                0,
                1u << warps.size(),
                l.freeMask(Dim::Warp),
                false};
  if (!out.registers.isSurjective())
    return std::nullopt;
  out.memory = out.step.layout();
  layout::Subspace part;
  int64_t held = bytes; // by a warp
  for (auto list : {registers, lanes})
    for (uint64_t v : list)
      held <<= part.insert(v, 0);
  out.isPoor = size < std::min<int64_t>(leastBytes, held) ||
               extents[last] * bytes < std::min<int64_t>(leastRowBytes, shape[last] * bytes);
  // Swizzles repeat after eight rows.
  auto align = std::max<uint32_t>(128, 8u * out.step.swizzle);
  out.bytes = (static_cast<uint32_t>(size) + align - 1) / align * align;

  uint32_t copies = l.freeMask(Dim::Register);
  for (uint32_t n = 0; n < 1u << between.size(); ++n) {
    uint32_t base = 0;
    for (unsigned i = 0; i < between.size(); ++i)
      base |= (n >> i & 1) << between[i];
    if (base & copies)
      continue;
    BulkStore::Step s;
    for (unsigned d = 0; d <= last; ++d)
      s.at.push_back(static_cast<uint32_t>(step.outs.part(l.apply(base), layout::tensorDim(d))));
    for (uint32_t r = 0; r < 1u << within.size(); ++r) {
      uint32_t reg = base;
      for (unsigned i = 0; i < within.size(); ++i)
        reg |= (r >> i & 1) << within[i];
      s.registers.push_back(static_cast<uint16_t>(reg));
    }
    out.steps.push_back(std::move(s));
  }
  return out;
}

layout::LinearLayout bulkStoreLayout(const Shape &shape, Elem elem, unsigned warps) {
  unsigned bytes = byteWidth(elem), last = shape.rank() - 1;
  layout::DimList outs = layout::tensorDims(shape);
  // Coordinate bits in the order in which they are given away: rows of 128 bytes, the rows, then what is left of them.
  std::vector<uint64_t> units;
  auto add = [&](unsigned d, int64_t from, int64_t to) {
    for (int64_t x = from; x < to; x *= 2)
      units.push_back(outs.flat(layout::tensorDim(d), static_cast<uint64_t>(x)));
  };
  int64_t row = std::min<int64_t>(128 / bytes, shape[last]);
  add(last, 1, row);
  for (unsigned d = last; d-- > 0;)
    add(d, 1, shape[d]);
  add(last, row, shape[last]);
  std::vector<uint64_t> of[3];
  size_t at = 0;
  auto give = [&](unsigned to, unsigned n) {
    for (; n && at < units.size(); --n)
      of[to].push_back(units[at++]);
  };
  give(0, layout::log2Exact(std::max<int64_t>(1, std::min<int64_t>(16 / bytes, shape[last]))));
  give(1, 5);
  int64_t given = int64_t{bytes} << at;
  unsigned left = static_cast<unsigned>(units.size() - at), warpBits = layout::log2Exact(warps);
  give(0,
       std::min(left > warpBits ? left - warpBits : 0, given < stepBytes ? layout::log2Exact(stepBytes / given) : 0));
  give(2, warpBits);
  give(0, 64);
  of[1].resize(5);
  of[2].resize(warpBits);
  std::vector<uint64_t> bases;
  layout::DimList ins;
  for (auto [dim, i] : {std::pair(Dim::Register, 0), std::pair(Dim::Lane, 1), std::pair(Dim::Warp, 2)}) {
    ins.push({dim, static_cast<uint8_t>(of[i].size())});
    bases.insert(bases.end(), of[i].begin(), of[i].end());
  }
  return layout::LinearLayout(ins, outs, bases);
}

bool hasBulkReduce(std::string_view rmw, Elem elem) {
  bool isWord = elem == Elem::I32 || elem == Elem::I64, isHalf = elem == Elem::F16 || elem == Elem::BF16;
  if (rmw == "fadd")
    return isHalf || elem == Elem::F32;
  if (rmw == "fmin" || rmw == "fmax")
    return isHalf;
  return isWord && rmw != "xchg";
}

bool livesCoalesced(const Value *v) {
  // Of what an element-wise value is computed from, the accumulator decides, then what comes from memory
  // (AssignLayouts).
  std::vector<const Value *> work{v}, seen;
  while (!work.empty()) {
    v = work.back();
    work.pop_back();
    if (v->type.isScalar() || std::find(seen.begin(), seen.end(), v) != seen.end())
      continue;
    seen.push_back(v);
    const Op *op = v->def;
    if (!op || seen.size() > 256)
      return false;
    switch (op->kind) {
    case OpKind::Load:
    case OpKind::DescLoad:
    case OpKind::AtomicRmw:
    case OpKind::AtomicCas:
    case OpKind::Const:
    case OpKind::Range:
    case OpKind::Splat:
    case OpKind::Poison:
      continue;
    case OpKind::Broadcast:
    case OpKind::ExpandDims:
      continue; // goes where the others are
    default:
      if (!op->has(traits::Elementwise))
        return false;
      work.insert(work.end(), op->operands.begin(), op->operands.end());
    }
  }
  return true;
}

} // namespace tegula::nvidia
