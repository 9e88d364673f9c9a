// See TurnedTiles.h.
#include "gpu/layouts/TurnedTiles.h"
#include "gpu/layouts/ElementUses.h"
#include "layout/Constructors.h"
#include <algorithm>
#include <array>
#include <vector>

namespace tegula::gpu {

using ir::Op;
using ir::OpKind;
using ir::Value;

namespace {
struct OperandUse {
  const Op *dot;
  unsigned operand;
  std::array<unsigned, 2> axes; // axes of the operand that the axes of the value become
};
} // namespace

/// Adds the operands of dots that are computed from `v`, a tile of two axes, element by element in at most `depth`
/// steps.
static void addOperandUses(const Users &users, const Value *v, std::array<unsigned, 2> axes, unsigned depth,
                           std::vector<OperandUse> &out) {
  if (!depth || v->type.shape.rank() != 2)
    return;
  for (const Op *u : users.of(v)) {
    if (u->kind == OpKind::Dot && u->operands[2] != v)
      out.push_back({u, u->operands[0] == v ? 0u : 1u, axes});
    else if (u->kind == OpKind::Permute && u->perm()[0] == 1)
      addOperandUses(users, u->result(), {1 - axes[0], 1 - axes[1]}, depth - 1, out);
    else if (u->results.size() == 1 && (u->has(ir::traits::Elementwise) || u->kind == OpKind::Permute))
      addOperandUses(users, u->result(), axes, depth - 1, out);
  }
}

std::optional<layout::LinearLayout> turnedInBlocks(const Value *loaded, unsigned axis, int64_t vec, const Users &users,
                                                   const TargetInfo &target, unsigned warps) {
  std::vector<OperandUse> uses;
  addOperandUses(users, loaded, {0, 1}, 4, uses);
  for (const OperandUse &use : uses) {
    const DotChoice choice = target.chooseDot(*use.dot, warps);
    const ir::Type &t = use.dot->operands[use.operand]->type;
    const int64_t bytes = ir::byteWidth(t.elem);
    if (choice.kind != DotKind::AsyncMma || bytes != wordBytes)
      continue;
    const layout::Threads threads{target.lanes(), warps};
    const unsigned there = use.axes[axis], other = 1 - there;
    const layout::LinearLayout tile = target.operandTile(
        choice, t, use.operand == 0, layout::dealt(t.shape, layout::Extents{there, other}, vec, threads));
    if (tile.basis(layout::Dim::Offset, 0, layout::tensorDim(there)))
      continue;
    const int64_t perThread = std::max<int64_t>(1, t.numel() / threads.count());
    return layout::dealtInBlocks(loaded->type.shape, layout::Extents{axis, 1 - axis}, vec,
                                 std::min({16 / bytes, perThread / vec, t.shape[other]}), threads);
  }
  return std::nullopt;
}

std::optional<layout::LinearLayout> turnedByMatrices(const ir::Type &operand, const layout::LinearLayout &registers,
                                                     const layout::LinearLayout &tile, const TargetInfo &target,
                                                     unsigned warps) {
  if (operand.shape.rank() != 2 || ir::byteWidth(operand.elem) != 1 || operand.isPtr || operand.shape[0] < 16 ||
      operand.shape[1] < 16)
    return std::nullopt;
  auto stores = [&](const layout::LinearLayout &l) {
    return layout::planSharedAccess(l, tile, 8, /*store=*/true, target.conversions());
  };
  if (const layout::SharedSide now = stores(registers);
      now.move != layout::SharedMove::Plain || now.elements >= wordBytes)
    return std::nullopt;
  const unsigned across = tile.basis(layout::Dim::Offset, 0, layout::tensorDim(0)) ? 0 : 1;
  layout::LinearLayout turned =
      layout::dealtForTurns(operand.shape, layout::Extents{1 - across, across}, {target.lanes(), warps});
  return stores(turned).move == layout::SharedMove::Matrix ? std::optional(std::move(turned)) : std::nullopt;
}

layout::LinearLayout layoutOfBlock(const Value *loaded, const Users &users, const TargetInfo &target, unsigned warps) {
  const ir::Type &t = loaded->type;
  const layout::Threads threads{target.lanes(), warps};
  const int64_t perThread = std::max<int64_t>(1, t.numel() / threads.count()),
                vec = std::min<int64_t>(perThread, 16 / ir::byteWidth(t.elem));
  layout::Extents order;
  for (unsigned axis = t.shape.rank(); axis-- > 0;)
    order.push(axis);
  return turnedInBlocks(loaded, t.shape.rank() - 1, vec, users, target, warps)
      .value_or(layout::dealt(t.shape, order, vec, threads));
}

} // namespace tegula::gpu
