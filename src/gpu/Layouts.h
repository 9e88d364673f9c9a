// Which layout an operation wants: choices as pure functions from shapes to LinearLayouts.
//
// Every layout here has the inputs Register, Lane (log2 of the lanes of a warp) and Warp (log2 of the number of warps) and the tensor's
// coordinates as outputs, row-major flat (layout/LinearLayout.h). Where a tensor has fewer elements than there are
// threads, lane or warp bits are zero: several threads hold the same element. Register bits are never zero.
#pragma once
#include "ir/Ir.h"
#include "layout/LinearLayout.h"
#include <span>

namespace tegula::gpu {

using layout::LinearLayout;

/// Those of a program; both numbers are powers of two.
struct Threads {
  unsigned lanes, warps; // lanes: of a warp
  unsigned count() const { return lanes * warps; }
};

/// Elements dealt out along `order` (fastest axis first): `vec` consecutive elements to the registers of a thread, then
/// one step per lane, then per warp, then the rest to registers. With the axis of contiguous addresses first this is the
/// coalesced layout of an access.
LinearLayout dealtLayout(const ir::Shape &shape, std::span<const unsigned> order, int64_t vec, Threads threads);
/// Row-major dealtLayout, several neighbours per thread if there are enough elements: for values nothing else decides.
LinearLayout defaultLayout(const ir::Shape &shape, Threads threads);
/// `l` with its warps where those of `other` are, by exchanging bases of warps and registers: values then move from `other` to it without
/// leaving their warp. The lowest `kept` registers and all lanes stay; `l` as it is if that cannot be.
LinearLayout withWarpsOf(const LinearLayout &l, const LinearLayout &other, unsigned kept);
/// For a scan along `axis`: each thread holds consecutive elements of the axis, the next ones are in the next lane, then in
/// the next warp; what is left of lanes and warps goes to the other axes. All register bits of the axis lie lowest.
LinearLayout scanLayout(const ir::Shape &shape, unsigned axis, Threads threads);
/// Accumulator [(B,)M,N] of a dot computed by multiply-adds, and its operands: registers run over all of K.
LinearLayout fmaAccLayout(const ir::Shape &shape, Threads threads);
LinearLayout fmaOperandLayout(const LinearLayout &acc, const ir::Shape &operand, bool isA);

/// The layout of the result of a reduction along `axis`.
LinearLayout reducedLayout(const LinearLayout &l, const ir::Shape &shape, unsigned axis);
/// Parts that CTAs exchange, of layout `l` (scalarLayout of scalars): with a new first axis, along which a thread holds all elements.
LinearLayout gatheredLayout(const LinearLayout &l, const ir::Shape &gathered);
/// Every thread holds the one element.
LinearLayout scalarLayout(Threads threads);
/// The layout of a join's result: the operand's, pairs next to each other in registers. And of a split's operand halves.
LinearLayout joinedLayout(const LinearLayout &l, const ir::Shape &operand);
/// Layout for a split's operand such that pairs lie in one thread: `l` if it does already, else derived from it.
LinearLayout splittableLayout(const LinearLayout &l, const ir::Shape &operand);
LinearLayout splitLayout(const LinearLayout &l, const ir::Shape &operand);
/// cat along an axis: the operand's layout with one more register bit.
LinearLayout concatenatedLayout(const LinearLayout &l, const ir::Shape &operand, unsigned axis);
/// And back, given a layout whose halves along the axis lie in different registers of each thread.
LinearLayout catOperandLayout(const LinearLayout &l, const ir::Shape &operand);

/// Splat, expand_dims, broadcast, permute, reshape: nothing is computed, elements get other coordinates.
inline bool renames(ir::OpKind k) {
  using ir::OpKind;
  return k == OpKind::ExpandDims || k == OpKind::Broadcast || k == OpKind::Permute || k == OpKind::Reshape || k == OpKind::Splat;
}
/// For ops that only rename coordinates (ExpandDims, Broadcast, Permute, Reshape): the layout the operand must have so that
/// no data moves, given the result's; and for those where it is determined, the result's given the operand's.
LinearLayout operandLayout(const ir::Op &op, const LinearLayout &result);
LinearLayout resultLayout(const ir::Op &op, const LinearLayout &operand);

/// Where the element is that an `exchange` gives for one's own: differences (exclusive or) of register, lane and warp. The same thread has it, if that can be,
/// else the same warp.
struct Partner {
  uint32_t inRegisters = 0, inLanes = 0, inWarps = 0;
};
Partner partnerOf(const LinearLayout &l, const ir::Op &exchange);

/// True if every basis steps along one axis only: reductions may treat register, lane and warp bits one by one.
bool axesAreSeparate(const LinearLayout &l);
/// Do the first `n` registers of a thread (a vector of a load) lie side by side in a tile, in this order?
bool keepsVectors(const LinearLayout &tile, const LinearLayout &registers, int64_t n);
/// A tile, offset -> coordinates, in which what a thread holds lies side by side.
LinearLayout tileByThreads(const LinearLayout &registers);

} // namespace tegula::gpu
