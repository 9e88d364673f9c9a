// An input of a fuzzer read as a series of choices; after its end every choice is the first one.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace tegula::fuzz {

class Choices {
public:
  explicit Choices(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  uint64_t below(uint64_t n) { return n > 256 ? number(n > 65536 ? 8 : 2) % n : number(1) % n; }
  bool chance(unsigned oneIn) { return below(oneIn) == oneIn - 1; }
  /// Little-endian.
  uint64_t number(unsigned bytes) {
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes && !bytes_.empty(); ++i, bytes_ = bytes_.subspan(1))
      v |= uint64_t(bytes_[0]) << (8 * i);
    return v;
  }
  /// Numbers at which something changes, now and then any.
  int64_t integer() {
    static constexpr int64_t edges[] = {
        0, 1, 2, 3, 4, 16, 32, -1, -2, 127,
        128, 255, 256, 1024, 1 << 20, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int64_t(1) << 32,
        65536, 32767, 1LL << 53, 1LL << 62, -(1LL << 32)};
    uint64_t which = below(std::size(edges) + 2);
    return which < std::size(edges) ? edges[which] : static_cast<int64_t>(number(which & 1 ? 8 : 1));
  }
  template <typename T, size_t N> const T &of(const T (&table)[N]) { return table[below(N)]; }
  /// Up to `most` bytes as they are.
  std::string text(size_t most) {
    size_t n = std::min<size_t>(below(most + 1), bytes_.size());
    std::string s(reinterpret_cast<const char *>(bytes_.data()), n);
    bytes_ = bytes_.subspan(n);
    return s;
  }
  std::string rest() {
    return text(bytes_.size()).append(reinterpret_cast<const char *>(bytes_.data()), bytes_.size());
  }

private:
  std::span<const uint8_t> bytes_;
};

} // namespace tegula::fuzz
