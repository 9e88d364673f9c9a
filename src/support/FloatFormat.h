// Encoding and decoding of every floating-point element type: one table of formats, one algorithm over a format's
// fields.
//
// Values are rounded once, to nearest even or toward zero. Overflow saturates in the fp8 formats and gives infinity in
// the others. e4b15 has no NaN (its largest code stands for it). The formats E4B8 and E5B16 (`fnuz`) have no negative
// zero and one NaN, 0x80.
#pragma once
#include <cstdint>

namespace tegula {

/// In the order of ir::Elem and TegulaDtype, so that conversions between them add a constant.
enum class FloatKind : uint8_t { E5M2, E4M3FN, E4B15, E4B8, E5B16, F16, BF16, F32, F64 };

/// Whether -0 has a code of its own.
constexpr bool hasNegativeZero(FloatKind kind) { return kind != FloatKind::E4B8 && kind != FloatKind::E5B16; }

/// The exact value of the element in the low bits of `bits`; higher bits are ignored. A NaN keeps the sign of its code,
/// but not its payload.
double decodeFloat(FloatKind kind, uint64_t bits);

/// The code of the representable value nearest to `v` (ties to even), or of the nearest one toward zero. The result
/// fits the width of the format.
uint64_t encodeFloat(FloatKind kind, double v, bool towardZero = false);
/// The same for numbers that a double cannot represent, such as 64-bit integers: rounds once, not twice.
uint64_t encodeFloat(FloatKind kind, long double v, bool towardZero = false);

/// The bits of an f32 rounded to tf32, to nearest even; every NaN gives 0x7fffe000.
inline uint32_t roundToTf32(uint32_t bits) {
  if ((bits & 0x7fffffff) > 0x7f800000)
    return 0x7fffe000;
  return (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000u;
}

} // namespace tegula
