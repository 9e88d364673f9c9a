// Replaces PTX instructions that ptxas (seen in CUDA 12.9 and 13.0) miscompiles or translates poorly. The pass works on
// PTX text, after code generation and not on IR: LLVM itself selects these instructions in many places, for example for
// divisions by constants.
#pragma once
#include <string>
#include <string_view>

namespace tegula::nvidia {

/// The text with these instructions replaced, each by instructions with the same result:
/// - neg.s16, neg.s32: ptxas loses the negation of the second operand of three-operand minima and maxima, and the
///   widened negation of -32768 is 32768
/// - abs.s16, abs.s32, abs.s64: ptxas assumes that the result is not negative, but that of the smallest value is; the
///   widened abs of -32768 is 32768
/// - mov.b64 {tmp, high}, product: `high` times a constant is lost if the product is of two 64-bit registers (13.0)
/// - a register that starts as a shared-memory address and is an induction variable of a loop: ptxas rematerializes
///   values computed from the address before the loop inside it, from the register after its increments (13.0: wrong
///   numbers, reads out of bounds). The replacement copies the address to a separate register.
/// - cvt from a floating-point type, applied to the bits of a select between the integers 1 and 0 (directly or moved to
///   a float register): ptxas reads the integer 1 as the float 1.0, and removes the conversion. The replacement selects
///   between the converted values.
/// - lop3.b32 of users' inline assembly with one register for two operands: when ptxas fuses it with exclusive ors, it
///   uses the wrong one (13.0)
/// - setp.eq of 32 bits and 0 in a text with lop3: ptxas crashes if it compares a lop3's result for a branch (12.9 to
///   13.4). An unsigned comparison with < 1 is equivalent.
/// - add.rn.f32, sub.rn.f32: with explicit rounding, ptxas assumes an unknown range for the result, and scales a
///   division by it for denominators that cannot occur. The replacement is add.f32 or sub.f32, which round alike, where
///   no product could be fused with it (those without explicit rounding).
/// - mul.hi.s32, mul.hi.u32: when ptxas fuses it with additions, it loses one of several, or the carry of a 64-bit
///   subtraction
std::string replaceForAssembler(std::string_view ptx);

} // namespace tegula::nvidia
