// SHA-256 (FIPS 180-4), the content hash of every cache key, and HMAC with it, which signs entries of the disk cache.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tegula {

/// Incremental hash. update() any number of times, then digest() once.
class Hasher {
public:
  Hasher();
  Hasher &update(std::string_view bytes);
  /// Hashes a field with its length, so that ("ab", "c") and ("a", "bc") differ.
  Hasher &field(std::string_view bytes);
  Hasher &field(uint64_t value);
  std::array<uint8_t, 32> digest();
  /// digest() as 64 lower-case hexadecimal digits.
  std::string hex();

private:
  void block(const uint8_t *p);
  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> buffer_{};
  uint64_t length_ = 0;
};

std::string sha256Hex(std::string_view bytes);

/// HMAC-SHA256 (RFC 2104): computing it requires `key`.
std::array<uint8_t, 32> hmacSha256(std::string_view key, std::string_view message);
/// Are two digests equal? The time does not depend on where they differ.
bool sameDigest(const std::array<uint8_t, 32> &a, const std::array<uint8_t, 32> &b);

} // namespace tegula
