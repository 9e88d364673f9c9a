// Splits a reduction into two steps: first along the part of its axis that some inputs of a layout hold (the registers
// of a thread; the registers and lanes of a warp), then along the rest.
//
//   s = reduce(x, axis)       is       t = reduce(splitAxis(x), own part)
//                                      s = reduce(t, rest of the axis)
// A pass puts its own operations between the two steps: the iterations of a loop, or a conversion that brings the parts
// of several warps to one thread.
#pragma once
#include "gpu/Layouts.h"
#include "ir/Builder.h"
#include <initializer_list>
#include <optional>

namespace tegula::gpu {

/// How to view a tensor so that the reduced axis becomes two: reshape to `split`, permute by `order`, reshape to
/// `joined`. In `joined` the two are `axis` and `axis + 1`. One of them is `own`, which the own inputs hold; of the
/// other one they hold one element.
struct AxisParts {
  ir::Shape split, joined;
  std::vector<int64_t> order;
  unsigned own = 0;
  bool isOwn = false; // `own` has more than one element
};

/// Nullopt if the own inputs hold the whole axis, or if a bit of the axis does not belong to exactly one input. `own`
/// names the own inputs.
std::optional<AxisParts> partsOf(const LinearLayout &l, const ir::Shape &shape, unsigned axis,
                                 std::initializer_list<layout::Dim> own);

/// The layout that splitAxis() gives a tensor of layout `l`.
LinearLayout splitAxis(const LinearLayout &l, const AxisParts &parts);
/// `x` with the shape `joined`, through view operations only.
ir::Value *splitAxis(ir::Builder &b, ir::Module &m, ir::Value *x, const AxisParts &parts);
/// Reduces `of` along `axis` with the combiner of `like`, a reduction with one operand. The result has the layout of
/// `of` without that axis.
ir::Value *reduceAlong(ir::Builder &b, ir::Module &m, const ir::Op &like, ir::Value *of, unsigned axis);

} // namespace tegula::gpu
