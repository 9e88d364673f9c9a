// Dense tensors in memory of the host: a type, a shape, an address, and whoever keeps the memory.
#pragma once
#include "Status.h"
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

namespace llm {

/// Row-major, without gaps. Copies share the memory.
struct Tensor {
  TegulaDtype dtype = TEGULA_VOID;
  std::vector<int64_t> shape;
  const void *data = nullptr;
  std::shared_ptr<const void> owner; // of `data`: an allocation or a mapped file

  int64_t count() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
  int64_t bytes() const { return count() * tegula_dtype_bytes(dtype); }
  explicit operator bool() const { return data; }
  /// Element i as a float, of fp32, bf16, fp16 and the integers.
  float at(int64_t i) const;
  /// Zeroed memory of its own, aligned to 64 bytes; `writable` is where to put the elements.
  static Tensor make(TegulaDtype dtype, std::vector<int64_t> shape, void **writable);
};

/// "bf16[2048, 8192]"
std::string describe(const Tensor &t);

inline uint16_t toBf16(float f) {
  uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float fromBf16(uint16_t b) { return std::bit_cast<float>(uint32_t(b) << 16); }

} // namespace llm
