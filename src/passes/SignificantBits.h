// How many low bits of the elements of an integer tile can be other than zero, and how many are zero.
//
//   (q & 15)                     4 bits, whatever q is
//   reshape(trunc((q & 15)))     4 bits: shape operations move elements
//   (q >> 4) of unsigned bytes   4 bits
//
//   pid * 256                    the low 8 are zero, also where the product wraps around
//   pid * 256 + arange(0, 256)   no bit is set in both, so the sum does not wrap around, whatever pid is
//
// Every rule holds for wrapping arithmetic and assumes nothing about overflow (AxisFacts.h assumes that index
// arithmetic has none). Targets use it to decide whether an operand of a dot of bytes can be negative, which selects
// the instruction, and which sums allow their constant to be split off.
#pragma once
#include "ir/Ir.h"

namespace tegula {

/// Every element is less than 2^result as an unsigned number; the result is at most the width of the element. Looks at
/// a bounded number of operations.
unsigned significantBits(const ir::Value *v);

/// Whether no element is negative as a signed number.
inline bool signIsZero(const ir::Value *v) { return significantBits(v) < ir::bitWidth(v->type.elem); }

/// Every element is a multiple of 2^result; the width of the element if all are zero. Looks at a bounded number of
/// operations.
unsigned trailingZeros(const ir::Value *v);

/// Whether `op` is an integer `add` whose operands have no bit set in common, so that it overflows neither as a signed
/// nor as an unsigned number.
bool addsDisjointBits(const ir::Op &op);

} // namespace tegula
