// What ptxas (seen in CUDA 12.9 and 13.0) translates wrongly or not as well as it could, replaced in PTX text. LLVM
// chooses these instructions in many places, also for divisions by constants and patterns of its own, hence after code
// generation and not while IR is built.
#pragma once
#include <string>
#include <string_view>

namespace tegula::nvidia {

/// The text with these lines replaced, each by instructions of the same result:
/// - neg.s16, neg.s32: the negation of the second operand of three-operand minima and maxima is lost, and of -32768,
///   widened, is 32768
/// - abs.s16, abs.s32, abs.s64: the result counts as not negative, which that of the smallest value is; of -32768,
///   widened, is 32768
/// - mov.b64 {tmp, high}, product: `high` times a constant is lost where the product is of two 64-bit registers (13.0)
/// - a register that begins as the address of shared memory and that a loop steps: what was computed from the address
///   before the loop is computed anew inside, from the stepped register (13.0: wrong numbers, reads out of bounds); the
///   address gets a register of its own
/// - cvt from a floating-point type of the bits that a selection of the integers 1 and 0 leaves (itself or moved to a
///   float register): the assembler takes the 1 for the number 1, and the conversion for one that keeps it. What the
///   bits convert to is selected instead.
/// - lop3.b32 of users' inline assembly with one register for two operands: joined with exclusive ors it takes the
///   wrong one (13.0)
/// - setp.eq of 32 bits and 0 in a text with lop3: where a lop3's result is compared so for a branch, the assembler
///   dies (12.9 to 13.4). Below 1 without a sign is the same.
/// - add.rn.f32, sub.rn.f32: with the rounding said the range of the result counts as unknown, and a quotient by it is
///   scaled for denominators that it cannot be. Where no product could be joined with it (those that say no rounding),
///   add.f32 and sub.f32, which round alike.
/// - mul.hi.s32, mul.hi.u32: joined with additions, one of several is lost, or the carry of a 64-bit subtraction
std::string replaceForAssembler(std::string_view ptx);

} // namespace tegula::nvidia
