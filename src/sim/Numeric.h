// Small floating-point formats to and from float, with the NaNs of the hardware. roundToTf32 (support/FloatFormat.h)
// rounds as the TMA type TFLOAT32 does.
#pragma once
#include "support/FloatFormat.h"
#include <cstdint>
#include <cstring>

namespace tegula::sim {

inline float toFloat(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
inline uint32_t fromFloat(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}
inline float bfloatToFloat(uint16_t b) { return toFloat(uint32_t(b) << 16); }
/// Round to nearest, ties to even; a NaN becomes 0x7fff as on the hardware.
uint16_t floatToBfloat(float f);
float halfToFloat(uint16_t h);
uint16_t floatToHalf(float f);
/// fp8: exponent of 4 or 5 bits. e4m3 has no infinity.
float e4m3ToFloat(uint8_t v);
float e5m2ToFloat(uint8_t v);
/// tf32 operands: the 13 low bits are not read.
inline float tf32ToFloat(uint32_t bits) { return toFloat(bits & 0xffffe000u); }

} // namespace tegula::sim
