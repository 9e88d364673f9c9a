// SHA-256 (FIPS 180-4): names of cache entries and the check of their content.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tegula::runtime {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
public:
  void update(const void *data, size_t size);
  void update(std::string_view s) { update(s.data(), s.size()); }
  /// Ends the message; the object must not be used afterwards.
  Digest finish();

private:
  void block(const uint8_t *p);
  uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t buffer_[64];
  uint64_t total_ = 0;
};

Digest sha256(const void *data, size_t size);
/// 64 lower-case hexadecimal digits.
std::string toHex(const Digest &d);

} // namespace tegula::runtime
