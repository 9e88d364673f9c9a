// The float formats against a search over all codes, and double against long double.
#include "support/FloatFormat.h"
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <random>

namespace tegula {
namespace {

struct Format {
  FloatKind kind;
  unsigned width;
};
constexpr Format formats[] = {{FloatKind::E5M2, 8}, {FloatKind::E4M3FN, 8}, {FloatKind::E4B15, 8},
                              {FloatKind::E4B8, 8}, {FloatKind::E5B16, 8},  {FloatKind::F16, 16},
                              {FloatKind::BF16, 16}};

TEST(FloatFormat, ValuesOfEveryFormat) {
  struct Row {
    FloatKind kind;
    uint64_t bits;
    double value;
  };
  const Row rows[] = {{FloatKind::E5M2, 0x7B, 57344},  {FloatKind::E5M2, 0xFC, -INFINITY},
                      {FloatKind::E4M3FN, 0x7E, 448},  {FloatKind::E4M3FN, 1, 0x1p-9},
                      {FloatKind::E4B15, 0x7F, 1.875}, {FloatKind::E4B8, 0x7F, 240},
                      {FloatKind::E5B16, 0x7F, 57344}, {FloatKind::F16, 0x7BFF, 65504},
                      {FloatKind::F16, 1, 0x1p-24},    {FloatKind::F16, 0x12345C00, 0x1p8},
                      {FloatKind::BF16, 0xBF80, -1},   {FloatKind::F32, 0x3F800001, 1 + 0x1p-23},
                      {FloatKind::F64, 1, 0x1p-1074}};
  for (const Row &r : rows)
    EXPECT_EQ(decodeFloat(r.kind, r.bits), r.value) << std::hex << r.bits;
  for (auto [kind, bits] : {std::pair{FloatKind::E5M2, 0x7Du},
                            {FloatKind::E4M3FN, 0xFFu},
                            {FloatKind::E4B8, 0x80u},
                            {FloatKind::E5B16, 0x80u},
                            {FloatKind::F16, 0xFC01u},
                            {FloatKind::BF16, 0x7F81u}})
    EXPECT_TRUE(std::isnan(decodeFloat(kind, bits))) << std::hex << bits;
}

TEST(FloatFormat, Overflow) {
  struct Row {
    FloatKind kind;
    uint64_t nearest, towardZero, infinity;
  };
  const Row rows[] = {{FloatKind::E5M2, 0x7B, 0x7B, 0x7B},       {FloatKind::E4M3FN, 0x7E, 0x7E, 0x7E},
                      {FloatKind::E4B15, 0x7F, 0x7F, 0x7F},      {FloatKind::E4B8, 0x7F, 0x7F, 0x7F},
                      {FloatKind::E5B16, 0x7F, 0x7F, 0x7F},      {FloatKind::F16, 0x7C00, 0x7BFF, 0x7C00},
                      {FloatKind::BF16, 0x7F80, 0x7F7F, 0x7F80}, {FloatKind::F32, 0x7F800000, 0x7F7FFFFF, 0x7F800000}};
  for (const Row &r : rows) {
    EXPECT_EQ(encodeFloat(r.kind, 1e300), r.nearest);
    EXPECT_EQ(encodeFloat(r.kind, 1e300, true), r.towardZero);
    EXPECT_EQ(encodeFloat(r.kind, static_cast<double>(INFINITY)), r.infinity);
  }
}

// Between two neighbours the nearer one wins, and ties go to the even code; either sign, either width of the argument.
TEST(FloatFormat, RoundsToNearestEvenAndTowardZero) {
  for (const Format &f : formats) {
    uint64_t sign = uint64_t{1} << (f.width - 1);
    std::map<double, uint64_t> codes;
    for (uint64_t bits = 0; bits < sign; ++bits)
      if (double v = decodeFloat(f.kind, bits); std::isfinite(v))
        codes[v] = bits;
    for (auto it = codes.begin(), next = std::next(it); next != codes.end(); ++it, ++next) {
      auto expect = [&](auto v, uint64_t nearest) {
        EXPECT_EQ(encodeFloat(f.kind, v), nearest);
        EXPECT_EQ(encodeFloat(f.kind, v, true), it->second);
        EXPECT_EQ(encodeFloat(f.kind, -v), nearest || hasNegativeZero(f.kind) ? nearest | sign : 0);
      };
      double middle = (it->first + next->first) / 2;
      uint64_t even = it->second & 1 ? next->second : it->second;
      expect(middle, even);
      expect(std::nextafter(middle, 0.0), it->second);
      expect(std::nextafter(middle, INFINITY), next->second);
      expect(static_cast<long double>(middle), even);
      expect(std::nextafter(static_cast<long double>(middle), 0.0L), it->second);
      expect(std::nextafter(static_cast<long double>(middle), static_cast<long double>(INFINITY)), next->second);
    }
  }
}

// A double would round this integer to a tie, and the tie down.
TEST(FloatFormat, LongNumbersRoundOnce) {
  long double v = (1ull << 60) + (1ull << 36) + 1;
  EXPECT_EQ(encodeFloat(FloatKind::F32, v), 0x5D800001u);
  EXPECT_EQ(encodeFloat(FloatKind::F32, static_cast<double>(v)), 0x5D800000u);
}

TEST(FloatFormat, WholeDoublesKeepTheirBits) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i)
    if (uint64_t bits = random(); !std::isnan(decodeFloat(FloatKind::F64, bits)))
      EXPECT_EQ(encodeFloat(FloatKind::F64, decodeFloat(FloatKind::F64, bits)), bits);
}

} // namespace
} // namespace tegula
