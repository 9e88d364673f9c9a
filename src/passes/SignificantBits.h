// How many low bits of the elements of an integer tile can be other than zero.
//
//   (q & 15)                     4 bits, whatever q is
//   reshape(trunc((q & 15)))     4 bits: shape operations move elements
//   (q >> 4) of unsigned bytes   4 bits
//
// Every rule holds for the bits as they are, so nothing is assumed of overflow (AxisFacts.h assumes that index arithmetic has none). Targets ask it whether an
// operand of a dot of bytes can be negative, which decides between instructions.
#pragma once
#include "ir/Ir.h"

namespace tegula {

/// At most the width of the element; every element is less than 2^result as an unsigned number. Looks at a bounded number of operations.
unsigned significantBits(const ir::Value *v);

/// Whether no element is negative as a signed number.
inline bool signIsZero(const ir::Value *v) { return significantBits(v) < ir::bitWidth(v->type.elem); }

} // namespace tegula
