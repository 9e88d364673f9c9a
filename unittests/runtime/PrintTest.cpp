// device_print text and the small float formats.
#include "runtime/Print.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace tegula::runtime;

namespace {
struct Case {
  const char *prefix;
  std::vector<PrintOperand> operands;
  int operand;
  bool hex;
  std::vector<unsigned char> data;
  int64_t count;
  const char *expected;
};
} // namespace

TEST(Print, Lines) {
  const Case cases[] = {
      {"hello", {}, -1, false, {}, 0, "pid (1, 2, 3) hello\n"},
      {" hello", {}, 0, false, {}, 0, "pid (1, 2, 3) hello\n"},
      {"x", {{TEGULA_INT8, false, {}}}, 0, false, {0xff}, 1, "pid (1, 2, 3) idx () x: -1\n"},
      {"x:", {{TEGULA_UINT8, false, {}}}, 0, false, {0xff}, 1, "pid (1, 2, 3) idx () x: 255\n"},
      {"x: ", {{TEGULA_INT1, false, {}}}, 0, false, {1}, 1, "pid (1, 2, 3) idx () x: 1\n"},
      {" x: ", {{TEGULA_INT16, false, {}}}, 0, true, {0x0a, 0}, 1, "pid (1, 2, 3) idx () x: 0x000a\n"},
      {"", {{TEGULA_INT8, false, {}}}, 0, false, {5}, 1, "pid (1, 2, 3) idx (): 5\n"},
      {"a b",
       {{TEGULA_FP16, false, {2}}},
       0,
       false,
       {0, 0x3c, 0, 0xc4},
       2,
       "pid (1, 2, 3) idx (0) a b: 1.000000\npid (1, 2, 3) idx (1) a b: -4.000000\n"},
      {"p", {{TEGULA_FP32, true, {}}}, 0, false, {0x10, 0x20, 0, 0, 0, 0, 0, 0}, 1, "pid (1, 2, 3) idx () p: 0x2010\n"},
      {"x",
       {{TEGULA_INT8, false, {}}, {TEGULA_INT8, false, {}}},
       1,
       false,
       {7},
       1,
       "pid (1, 2, 3) idx () x: (operand 1) 7\n"},
  };
  const int32_t pid[3] = {1, 2, 3};
  for (const Case &c : cases) {
    SiteInfo site;
    site.text = c.prefix;
    site.operands = c.operands;
    site.hex = c.hex;
    EXPECT_EQ(printText(site, c.operand, pid, c.data.data(), c.count), c.expected);
  }
}

TEST(Print, IndicesAreAligned) {
  SiteInfo site;
  site.text = "v";
  site.operands = {{TEGULA_UINT8, false, {2, 16}}};
  std::vector<unsigned char> data(32);
  for (int i = 0; i < 32; ++i) data[i] = static_cast<unsigned char>(i);
  const int32_t pid[3] = {0, 0, 0};
  std::string text = printText(site, 0, pid, data.data(), 32);
  EXPECT_NE(text.find("idx (0,  0) v: 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("idx (1, 15) v: 31\n"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 32);
}

TEST(Print, SmallFloats) {
  EXPECT_EQ(floatFromBits(TEGULA_FP8E5, 0x3c), 1.0);
  EXPECT_EQ(floatFromBits(TEGULA_FP8E5, 0x7c), INFINITY);
  EXPECT_EQ(floatFromBits(TEGULA_FP8E4NV, 0x38), 1.0);
  EXPECT_EQ(floatFromBits(TEGULA_FP8E4NV, 0x7e), 448.0);
  EXPECT_TRUE(std::isnan(floatFromBits(TEGULA_FP8E4NV, 0x7f)));
  EXPECT_EQ(floatFromBits(TEGULA_FP8E4B15, 0x78), 1.0);
  EXPECT_EQ(floatFromBits(TEGULA_FP8E4B8, 0x40), 1.0);
  EXPECT_TRUE(std::isnan(floatFromBits(TEGULA_FP8E4B8, 0x80)));
  EXPECT_EQ(floatFromBits(TEGULA_FP8E5B16, 0x40), 1.0);
  EXPECT_EQ(floatFromBits(TEGULA_BF16, 0xbf80), -1.0);
}

TEST(Print, NarrowFloatsRoundTripAndRound) {
  for (int32_t n = TEGULA_FP8E5; n <= TEGULA_BF16; ++n)
    for (uint32_t bits = 0, d = uint32_t(n); bits < 1u << dtypeInfo(d).bits; ++bits) {
      double v = floatFromBits(d, bits);
      // fp8 saturates, so nothing but an infinity itself stands for one.
      if (std::isnan(v) || (std::isinf(v) && d < TEGULA_FP16)) continue;
      ASSERT_EQ(floatToBits(d, v), bits) << int(d) << " " << bits;
    }
  EXPECT_EQ(floatToBits(TEGULA_FP16, 65519.0), 0x7bffu);
  EXPECT_EQ(floatToBits(TEGULA_FP16, 65520.0), 0x7c00u);
  EXPECT_EQ(floatToBits(TEGULA_FP16, 1.0 + 1.0 / 2048), 0x3c00u);
  EXPECT_EQ(floatToBits(TEGULA_FP16, 1.0 + 3.0 / 2048), 0x3c02u);
  EXPECT_EQ(floatToBits(TEGULA_FP16, std::ldexp(1.0, -25)), 0u);
  EXPECT_EQ(floatToBits(TEGULA_FP8E4NV, 1e6), 0x7eu);
  EXPECT_EQ(floatToBits(TEGULA_FP8E5, -1e6), 0xfbu);
  EXPECT_EQ(floatToBits(TEGULA_FP8E4B8, -1e-9), 0u);
}
