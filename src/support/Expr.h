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

/// Evaluates + - * / // % ( ) and cdiv(a, b), min(...), max(...), next_power_of_2(a) over 64-bit integers; `/` and `//`
/// floor. One comparison (< <= > >= == !=) is allowed at the top level and gives 0 or 1. Overflow and division by zero
/// are errors. On failure returns nullopt and sets `error`, with the position.
std::optional<int64_t> evaluate(std::string_view text, const NameLookup &names, std::string &error);

/// The 1 to 3 extents of a grid, expressions separated by commas; missing ones are 1. False: `error` has the reason.
bool evaluateGrid(std::string_view text, const NameLookup &names, int64_t grid[3], std::string &error);

/// Can evaluateGrid() accept `text`, if `isName` decides which names exist? Rejects now what would be an error for all
/// values of the names.
bool checkGrid(std::string_view text, const std::function<bool(std::string_view)> &isName, std::string &error);

/// A comma-separated list of expressions; commas inside parentheses do not separate: "cdiv(n, B), 4" has two.
std::vector<std::string> splitList(std::string_view text);

} // namespace tegula
