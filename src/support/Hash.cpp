// SHA-256 as FIPS 180-4 section 6.2 gives it; constants are the fractional parts of roots of the first primes (section
// 4.2.2).
#include "support/Hash.h"
#include <bit>
#include <cstring>

namespace tegula {
namespace {
constexpr uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
} // namespace

Hasher::Hasher()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19} {}

void Hasher::block(const uint8_t *p) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = p[4 * i] << 24 | p[4 * i + 1] << 16 | p[4 * i + 2] << 8 | p[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + k[i] + w[i];
    uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  uint32_t add[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state_[i] += add[i];
}

Hasher &Hasher::update(std::string_view bytes) {
  size_t used = length_ % 64;
  if (bytes.empty()) return *this; // memcpy does not accept a null pointer, even for zero bytes
  length_ += bytes.size();
  const auto *p = reinterpret_cast<const uint8_t *>(bytes.data());
  size_t n = bytes.size();
  if (used) {
    size_t take = std::min(n, 64 - used);
    std::memcpy(buffer_.data() + used, p, take);
    p += take, n -= take;
    if (used + take < 64) return *this;
    block(buffer_.data());
  }
  for (; n >= 64; p += 64, n -= 64) block(p);
  std::memcpy(buffer_.data(), p, n);
  return *this;
}

Hasher &Hasher::field(uint64_t value) {
  return update(std::string_view(reinterpret_cast<const char *>(&value), sizeof value));
}
Hasher &Hasher::field(std::string_view bytes) { return field(static_cast<uint64_t>(bytes.size())).update(bytes); }

std::array<uint8_t, 32> Hasher::digest() {
  uint64_t bits = length_ * 8;
  update(std::string_view("\x80", 1));
  while (length_ % 64 != 56) update(std::string_view("\0", 1));
  char tail[8];
  for (int i = 0; i < 8; ++i) tail[i] = static_cast<char>(bits >> (56 - 8 * i));
  update(std::string_view(tail, 8));
  std::array<uint8_t, 32> out;
  for (int i = 0; i < 32; ++i) out[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

std::string Hasher::hex() {
  static const char *digits = "0123456789abcdef";
  std::string out;
  for (uint8_t b : digest()) (out += digits[b >> 4]) += digits[b & 15];
  return out;
}

std::array<uint8_t, 32> hmacSha256(std::string_view key, std::string_view message) {
  std::array<char, 64> inner{}, outer{};
  std::array<uint8_t, 32> hashed;
  if (key.size() > inner.size()) {
    hashed = Hasher().update(key).digest();
    key = {reinterpret_cast<const char *>(hashed.data()), hashed.size()};
  }
  if (!key.empty()) std::memcpy(inner.data(), key.data(), key.size());
  outer = inner;
  for (char &c : inner) c = static_cast<char>(c ^ 0x36);
  for (char &c : outer) c = static_cast<char>(c ^ 0x5c);
  std::array<uint8_t, 32> first = Hasher().update({inner.data(), inner.size()}).update(message).digest();
  return Hasher()
      .update({outer.data(), outer.size()})
      .update({reinterpret_cast<const char *>(first.data()), first.size()})
      .digest();
}

bool sameDigest(const std::array<uint8_t, 32> &a, const std::array<uint8_t, 32> &b) {
  uint8_t different = 0;
  for (size_t i = 0; i < a.size(); ++i) different |= a[i] ^ b[i];
  return different == 0;
}

std::string sha256Hex(std::string_view bytes) { return Hasher().update(bytes).hex(); }

} // namespace tegula
