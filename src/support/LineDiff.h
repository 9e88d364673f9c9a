// The difference of two texts line by line, for people to read.
#pragma once
#include <string>
#include <string_view>

namespace tegula {

/// Lines that are in one text only, with `-` and `+` in front, and two lines around them; `...` stands for others.
/// Empty if the texts are equal. Uses as many bytes of memory as the product of the numbers of lines between the first
/// and the last difference, up to 64 MiB; beyond, all these lines are different.
std::string lineDiff(std::string_view before, std::string_view after);

} // namespace tegula
