// Layouts for tiles that are transposed on their way to a dot: TF32 operands of wgmma must be contiguous along the
// contraction (PTX ISA, wgmma.mma_async: only 16-bit types may be transposed), whichever axis is contiguous in memory.
// AssignLayouts gets the layout of such a load here: blocks (layout::dealtInBlocks), in which each thread both loads
// and stores vectors.
#pragma once
#include "gpu/TargetInfo.h"
#include "layout/LinearLayout.h"
#include "passes/Users.h"
#include <optional>

namespace tegula::gpu {

/// The layout of `loaded`, which `warps` warps load with accesses of `vec` elements (a power of two, at most 16 bytes)
/// along `axis`. Nullopt if no asynchronous dot reads it transposed, element by element in a few steps (other dots may
/// read it as it is: blocks are stored by vectors along both axes), or if its elements are not words: transposing
/// smaller elements would take instructions.
std::optional<layout::LinearLayout> turnedInBlocks(const ir::Value *loaded, unsigned axis, int64_t vec,
                                                   const Users &users, const TargetInfo &target, unsigned warps);
/// The layout in which matrix moves (layout::dealtForTurns) transpose bytes that are loaded in layout `registers` and
/// that a dot reads from `tile`, contiguous along the other axis. Nullopt if stores by words or by matrix moves are
/// possible from `registers`, or where matrix moves do not fit.
std::optional<layout::LinearLayout> turnedByMatrices(const ir::Type &operand, const layout::LinearLayout &registers,
                                                     const layout::LinearLayout &tile, const TargetInfo &target,
                                                     unsigned warps);
/// The layout of a tile that a block load gives: rows by 16 bytes, or blocks of them.
layout::LinearLayout layoutOfBlock(const ir::Value *loaded, const Users &users, const TargetInfo &target,
                                   unsigned warps);

} // namespace tegula::gpu
