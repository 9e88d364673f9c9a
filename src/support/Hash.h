// SHA-256 (FIPS 180-4): the content hash behind every cache key; HMAC with it: how entries of the disk cache are
// signed.
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
  /// A field with its length, so that ("ab", "c") and ("a", "bc") differ.
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

/// HMAC-SHA256 (RFC 2104): only who knows `key` can make it.
std::array<uint8_t, 32> hmacSha256(std::string_view key, std::string_view message);
/// Whether two are equal, in a time that does not tell where they differ.
bool sameDigest(const std::array<uint8_t, 32> &a, const std::array<uint8_t, 32> &b);

} // namespace tegula
