// The line-by-line difference of two texts, for people to read.
#pragma once
#include <string>
#include <string_view>

namespace tegula {

/// Lines that only one text has, marked with `-` and `+`, and two lines of context around them; `...` stands for the
/// rest. Empty if the texts are equal. The memory in bytes is the product of the numbers of lines between the first and
/// the last difference, up to 64 MiB; beyond that, all these lines count as different.
std::string lineDiff(std::string_view before, std::string_view after);

} // namespace tegula
