// Algebra of the operations of reductions and scans: the neutral element, and whether the order of combination may
// change.
#pragma once
#include "ir/Builder.h"

namespace tegula {

/// The neutral element as a tile of type `t`; null if the reduction has several operands, combines by more than one
/// operation, or has no known neutral element.
ir::Value *neutralElement(ir::Builder &b, const ir::Op &reduction, const ir::Type &t);

/// Whether results of this operation may be combined in another order. Sums of f32 and f64 may change in their last
/// bits then. Sums of f16 and bf16 round so coarsely that most bits could change, and partial products of floats could
/// overflow where the whole product does not.
bool isReorderable(const ir::Op &op);

} // namespace tegula
