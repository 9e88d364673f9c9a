// Python's formatting of compile-time values: format(), f-strings, str.format and `%`.
#pragma once
#include "lang/Builtin.h"

namespace tegula::lang {

/// The text of `v` as format(v, spec) gives it; reports at `loc` and returns Error for a spec that Python rejects, or
/// whose type does not fit.
Value formatValue(Context &c, const Value &v, std::string_view spec, Loc loc);
/// `text % args`: args is a tuple of values, or one value. The conversions are those of Python except for `%(name)`.
Value formatPercent(Context &c, const std::string &text, const Value &args, Loc loc);
/// text.format(*args): {}, {0}, {:spec}, {0!r:spec}, {name} of `named`, tuples of (name, value).
Value formatBraces(Context &c, const std::string &text, const std::vector<Value> &args, const std::vector<Value> &named,
                   Loc loc);

} // namespace tegula::lang
