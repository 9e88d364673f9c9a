// Relates layouts to operations: the layout of an operand given the result's, and queries that the passes make of a
// layout. layout/Constructors.h constructs the layouts.
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

/// Splat, expand_dims, broadcast, permute, reshape: view operations, which compute nothing and give elements other
/// coordinates.
inline bool renames(ir::OpKind k) {
  using ir::OpKind;
  return k == OpKind::ExpandDims || k == OpKind::Broadcast || k == OpKind::Permute || k == OpKind::Reshape ||
         k == OpKind::Splat;
}
/// The value that `v` is made of through such operations; `v` itself if there are none.
inline const ir::Value *beforeRenames(const ir::Value *v) {
  while (v->def && renames(v->def->kind))
    v = v->def->operands[0];
  return v;
}
/// Those, and conversions between layouts: no element changes its value.
inline bool isView(ir::OpKind k) { return k == ir::OpKind::Convert || renames(k); }
/// The value that `v` is a view of; `v` itself if it is none.
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
/// For view operations (ExpandDims, Broadcast, Permute, Reshape): the layout the operand must have so that no data
/// moves, given the result's. resultLayout is the inverse, for those operations that determine it (not Broadcast).
LinearLayout operandLayout(const ir::Op &op, const LinearLayout &result);
LinearLayout resultLayout(const ir::Op &op, const LinearLayout &operand);

/// Where the element is that an `exchange` gives in place of a thread's own: the differences (exclusive or) of
/// register, lane and warp. The same thread holds it if possible, else the same warp.
struct Partner {
  uint32_t inRegisters = 0, inLanes = 0, inWarps = 0;
};
Partner partnerOf(const LinearLayout &l, const ir::Op &exchange);

/// Does every basis step along one axis only? Then reductions may treat register, lane and warp bits one by one.
bool axesAreSeparate(const LinearLayout &l);
/// Does a reduction or scan combine elements of several threads?
bool crossesThreads(const ir::Module &m, const ir::Op &op);
/// Are the first `n` registers of a thread (a vector of a load) consecutive in a tile, in this order?
bool keepsVectors(const LinearLayout &tile, const LinearLayout &registers, int64_t n);
/// Elements of `bytes` each that one store writes if they stay in the layout `home`; 0 if such stores use memory badly:
/// less than 8 bytes a thread, or neighbours in a warp that do not fill lines. `coalesced` is the layout of a coalesced
/// store of `vec` elements at a time. (Rows that are narrowed: stores of half as many bytes a thread cost less than an
/// exchange, which waits for the last element of the row.)
int64_t storedInPlace(const LinearLayout &home, const LinearLayout &coalesced, int64_t vec, int64_t bytes);

} // namespace tegula::gpu
