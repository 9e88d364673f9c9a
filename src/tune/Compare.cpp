// isClose of Memory.h. The results of configurations may be hundreds of megabytes, compared once for each of them:
// elements are widened to fp32 block by block, in loops that compilers vectorize, and only a block with a difference is
// compared element by element.
#include "runtime/Dtype.h"
#include "tune/Memory.h"
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace tegula::tune {

double toleranceOf(TegulaDtype dtype) {
  switch (dtype) {
  case TEGULA_FP64: return 1e-9;
  case TEGULA_FP32: return 2e-4;
  case TEGULA_FP16: return 4e-3;
  case TEGULA_BF16: return 3e-2;
  case TEGULA_FP8E4NV: case TEGULA_FP8E4B15: case TEGULA_FP8E4B8: return 0.15;
  case TEGULA_FP8E5: case TEGULA_FP8E5B16: return 0.3;
  default: return 0;
  }
}

namespace {
constexpr size_t block = 1024; // elements

/// Types that are compared directly.
template <typename T> struct Plain {
  using Value = T;
  static constexpr size_t bytes = sizeof(T);
  static void read(const char *from, size_t n, T *to) { std::memcpy(to, from, n * sizeof *to); }
};
struct Brain {
  using Value = float;
  static constexpr size_t bytes = 2;
  static void read(const char *from, size_t n, float *to) {
    std::array<uint16_t, block> raw;
    std::memcpy(raw.data(), from, n * 2);
    for (size_t i = 0; i < n; ++i) to[i] = std::bit_cast<float>(uint32_t(raw[i]) << 16);
  }
};
struct Half {
  using Value = float;
  static constexpr size_t bytes = 2;
  static void read(const char *from, size_t n, float *to) {
    std::array<uint16_t, block> raw;
    std::memcpy(raw.data(), from, n * 2);
    for (size_t i = 0; i < n; ++i) {
      // The exponent in fp32's position, then its bias, which also handles subnormal numbers; infinities and NaNs have
      // the largest exponent.
      uint32_t magnitude = uint32_t(raw[i] & 0x7fff) << 13, sign = uint32_t(raw[i] & 0x8000) << 16;
      uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f),
               special = magnitude | 0x7f800000;
      to[i] = std::bit_cast<float>(((raw[i] & 0x7c00) == 0x7c00 ? special : finite) | sign);
    }
  }
};
/// The one-byte types, converted by a table.
struct Tiny {
  using Value = float;
  static constexpr size_t bytes = 1;
  std::array<float, 256> table;
  explicit Tiny(TegulaDtype dtype) {
    for (uint64_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(runtime::floatFromBits(dtype, i));
  }
  void read(const char *from, size_t n, float *to) const {
    for (size_t i = 0; i < n; ++i) to[i] = table[static_cast<uint8_t>(from[i])];
  }
};

template <typename T> bool isSame(T u, T v, double tolerance, double largest) {
  if (u == v || (std::isnan(u) && std::isnan(v))) return true;
  if (!std::isfinite(u) || !std::isfinite(v)) return false;
  return std::fabs(double(u) - double(v)) <=
         tolerance * (std::max(std::fabs(double(u)), std::fabs(double(v))) + largest);
}

template <typename Reader>
bool areClose(const Reader &reader, const char *a, const char *b, uint64_t bytes, double tolerance) {
  using T = typename Reader::Value;
  const size_t count = bytes / Reader::bytes;
  std::array<T, block> x, y;
  // The bits of non-negative numbers have the same order as the numbers; integers are compared in vectors.
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  constexpr Bits magnitude = std::numeric_limits<Bits>::max(),
                 special = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  Bits largestBits = 0;
  for (const char *p : {a, b})
    for (size_t at = 0; at < count; at += block) {
      size_t n = std::min(block, count - at);
      reader.read(p + at * Reader::bytes, n, x.data());
      for (size_t i = 0; i < n; ++i) {
        Bits v = std::bit_cast<Bits>(x[i]) & magnitude;
        largestBits = std::max(largestBits, v < special ? v : 0);
      }
    }
  const T largest = std::bit_cast<T>(largestBits);
  const T part = static_cast<T>(tolerance), most = std::numeric_limits<T>::max();
  for (size_t at = 0; at < count; at += block) {
    size_t n = std::min(block, count - at), from = at * Reader::bytes;
    if (std::memcmp(a + from, b + from, n * Reader::bytes) == 0) continue;
    reader.read(a + from, n, x.data());
    reader.read(b + from, n, y.data());
    // Non-finite values fail here, too.
    uint32_t apart = 0;
    for (size_t i = 0; i < n; ++i) {
      T limit = std::min(part * (std::max(std::fabs(x[i]), std::fabs(y[i])) + largest), most);
      apart += !(std::fabs(x[i] - y[i]) <= limit);
    }
    if (!apart) continue;
    for (size_t i = 0; i < n; ++i)
      if (!isSame(x[i], y[i], tolerance, largest)) return false;
  }
  return true;
}
} // namespace

bool isClose(TegulaDtype dtype, const void *a, const void *b, uint64_t bytes, double tolerance) {
  if (!bytes || std::memcmp(a, b, bytes) == 0) return true;
  if (runtime::dtypeInfo(dtype).kind != runtime::DtypeInfo::Float) return false;
  auto *x = static_cast<const char *>(a), *y = static_cast<const char *>(b);
  switch (dtype) {
  case TEGULA_FP64: return areClose(Plain<double>(), x, y, bytes, tolerance);
  case TEGULA_FP32: return areClose(Plain<float>(), x, y, bytes, tolerance);
  case TEGULA_FP16: return areClose(Half(), x, y, bytes, tolerance);
  case TEGULA_BF16: return areClose(Brain(), x, y, bytes, tolerance);
  default: return areClose(Tiny(dtype), x, y, bytes, tolerance);
  }
}

} // namespace tegula::tune
