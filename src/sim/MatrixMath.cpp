// The inner loops of the simulator. Written with vectors of 8 so that the host's widest instructions can be used where
// they exist.
#include "sim/MatrixMath.h"
#include "abi/SimAbi.h"
#include "sim/Numeric.h"
#include <array>
#include <cstring>

namespace tegula::sim {

bool isIntType(int32_t type) { return type == TEGULA_MMA_S8 || type == TEGULA_MMA_U8; }

template <class E> using Vec8 [[gnu::vector_size(8 * sizeof(E))]] = E;

template <class E, unsigned width>
[[gnu::always_inline]] inline void multiplyBlock(E *acc, const E *a, const E *b, uint32_t n, uint32_t k) {
#pragma clang fp contract(off)
  Vec8<E> sum[width];
  std::memcpy(sum, acc, sizeof sum);
  for (uint32_t i = 0; i < k; ++i) {
    Vec8<E> factor = a[i] - Vec8<E>{};
    for (unsigned j = 0; j < width; ++j) {
      Vec8<E> v;
      std::memcpy(&v, b + i * n + 8 * j, sizeof v);
      sum[j] += factor * v;
    }
  }
  std::memcpy(acc, sum, sizeof sum);
}

template <class E>
[[gnu::always_inline]] inline void multiply(E *acc, const E *a, const E *b, uint32_t m, uint32_t n, uint32_t k) {
  for (uint32_t row = 0; row < m; ++row) {
    uint32_t col = 0;
    for (; col + 64 <= n; col += 64)
      multiplyBlock<E, 8>(acc + row * n + col, a + row * k, b + col, n, k);
    for (; col < n; col += 8)
      multiplyBlock<E, 1>(acc + row * n + col, a + row * k, b + col, n, k);
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] static void multiplyWide(float *acc, const float *a, const float *b, uint32_t m, uint32_t n,
                                                 uint32_t k) {
  multiply<float>(acc, a, b, m, n, k);
}
static const bool hasAvx2 = __builtin_cpu_supports("avx2");
#endif

void multiplyFloat(float *acc, const float *a, const float *b, uint32_t m, uint32_t n, uint32_t k) {
#if defined(__x86_64__)
  if (hasAvx2)
    return multiplyWide(acc, a, b, m, n, k);
#endif
  multiply<float>(acc, a, b, m, n, k);
}

void multiplyInt(int32_t *acc, const int32_t *a, const int32_t *b, uint32_t m, uint32_t n, uint32_t k) {
  // Sums wrap as on the hardware.
  multiply<uint32_t>(reinterpret_cast<uint32_t *>(acc), reinterpret_cast<const uint32_t *>(a),
                     reinterpret_cast<const uint32_t *>(b), m, n, k);
}

template <class Decode>
static void decodeEach(const uint8_t *from, uint32_t count, float *to, uint32_t step, uint32_t size, Decode decode) {
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, from + i * size, size);
    to[i * step] = decode(bits);
  }
}

template <float (*f)(uint8_t)> static const std::array<float, 256> &table() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> v{};
    for (unsigned i = 0; i < 256; ++i)
      v[i] = f(uint8_t(i));
    return v;
  }();
  return values;
}

void decodeFloats(int32_t type, const uint8_t *from, uint32_t count, float *to, uint32_t step) {
  switch (type) {
  case TEGULA_MMA_BF16:
    return decodeEach(from, count, to, step, 2, [](uint32_t b) { return bfloatToFloat(uint16_t(b)); });
  case TEGULA_MMA_F16:
    return decodeEach(from, count, to, step, 2, [](uint32_t b) { return halfToFloat(uint16_t(b)); });
  case TEGULA_MMA_F32:
    return decodeEach(from, count, to, step, 4, [](uint32_t b) { return toFloat(b); });
  case TEGULA_MMA_TF32:
    return decodeEach(from, count, to, step, 4, [](uint32_t b) { return tf32ToFloat(b); });
  case TEGULA_MMA_E4M3: {
    const auto &v = table<e4m3ToFloat>();
    return decodeEach(from, count, to, step, 1, [&](uint32_t b) { return v[b]; });
  }
  default: {
    const auto &v = table<e5m2ToFloat>();
    return decodeEach(from, count, to, step, 1, [&](uint32_t b) { return v[b]; });
  }
  }
}

void decodeInts(int32_t type, const uint8_t *from, uint32_t count, int32_t *to, uint32_t step) {
  for (uint32_t i = 0; i < count; ++i)
    to[i * step] = type == TEGULA_MMA_S8 ? int32_t(int8_t(from[i])) : int32_t(from[i]);
}

} // namespace tegula::sim
