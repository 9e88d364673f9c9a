// Groups of neighbouring elements, in row-major order: for functions that take several elements at once (`pack`).
#pragma once
#include "ir/Builder.h"
#include <span>

namespace tegula::lang {

/// The values of elements 0, 1, ... of every group of `count` neighbours, as blocks of one dimension. `x` has one
/// dimension; `count` is a power of two that divides its extent.
std::vector<ir::Value *> deal(ir::Builder &b, ir::Value *x, unsigned count);
/// The inverse of deal().
ir::Value *gatherUp(ir::Builder &b, std::span<ir::Value *const> parts);
/// For a block or scalar with fewer elements than a group: repeats each element, `count` elements in all.
ir::Value *repeated(ir::Builder &b, ir::Value *x, int64_t count);

} // namespace tegula::lang
