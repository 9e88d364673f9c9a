// What reductions and scans may do with their operation: what they may combine any value with, and the value is the
// result; in which order they combine.
#pragma once
#include "ir/Builder.h"

namespace tegula {

/// A tile of it, of type `t`; null if the operation has several operands, combines by more than one operation, or
/// nobody knows.
ir::Value *neutralElement(ir::Builder &b, const ir::Op &reduction, const ir::Type &t);

/// May results of this operation be combined in another order? Sums of f32 and f64 may change in their last bits then.
/// Those of f16 and bf16 are rounded so much that most bits could, and partial products of floats could overflow where
/// the whole does not.
bool isReorderable(const ir::Op &op);

} // namespace tegula
