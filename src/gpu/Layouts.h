// Layouts and operations: which layout an operand has, given the result's, and what the passes ask of a layout. The
// layouts themselves are made by layout/Constructors.h.
//
// Every layout here has the inputs Register, Lane (log2 of the lanes of a warp) and Warp (log2 of the number of warps)
// and the tensor's coordinates as outputs, row-major flat (layout/LinearLayout.h). Where a tensor has fewer elements
// than there are threads, lane or warp bits are zero: several threads hold the same element. Register bits are never
// zero.
#pragma once
#include "ir/Ir.h"
#include "layout/LinearLayout.h"

namespace tegula::gpu {

using layout::LinearLayout;

/// Splat, expand_dims, broadcast, permute, reshape: nothing is computed, elements get other coordinates.
inline bool renames(ir::OpKind k) {
  using ir::OpKind;
  return k == OpKind::ExpandDims || k == OpKind::Broadcast || k == OpKind::Permute || k == OpKind::Reshape ||
         k == OpKind::Splat;
}
/// What a value is made of by such operations: the value itself if by none.
inline const ir::Value *beforeRenames(const ir::Value *v) {
  while (v->def && renames(v->def->kind))
    v = v->def->operands[0];
  return v;
}
/// Those, and conversions of layouts: no element changes its value.
inline bool isView(ir::OpKind k) { return k == ir::OpKind::Convert || renames(k); }
/// What a value is a view of: the value itself if of nothing.
inline const ir::Value *behindViews(const ir::Value *v) {
  while (v->def && isView(v->def->kind))
    v = v->def->operands[0];
  return v;
}
/// Element-wise operations that cost about as much as moving a value: index and pointer arithmetic, masks.
inline bool isIndexArithmetic(ir::OpKind k) {
  using ir::OpKind;
  return (k >= OpKind::Add && k <= OpKind::CmpI) || k == OpKind::Trunc || k == OpKind::ZExt || k == OpKind::SExt ||
         k == OpKind::Bitcast || k == OpKind::IntToPtr || k == OpKind::PtrToInt || k == OpKind::AddPtr ||
         k == OpKind::Select;
}
/// For ops that only rename coordinates (ExpandDims, Broadcast, Permute, Reshape): the layout the operand must have so
/// that no data moves, given the result's; and for those where it is determined, the result's given the operand's.
LinearLayout operandLayout(const ir::Op &op, const LinearLayout &result);
LinearLayout resultLayout(const ir::Op &op, const LinearLayout &operand);

/// Where the element is that an `exchange` gives for one's own: differences (exclusive or) of register, lane and warp.
/// The same thread has it, if that can be, else the same warp.
struct Partner {
  uint32_t inRegisters = 0, inLanes = 0, inWarps = 0;
};
Partner partnerOf(const LinearLayout &l, const ir::Op &exchange);

/// True if every basis steps along one axis only: reductions may treat register, lane and warp bits one by one.
bool axesAreSeparate(const LinearLayout &l);
/// Does a reduction or scan combine elements of several threads?
bool crossesThreads(const ir::Module &m, const ir::Op &op);
/// Do the first `n` registers of a thread (a vector of a load) lie side by side in a tile, in this order?
bool keepsVectors(const LinearLayout &tile, const LinearLayout &registers, int64_t n);
/// Elements of `bytes` each that one store writes if they stay where they are, in `home`; 0 if memory is served badly
/// so: less than 8 bytes a thread, or neighbours in a warp that do not fill lines. `coalesced` is how a store would
/// have them, `vec` elements at a time. (Rows that are narrowed: half as much a thread costs less than an exchange,
/// which waits for the last of the row.)
int64_t storedInPlace(const LinearLayout &home, const LinearLayout &coalesced, int64_t vec, int64_t bytes);

} // namespace tegula::gpu
