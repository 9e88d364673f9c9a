// See AxisParts.h.
#include "gpu/AxisParts.h"
#include "ir/Clone.h"
#include "layout/Constructors.h"
#include <algorithm>
#include <array>
#include <bit>

namespace tegula::gpu {

using namespace ir;
using layout::Dim;

std::optional<AxisParts> partsOf(const LinearLayout &l, const Shape &shape, unsigned axis,
                                 std::initializer_list<Dim> own) {
  const Dim along = layout::tensorDim(axis);
  uint32_t ours = 0, others = 0;
  for (const layout::DimBits &in : l.ins())
    for (uint64_t basis : l.bases(in.dim)) {
      const uint32_t bit = l.outs().part(basis, along);
      if (!bit)
        continue;
      if (!std::has_single_bit(bit) || ((ours | others) & bit))
        return std::nullopt;
      (std::ranges::count(own, in.dim) ? ours : others) |= bit;
    }
  const auto extent = static_cast<uint32_t>(shape[axis]);
  if (!axesAreSeparate(l) || !others || (ours | others) != extent - 1)
    return std::nullopt;
  AxisParts out;
  out.isOwn = ours != 0;
  // Runs of bits of one kind (ours or others'), the highest first.
  std::vector<std::pair<int64_t, bool>> runs; // extent, ours
  for (uint32_t bit = extent / 2; bit; bit /= 2) {
    const bool isOwn = ours & bit;
    if (runs.empty() || runs.back().second != isOwn)
      runs.push_back({1, isOwn});
    runs.back().first *= 2;
  }
  if (shape.rank() + runs.size() > Shape::maxRank)
    return std::nullopt;
  for (unsigned i = 0; i < shape.rank(); ++i)
    if (i != axis)
      out.split.push(shape[i]);
  for (size_t r = runs.size(); r-- > 0;)
    out.split.insert(axis, runs[r].first);
  out.own = axis + (runs.size() == 2 && runs[0].second ? 0 : 1);
  // Orders the others' runs before ours. Of two runs, each is an axis already.
  for (unsigned i = 0; i < out.split.rank(); ++i)
    out.order.push_back(i);
  if (runs.size() > 2) {
    unsigned to = axis;
    for (bool isOwn : {false, true})
      for (unsigned r = 0; r < runs.size(); ++r)
        if (runs[r].second == isOwn)
          out.order[to++] = axis + r;
  }
  const int64_t count = int64_t{1} << std::popcount(ours);
  out.joined = shape;
  out.joined.set(axis, out.own == axis ? count : extent / count);
  out.joined.insert(axis + 1, out.own == axis ? extent / count : count);
  return out;
}

LinearLayout splitAxis(const LinearLayout &l, const AxisParts &parts) {
  return layout::reshape(layout::permute(layout::reshape(l, parts.split), parts.order), parts.joined);
}

Value *splitAxis(Builder &b, Module &m, Value *x, const AxisParts &parts) {
  auto view = [&](OpKind kind, const Shape &shape, const LinearLayout &l, std::vector<Attr> attrs = {}) {
    x = b.create1(kind, {x}, x->type.withShape(shape).withLayout(m.internLayout(l)), std::move(attrs));
  };
  view(OpKind::Reshape, parts.split, layout::reshape(m.layoutOf(x->type), parts.split));
  if (!std::ranges::is_sorted(parts.order)) {
    Shape moved;
    for (int64_t axis : parts.order)
      moved.push(x->type.shape[static_cast<unsigned>(axis)]);
    view(OpKind::Permute, moved, layout::permute(m.layoutOf(x->type), parts.order), {{attr::perm, parts.order}});
  }
  if (x->type.shape != parts.joined)
    view(OpKind::Reshape, parts.joined, layout::reshape(m.layoutOf(x->type), parts.joined));
  return x;
}

Value *reduceAlong(Builder &b, Module &m, const Op &like, Value *of, unsigned axis) {
  Shape shape = of->type.shape;
  shape.erase(axis);
  const uint16_t id = shape.rank() ? m.internLayout(layout::slice(m.layoutOf(of->type), axis)) : uint16_t{0};
  Op *op = b.create(OpKind::Reduce, std::array{of}, std::array{of->type.withShape(shape).withLayout(id)},
                    {{attr::axis, axis}});
  Cloner(m).copyBlock(*like.region(0), *op->region(0));
  return op->result();
}

} // namespace tegula::gpu
