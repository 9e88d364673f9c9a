// The clock that durations are measured by: it never goes back, and runs alike for all threads of the machine.
#pragma once
#include <chrono>
#include <cstdint>

namespace tegula {

/// Nanoseconds since a moment that is the same for the whole process.
inline uint64_t steadyNs() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

} // namespace tegula
