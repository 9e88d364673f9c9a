// Semantics of elementwise operations on one element: the arithmetic of the tile IR, in one place.
//
// Elements travel as raw bits in a uint64_t: integers zero-extended from their width, floats by their encoding,
// pointers as addresses. Constant folding (Fold.cpp) and the interpreter (Interp.h) both use this file.
//
// Floats round once per operation, to nearest even. Narrow formats (f16, bf16, fp8) are computed in double, which is
// wide enough that rounding the double again gives the correctly rounded result of one operation. support/FloatFormat.h
// has the formats.
#pragma once
#include "ir/Ir.h"

namespace tegula::ir {

/// All ones below the width of the element (64 for a pointer).
uint64_t elemMask(Elem e);
/// The integer in the low bits, sign-extended; i1 gives 0 or 1, as constants are stored.
int64_t toConstInt(Elem e, uint64_t bits);
int64_t signExtend(Elem e, uint64_t bits);

/// Exact value of an encoded float.
double decodeFloat(Elem e, uint64_t bits);
/// Rounds to nearest even, or toward zero. `long double` holds every f64 and 64-bit integer exactly.
uint64_t encodeFloat(Elem e, long double v, bool towardZero = false);

/// The facts about an operation that its element function depends on.
struct ScalarOp {
  OpKind kind;
  Elem from;             // element of operand 0 (of operand 1 for select); I64 for pointers
  Elem to;               // element of the result; I64 for pointers
  CmpPred pred = CmpPred::Eq;
  bool towardZero = false;
  unsigned pointeeBytes = 1; // of addptr
  Elem offset = Elem::I64;   // of addptr: width of the offset
};
/// The facts for `kind` with these operand and result types.
ScalarOp scalarOp(OpKind kind, std::span<Value *const> operands, const Type &result, std::span<const Attr> attrs);

/// The result for one element; nullopt where the IR leaves the value undefined (division by zero). The op must have the
/// Elementwise trait.
std::optional<uint64_t> evalScalar(const ScalarOp &op, std::span<const uint64_t> args);

/// Bits of one element of a Const of element kind `e`.
uint64_t constantBits(Elem e, const AttrValue &value);
AttrValue constantAttr(Elem e, uint64_t bits);

} // namespace tegula::ir
