// Computes offsets, masks and bounds in 64 bits, for launches with a tensor so large that 32 bits may not hold its
// offsets.
//
//   %o = mul %pid, %c                                %p = sext %pid : i64
//   %s = splat %o : tensor<8xi32>             =>     %w = mul %p, %c64
//   %i = add %s, %range                              %t = splat %w : tensor<8xi64>
//   %m = cmpi %i, %n {slt}                           %j = add %t, (sext %range)
//   %a = addptr %x, %i                               %m = cmpi %j, (sext %n) {slt}
//                                                    %a = addptr %x, %j
//
// When 32 bits suffice: kernels are compiled in two forms (CompileOptions::wide in the key). The plain one is for
// launches in which no tensor has bigTensorElements (2^30) or more: every offset from an argument to an element that
// exists lies in (-2^30, 2^30). Sums, differences, products and left shifts modulo 2^32 equal those of the integers
// modulo 2^32, so an offset is right even if intermediate results wrapped; the extension to 64 bits and the
// multiplication by the size of an element come last and do not wrap. A masked-off element may have any address. The
// margin of two is for operations other than sums and products: comparisons, quotients and the CPU's forms of addresses
// (targets/cpu/plan/Lin.h extends the terms of a sum) see numbers up to twice the largest tensor, or one program's
// block beyond it, unwrapped. Two cases still overflow: a kernel that adds several offsets to a pointer one after the
// other, of which one alone does not fit 32 bits; and masks of positions beyond 2^31 in no tensor. In both, int32
// arithmetic of the source is wrong for tensors of any size.
//
// Widened are values that reach a root through the operations below, and only if they may leave the range of 32 bits
// (spans of constants, ranges, program ids, remainders ... say so). Roots are offsets of addptr, masks of accesses,
// conditions of `if` and `while`, bounds of `for`.
//   * add, sub, mul, shl, sdiv, srem, ashr, and, or, smin, smax, absi, select (and its condition), all that moves
//     elements, reductions and scans by one of these, values carried by loops and given by `if`, the counter of a
//     `for`;
//   * through an extension to 64 bits, however it came about: `(a * b).to(int64)` and `a * b + n64` are widened as
//     well;
//   * comparisons (signed ones, == and !=) that masks and conditions are made of.
// Leaves, which are extended as they are: program ids, ranges, loads, arguments, casts from other types. So are xor,
// `and` with a constant that is not negative, and unsigned operations: hashes and random numbers use them and rely on
// wrapping. uint32 is modulo 2^32 by the language and stays so.
//
// The 32-bit values stay where something else uses them, so data does not change. Counters and carried values get a
// twin; RemoveDead removes those without users.
//
// Pointers cast to a smaller element: such an address counts more elements than the argument has, so offsets of an
// access through one are always widened (widenNarrowedOffsets), and the rest as above. (A third class of launches, by
// bytes, would compile every kernel once more for tensors of more than a GiB.)
//
// Runs after ExpandDescriptors, which makes roots, and before AffineCarried, which must see the final offsets. Calls
// must have been inlined.
#pragma once
#include "ir/Ir.h"

namespace tegula {

/// Whether a function casts pointers to a smaller element.
bool narrowsPointers(const ir::Module &m);
/// For launches with large tensors.
void widenOffsets(ir::Module &m);
/// For the others: offsets from pointers that were cast to smaller elements, masks of accesses through them, and
/// conditions and counters around those.
void widenNarrowedOffsets(ir::Module &m);

} // namespace tegula
