// Conversions of the small formats against the compiler's own half and against definitions.
#include "sim/Numeric.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace tegula::sim {
namespace {

uint16_t bitsOf(_Float16 h) {
  uint16_t bits;
  std::memcpy(&bits, &h, 2);
  return bits;
}

TEST(Numeric, Half) {
  for (uint32_t i = 0; i < 65536; ++i) {
    _Float16 h;
    auto bits = uint16_t(i);
    std::memcpy(&h, &bits, 2);
    float f = halfToFloat(bits);
    if (std::isnan(f)) {
      EXPECT_GT(i & 0x7fff, 0x7c00u);
      EXPECT_EQ(floatToHalf(f), 0x7fff);
      continue;
    }
    ASSERT_EQ(f, float(h)) << i;
    ASSERT_EQ(floatToHalf(f), bits);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 1000000; ++i) {
    // All magnitudes that halves have, and a little beyond; ties every 64th time.
    uint32_t bits = uint32_t(random() & 0x807fffff) | (90 + random() % 60) << 23;
    if (i % 64 == 0)
      bits = (bits & ~0x1fffu) | 0x1000;
    float f = toFloat(bits);
    ASSERT_EQ(floatToHalf(f), bitsOf(_Float16(f))) << f;
  }
}

TEST(Numeric, Bfloat) {
  std::mt19937 random(2);
  for (int i = 0; i < 1000000; ++i) {
    uint32_t bits = random();
    if (i % 64 == 0)
      bits = (bits & 0xffff0000u) | 0x8000;
    float f = toFloat(bits);
    if (std::isnan(f)) {
      ASSERT_EQ(floatToBfloat(f), 0x7fff);
      continue;
    }
    // The nearer of the two neighbours, the even one if both are as near.
    uint32_t low = bits >> 16, rest = bits & 0xffff;
    uint32_t expected = rest > 0x8000 || (rest == 0x8000 && low & 1) ? low + 1 : low;
    ASSERT_EQ(floatToBfloat(f), expected) << f;
  }
}

TEST(Numeric, Eights) {
  for (uint32_t i = 0; i < 256; ++i) {
    auto v = uint8_t(i);
    float sign = i & 0x80 ? -1.0f : 1.0f;
    auto value = [&](unsigned mantissaBits, int bias) {
      int e = int((i & 0x7f) >> mantissaBits), m = int(i & ((1u << mantissaBits) - 1)), one = 1 << mantissaBits;
      return sign * std::ldexp(float(e ? one + m : m), (e ? e : 1) - bias - int(mantissaBits));
    };
    if ((i & 0x7f) == 0x7f)
      EXPECT_TRUE(std::isnan(e4m3ToFloat(v)));
    else
      EXPECT_EQ(e4m3ToFloat(v), value(3, 7)) << i;
    if ((i & 0x7f) > 0x7c)
      EXPECT_TRUE(std::isnan(e5m2ToFloat(v)));
    else if ((i & 0x7f) == 0x7c)
      EXPECT_EQ(e5m2ToFloat(v), sign * INFINITY);
    else
      EXPECT_EQ(e5m2ToFloat(v), value(2, 15)) << i;
  }
  EXPECT_EQ(e4m3ToFloat(0x7e), 448.0f);
  EXPECT_EQ(e5m2ToFloat(0x7b), 57344.0f);
}

TEST(Numeric, Tf32) {
  // Seen on an H200, docs/hopper.md.
  EXPECT_EQ(roundToTf32(0x3f801000), 0x3f800000u);
  EXPECT_EQ(roundToTf32(0x3f803000), 0x3f804000u);
  EXPECT_EQ(roundToTf32(0x7f7fffff), 0x7f800000u);
  EXPECT_EQ(roundToTf32(0x7fc00001), 0x7fffe000u);
  EXPECT_EQ(roundToTf32(0xff800001), 0x7fffe000u);
  EXPECT_EQ(tf32ToFloat(0x3f801fff), 1.0f);
}

} // namespace
} // namespace tegula::sim
