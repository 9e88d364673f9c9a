// Powers of two.
#pragma once
#include <bit>
#include <cstdint>

namespace tegula {

constexpr bool isPowerOfTwo(int64_t n) { return n > 0 && std::has_single_bit(static_cast<uint64_t>(n)); }

} // namespace tegula
