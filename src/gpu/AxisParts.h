// A reduction in two steps: first along the part of its axis that some of a layout's inputs hold (the registers of a
// thread; the registers and lanes of a warp), then along the rest.
//
//   s = reduce(x, axis)       is       t = reduce(splitAxis(x), own part)
//                                      s = reduce(t, rest of the axis)
// Between both stands whatever a pass has to put there: the iterations of a loop, or a conversion that brings the parts
// of several warps to one thread.
#pragma once
#include "gpu/Layouts.h"
#include "ir/Builder.h"
#include <initializer_list>
#include <optional>

namespace tegula::gpu {

/// An axis as the inputs of a layout hold it: the tensor takes `split` as its shape, its axes are permuted by `order`,
/// and `joined` is its shape then. There the reduced axis has become two: `own`, which the own inputs hold, and the
/// other one of `axis` and `axis + 1`, of which they hold one element.
struct AxisParts {
  ir::Shape split, joined;
  std::vector<int64_t> order;
  unsigned own = 0;
  bool isOwn = false; // `own` has more than one element
};

/// Nothing if the own inputs hold the whole axis, or if bits of the axis do not belong to one input each.
std::optional<AxisParts> partsOf(const LinearLayout &l, const ir::Shape &shape, unsigned axis,
                                 std::initializer_list<layout::Dim> own);

/// `l` of a tensor that splitAxis() is applied to, as it is then.
LinearLayout splitAxis(const LinearLayout &l, const AxisParts &parts);
/// `x` with `joined` as its shape, by views only.
ir::Value *splitAxis(ir::Builder &b, ir::Module &m, ir::Value *x, const AxisParts &parts);
/// The reduction `like`, which has one operand, of another one along another axis. The result keeps the operand's
/// layout without that axis.
ir::Value *reduceAlong(ir::Builder &b, ir::Module &m, const ir::Op &like, ir::Value *of, unsigned axis);

} // namespace tegula::gpu
