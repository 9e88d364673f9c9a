// What a reduction computes, from the text of its region: an extremum, or the place of one.
//
//   reduce %x, %index (%a, %i, %b, %j) { ... }      argmax, argmin: the value that beats all others, and its index
//
// Recognized by meaning and not by form: the region may hold nothing but comparisons of its arguments with each other,
// and logic on their results, so it is a function of the order of the two values and of the two indices; it is
// evaluated for all orders, NaNs included. Many ways to write the combination are the same table then, the library's
// (lib/standard.py) among them.
#pragma once
#include "ir/Ir.h"
#include <optional>

namespace tegula {

/// The pair (value, index) with the largest or smallest value. Zeros of either sign are equal. A NaN loses against
/// every number. Of equal values, two NaNs among them, the smaller index (signed) wins, or any if `anyIndex`.
struct ArgExtremum {
  bool isMax = false;
  bool isSigned = true; // of integer values
  bool anyIndex = false;
};

/// For a reduction of (value, index) with integers of 32 or 64 bits as indices; nullopt for all others.
std::optional<ArgExtremum> argExtremum(const ir::Op &reduce);

/// Does a reduction of two operands only choose among elements, by comparisons of the values with each other and of the
/// indices with each other?
bool choosesByOrder(const ir::Op &reduce);

/// The one operation on both arguments, in any order, that is all of a reduction of one operand; nullopt if it is more
/// than that.
std::optional<ir::OpKind> onlyOperation(const ir::Op &reduce);

} // namespace tegula
