// Tiles that are turned on their way to a dot: TF32 operands of wgmma are contiguous along the contraction (PTX ISA,
// wgmma.mma_async: only 16-bit types may be transposed), whatever lies side by side in memory.
// AssignLayouts asks here where the elements of such a load live: in blocks (layout::dealtInBlocks), so that each
// thread stores vectors of what it has loaded as vectors.
#pragma once
#include "gpu/TargetInfo.h"
#include "layout/LinearLayout.h"
#include "passes/Users.h"
#include <optional>

namespace tegula::gpu {

/// The layout of `loaded`, which accesses of `vec` elements bring along `axis` (a power of two, at most 16 bytes), by
/// `warps` warps. Nothing if no asynchronous dot turns it, element by element in a few steps (others may read it as it
/// comes: blocks are stored by vectors along both axes), or elements of less than a word: these would be turned by
/// instructions.
std::optional<layout::LinearLayout> turnedInBlocks(const ir::Value *loaded, unsigned axis, int64_t vec,
                                                   const Users &users, const TargetInfo &target, unsigned warps);
/// Where bytes are turned that are loaded as `registers` and that a dot reads from `tile`, contiguous along the other
/// axis: by matrix moves (layout::dealtForTurns). Nothing if they lie as they are read, or where matrix moves do not
/// fit.
std::optional<layout::LinearLayout> turnedByMatrices(const ir::Type &operand, const layout::LinearLayout &registers,
                                                     const layout::LinearLayout &tile, const TargetInfo &target,
                                                     unsigned warps);
/// That of a tile which a block load brings: rows by 16 bytes, or blocks of them.
layout::LinearLayout layoutOfBlock(const ir::Value *loaded, const Users &users, const TargetInfo &target,
                                   unsigned warps);

} // namespace tegula::gpu
