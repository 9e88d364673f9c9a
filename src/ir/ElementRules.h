// The verifier's rules about the elements of elementwise operations (Verifier.cpp).
#pragma once
#include "ir/Ir.h"

namespace tegula::ir {

/// Bits of an element.
inline unsigned widthOf(const Type &t) { return t.isPtr ? 64 : bitWidth(t.elem); }

/// Do the elements of the operands of an elementwise operation and those of its result fit the operation? False of
/// other operations. Shapes and layouts do not count.
bool fitsElements(const Op &op);

} // namespace tegula::ir
