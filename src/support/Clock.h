// The clock for durations: monotonic, and the same for all threads of the machine.
#pragma once
#include <chrono>
#include <cstdint>

namespace tegula {

/// Nanoseconds since a moment that is fixed for the whole process.
inline uint64_t steadyNs() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

} // namespace tegula
