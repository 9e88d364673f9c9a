// Tiles in shared memory: their layouts, where no instruction requires one, their bytes, and their last users.
#pragma once
#include "ir/Ir.h"
#include "layout/Conversion.h"
#include <optional>
#include <unordered_map>

namespace tegula::gpu {

/// The axis, of two, along which a thread's registers, or a tile's bytes, are consecutive, for the widest accesses.
unsigned contiguousAxis(const layout::LinearLayout &l, unsigned elemBytes);
/// A tile, offset in elements -> coordinates, for a tensor of layout `registers`: elements that are consecutive in
/// registers are consecutive in memory. Dots of DotKind::FmaTiles read it, and copies fill it. `vec`: the first `vec`
/// registers (a vector of a load) must be consecutive in memory; 1: the best axis is chosen.
layout::LinearLayout plainTile(const ir::Type &t, const layout::LinearLayout &registers, int64_t vec = 1);
/// The tile that copies of `vec` elements along `axis` fill and that matrix moves read in layout `read`
/// (layout::dealtForTurns): rows whose pieces are swizzled for matrix moves. Nullopt if `read` is no such layout.
std::optional<layout::LinearLayout> rowsForTurns(const ir::Type &tile, const layout::LinearLayout &read, unsigned axis,
                                                 int64_t vec, const layout::ConversionOptions &options);
/// The alignment of a tile or of a ring of tiles: SharedMemory::tileAlign; for rows, that which a block copy requires.
uint32_t alignOf(const ir::Type &tile);
/// Bytes from one tile of a ring to the next: a multiple of alignOf, at which swizzle patterns begin (rows have none).
uint64_t slotBytes(const ir::Type &tile);

/// The operation that allocates the tile or ring of which a shared value is a view; null if the value is a block
/// argument.
const ir::Op *tileOf(const ir::Value *v);
/// For each tile in the block and its regions: the last operation of the tile's own block that uses it, itself or in
/// its regions. If the first partition of the warps uses the tile, the last user in the partition, or in the only side
/// of a branch there that uses it.
std::unordered_map<const ir::Op *, const ir::Op *> lastUsersOfTiles(const ir::Block &b);

} // namespace tegula::gpu
