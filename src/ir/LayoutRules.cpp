// See LayoutRules.h.
#include "ir/LayoutRules.h"
#include "support/Bits.h"

namespace tegula::ir {

using layout::Dim;

bool isOfTile(const layout::LinearLayout &l) { return l.ins().has(Dim::Offset); }

const char *layoutProblem(const layout::LinearLayout &l) {
  if (l.outs() != layout::tensorDims(layout::shapeOf(l)))
    return "a layout is not one of a tensor, with its coordinates in the canonical order: ";
  if (isOfTile(l))
    return l.isInvertible() ? nullptr : "a layout of a tile is not one to one: ";
  return l.isSurjective() ? nullptr : "a layout leaves elements out: ";
}

bool holdsVectors(const layout::LinearLayout &l, int64_t n) {
  if (!isPowerOfTwo(n) || isOfTile(l))
    return false;
  std::span<const uint64_t> registers = l.bases(Dim::Register);
  std::optional<Dim> axis;
  for (unsigned i = 0; int64_t{1} << i < n; ++i) {
    if (i >= registers.size())
      return false;
    for (layout::DimBits d : l.outs()) {
      uint64_t part = l.outs().part(registers[i], d.dim);
      if (part && !axis)
        axis = d.dim;
      if (part != (axis == d.dim ? uint64_t{1} << i : 0))
        return false;
    }
    if (!axis)
      return false;
  }
  return true;
}

} // namespace tegula::ir
