// Operators on compile-time objects, with Python's meaning (`//` floors, `%` has the divisor's sign, `/` is real).
#pragma once
#include "lang/Ops.h"

namespace tegula::lang {

Value foldBinary(Context &c, BinOp op, const Value &a, const Value &b, Loc loc, Loc aLoc, Loc bLoc);
Value foldCompare(Context &c, Cmp op, const Value &a, const Value &b, Loc loc, Loc aLoc, Loc bLoc);
Value foldNegate(Context &c, const Value &a, Loc loc);
Value foldInvert(Context &c, const Value &a, Loc loc);
Value foldPlus(Context &c, const Value &a, Loc loc);

/// -1, 0, 1, or nullopt if unordered (NaN). Exact for ints beside floats.
std::optional<int> compareNumbers(const Value &a, const Value &b);
/// The same of numbers, strings and tuples of them; nullopt as well where Python has no order.
std::optional<int> orderOf(const Value &a, const Value &b);

} // namespace tegula::lang
