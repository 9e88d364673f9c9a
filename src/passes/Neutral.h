// What a reduction or scan may combine any value with, and the value is the result.
#pragma once
#include "ir/Builder.h"

namespace tegula {

/// A tile of it, of type `t`; null if the operation has several operands, combines by more than one operation, or nobody knows.
ir::Value *neutralElement(ir::Builder &b, const ir::Op &reduction, const ir::Type &t);

} // namespace tegula
