// The verifier's rules about the elements of elementwise operations (Verifier.cpp).
#pragma once
#include "ir/Ir.h"

namespace tegula::ir {

/// Bits of an element.
inline unsigned widthOf(const Type &t) { return t.isPtr ? 64 : bitWidth(t.elem); }

/// Whether the element types of an elementwise operation's operands and result fit the operation; false for other
/// operations. Ignores shapes and layouts.
bool fitsElements(const Op &op);

} // namespace tegula::ir
