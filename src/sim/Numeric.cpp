// Conversions by bits: the host need not have instructions for any of these formats, and they are most of what a
// simulated matrix instruction costs. They differ from support/FloatFormat.h in NaNs, which are the hardware's.
#include "sim/Numeric.h"

namespace tegula::sim {

uint16_t floatToBfloat(float f) {
  uint32_t b = fromFloat(f);
  if ((b & 0x7fffffff) > 0x7f800000)
    return 0x7fff;
  return uint16_t((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

float halfToFloat(uint16_t h) {
  uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ff;
  if (exponent == 31)
    return toFloat(sign | 0x7f800000 | mantissa << 13);
  if (exponent == 0) {
    float v = float(mantissa) * 0x1p-24f;
    return sign ? -v : v;
  }
  return toFloat(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t floatToHalf(float f) {
  uint32_t b = fromFloat(f), sign = b >> 16 & 0x8000, magnitude = b & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return 0x7fff;
  if (magnitude >= 0x477ff000)
    return uint16_t(sign | 0x7c00);
  if (magnitude < 0x38800000) {
    // Below the normal range: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits.
    float rounded = toFloat(magnitude) + 0.5f;
    return uint16_t(sign | (fromFloat(rounded) - 0x3f000000u));
  }
  uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return uint16_t(sign | (rounded - 0x38000000u) >> 13);
}

float e4m3ToFloat(uint8_t v) {
  return (v & 0x7f) == 0x7f ? toFloat(0x7fffffff) : float(decodeFloat(FloatKind::E4M3FN, v));
}

float e5m2ToFloat(uint8_t v) { return halfToFloat(uint16_t(v << 8)); }

} // namespace tegula::sim
