// Small text helpers shared by messages.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace tegula {

/// Number of insertions, deletions, replacements and swaps of neighbours that turn a into b (optimal string alignment
/// distance).
unsigned editDistance(std::string_view a, std::string_view b);
/// The candidate nearest to `name`, if it is near enough for a typing error (a third of the length, at least 1); else
/// empty.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);

} // namespace tegula
