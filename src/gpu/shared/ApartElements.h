// Tiles of addresses that have no element in common, found from the sums that the addresses are.
//
//   o1 = row * stride + head * 128 + arange(0, 64);  o2 = o1 + 64            halves of a head: 64 elements, the others 64 further on
//   o = (r + arange(0, 8))[:, None] * n + (i + arange(0, 256))[None, :]      columns of rows, i + arange(0, 256) < n: other columns are other elements, whatever the rows
//
// As everywhere where addresses are compared, sums do not wrap.
#pragma once
#include "ir/Ir.h"
#include <functional>
#include <optional>
#include <vector>

namespace tegula::gpu {

/// Without what only spreads elements out, or keeps them elsewhere: conversions between layouts, names of other shapes
/// (Layouts.h), widened integers.
const ir::Value *stripped(const ir::Value *v);

/// Are both computed alike, by equal operations from what is? In whatever layout. Of stripped values, or, if `inPlace`,
/// with the same elements in the same places. Looks at chains of eight operations.
bool areAlike(const ir::Value *a, const ir::Value *b, bool inPlace);

/// By how many elements each address of `b` is behind that of `a`, if it is the same number for all: tiles of one shape
/// (or scalars), in the same iteration of the loops around.
std::optional<int64_t> constantDistance(const ir::Value *a, const ir::Value *b);

/// Has a tile of addresses no element in common with the tile that lies `distance` elements after it? False where it
/// cannot be told.
bool isApartFrom(const ir::Value *pointer, int64_t distance);

/// Is each address `column`, plus a multiple of the scalar `width`, plus scalars that `isFixed` holds for? `axes`:
/// those that are given to the column's elements on their way into the tile, the last one first.
bool isColumnOfRows(const ir::Value *pointer, const ir::Value *column, std::vector<int64_t> axes,
                    const ir::Value *width, const std::function<bool(const ir::Value &)> &isFixed);

} // namespace tegula::gpu
