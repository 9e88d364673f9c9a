// Finds tiles of addresses that have no element in common, from the sums that compute the addresses.
//
//   o1 = row * stride + head * 128 + arange(0, 64);  o2 = o1 + 64            halves of a head: 64 elements, the others 64 further on
//   o = (r + arange(0, 8))[:, None] * n + (i + arange(0, 256))[None, :]      columns of rows, i + arange(0, 256) < n: other columns are other elements, whatever the rows
//
// Sums are assumed not to wrap, as in every comparison of addresses.
#pragma once
#include "ir/Ir.h"
#include <functional>
#include <optional>
#include <vector>

namespace tegula::gpu {

/// `v` without conversions between layouts, view operations (Layouts.h) and widenings of integers.
const ir::Value *stripped(const ir::Value *v);

/// Do equal operations compute both values from equal operands, in any layout? Compares stripped values, or, if
/// `inPlace`, values with the same elements at the same positions. Looks at chains of eight operations.
bool areAlike(const ir::Value *a, const ir::Value *b, bool inPlace);

/// By how many elements each address of `b` is after that of `a`, if the number is the same for all. For tiles of one
/// shape (or scalars), in the same iteration of the enclosing loops.
std::optional<int64_t> constantDistance(const ir::Value *a, const ir::Value *b);

/// Does a tile of addresses have no element in common with the tile `distance` elements after it? False if that is not
/// known.
bool isApartFrom(const ir::Value *pointer, int64_t distance);

/// Is each address the sum of `column`, a multiple of the scalar `width`, and scalars for which `isFixed` holds?
/// `axes`: the axes that expand_dims adds to the column on its way into the tile, the last one first.
bool isColumnOfRows(const ir::Value *pointer, const ir::Value *column, std::vector<int64_t> axes,
                    const ir::Value *width, const std::function<bool(const ir::Value &)> &isFixed);

} // namespace tegula::gpu
