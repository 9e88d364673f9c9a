// Small integer expressions of the command line: `cdiv(n, BLOCK)`, `m * 2`, in grids and shapes.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tegula {

/// Value of a name, or nullopt if there is none.
using NameLookup = std::function<std::optional<int64_t>(std::string_view)>;

/// Evaluates + - * / // % ( ) and cdiv(a, b), min(...), max(...), next_power_of_2(a) over 64-bit integers; `/` and `//` floor. At
/// the top one comparison (< <= > >= == !=) gives 0 or 1. On failure
/// returns nullopt and says why in `error`, naming the position. Overflow and division by zero are errors.
std::optional<int64_t> evaluate(std::string_view text, const NameLookup &names, std::string &error);

/// A comma-separated list of expressions, commas inside parentheses excepted: "cdiv(n, B), 4" has two.
std::vector<std::string> splitList(std::string_view text);

} // namespace tegula
