// Tiles in shared memory: their layouts, where no instruction asks for a certain one, and their bytes.
#pragma once
#include "ir/Ir.h"
#include "layout/Conversion.h"
#include <optional>
#include <unordered_map>

namespace tegula::gpu {

/// The axis along which a thread's registers, or a tile's bytes, are consecutive (of two), for accesses as wide as can
/// be.
unsigned contiguousAxis(const layout::LinearLayout &l, unsigned elemBytes);
/// A tile for a tensor of these registers, offset in elements -> coordinates: what is consecutive in registers is so in
/// memory. Dots of DotKind::FmaTiles read it, and copies fill it. `vec`: that many registers, the first ones, must be
/// (a load's vectors); 1: as is best.
layout::LinearLayout plainTile(const ir::Type &t, const layout::LinearLayout &registers, int64_t vec = 1);
/// The tile that copies of `vec` elements along `axis` fill and that matrix moves read in layout `read`
/// (layout::dealtForTurns): in rows whose pieces are swizzled for those. Nothing if `read` is no such layout.
std::optional<layout::LinearLayout> rowsForTurns(const ir::Type &tile, const layout::LinearLayout &read, unsigned axis,
                                                 int64_t vec, const layout::ConversionOptions &options);
/// Where a tile or a ring of them starts: at multiples of SharedMemory::tileAlign; rows, of what a block copy asks.
uint32_t alignOf(const ir::Type &tile);
/// Bytes from one tile of a ring to the next: multiples of alignOf, as patterns of banks begin there, which rows have
/// none of.
uint64_t slotBytes(const ir::Type &tile);

/// The operation whose tile or ring a shared value is (a part of); null if another block gave it.
const ir::Op *tileOf(const ir::Value *v);
/// Of each tile in the block and its regions, the last operation of the tile's own block that uses it, itself or in its
/// regions; of one that the first partition of the warps uses, that of the partition, or of the only way of a branch in
/// it that does.
std::unordered_map<const ir::Op *, const ir::Op *> lastUsersOfTiles(const ir::Block &b);

} // namespace tegula::gpu
