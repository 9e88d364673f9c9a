// Recognizes from the region of a reduction that it computes an extremum, or the index of one.
//
//   reduce %x, %index (%a, %i, %b, %j) { ... }      argmax, argmin: the value that beats all others, and its index
//
// The analysis compares meaning, not form. The region may only compare its arguments with each other and combine the
// results by logic, so it is a function of the order of the two values and of the two indices. The analysis evaluates
// it for all orders, NaNs included. Different spellings of the combination then give the same table, the library's
// (lib/standard.py) among them.
#pragma once
#include "ir/Ir.h"
#include <optional>

namespace tegula {

/// The pair (value, index) with the largest or smallest value. Zeros of either sign are equal. A NaN is worse than
/// every number. Of equal values, two NaNs among them, the smaller index (signed) wins, or any if `anyIndex`.
struct ArgExtremum {
  bool isMax = false;
  bool isSigned = true; // of integer values
  bool anyIndex = false;
};

/// For a reduction of (value, index) with integers of 32 or 64 bits as indices; nullopt for all others.
std::optional<ArgExtremum> argExtremum(const ir::Op &reduce);

/// Whether a reduction of two operands only selects among elements, by comparisons of the values with each other and of
/// the indices with each other.
bool choosesByOrder(const ir::Op &reduce);

/// The only operation in the region of a reduction of one operand, applied to both arguments in either order; nullopt
/// if the region has more.
std::optional<ir::OpKind> onlyOperation(const ir::Op &reduce);

} // namespace tegula
