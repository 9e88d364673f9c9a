// How often a test with random inputs tries: all rounds in ordinary builds, a quarter of them under a sanitizer, which
// takes ten times as long for each: it looks for accesses and overflows of kinds that a few hundred rounds meet, not
// for rare wrong results.
#pragma once
#include <cstdint>

namespace tegula::test {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEGULA_TEST_SANITIZED 1
#endif
#endif

constexpr uint64_t rounds(uint64_t all) {
#ifdef TEGULA_TEST_SANITIZED
  return (all + 3) / 4;
#else
  return all;
#endif
}

} // namespace tegula::test
