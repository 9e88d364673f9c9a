// Results compared on a device: the same verdicts as on the host.
#include "api/CompareThere.h"
#include "Fixture.h"
#include "runtime/Dtype.h"
#include <cmath>
#include <cstring>
#include <random>

using namespace tegula;
using namespace tegula::test;

namespace {

constexpr TegulaDtype floats[] = {TEGULA_FP64, TEGULA_FP32, TEGULA_FP16, TEGULA_BF16, TEGULA_FP8E4NV, TEGULA_FP8E5};

struct CompareThereTest : testing::TestWithParam<const char *> {
  Context c = context();
  int32_t device = -1;
  void SetUp() override { ASSERT_EQ(tegula_device_find(c.get(), GetParam(), &device), TEGULA_OK); }
};

/// `bytes` of random elements, some of them not finite, zero or large.
std::vector<char> elements(TegulaDtype dtype, size_t count, std::mt19937 &random) {
  size_t bytes = tegula_dtype_bytes(dtype);
  std::vector<char> out(count * bytes);
  std::normal_distribution<double> values;
  for (size_t i = 0; i < count; ++i) {
    uint64_t bits = runtime::floatToBits(dtype, values(random));
    std::memcpy(&out[i * bytes], &bits, bytes);
  }
  return out;
}

TEST_P(CompareThereTest, SaysWhatTheHostSays) {
  api::CompareThere there(*c.get(), device, nullptr);
  std::mt19937 random(7);
  constexpr size_t count = 2500; // the last block is not full
  unsigned close = 0, apart = 0;
  for (TegulaDtype dtype : floats) {
    const size_t bytes = tegula_dtype_bytes(dtype);
    const double tolerance = tune::toleranceOf(dtype), special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e30};
    for (int round = 0; round < 24; ++round) {
      std::vector<char> a = elements(dtype, count, random), b = a;
      // One element is moved, by about as much as is allowed, or is something special on one side or both.
      size_t at = random() % count;
      auto set = [&](std::vector<char> &to, double v) {
        uint64_t bits = runtime::floatToBits(dtype, v);
        std::memcpy(&to[at * bytes], &bits, bytes);
      };
      uint64_t bits = 0;
      std::memcpy(&bits, &a[at * bytes], bytes);
      double v = runtime::floatFromBits(dtype, bits);
      if (round < 12) set(b, v + tolerance * (round - 4));
      else set(b, special[round % 6]);
      if (round >= 18) set(a, special[round % 6]);
      bool expected = tune::isClose(dtype, a.data(), b.data(), a.size(), tolerance);
      std::optional<bool> found = there(dtype, a.data(), b.data(), a.size(), tolerance);
      ASSERT_TRUE(found) << runtime::dtypeInfo(dtype).name << ": " << tegula_last_error();
      EXPECT_EQ(*found, expected) << runtime::dtypeInfo(dtype).name << " round " << round << ", " << v;
      ++(expected ? close : apart);
    }
  }
  EXPECT_GT(close, 30u);
  EXPECT_GT(apart, 30u);
}

TEST_P(CompareThereTest, OtherTypesAreComparedExactly) {
  api::CompareThere there(*c.get(), device, nullptr);
  std::mt19937 random(11);
  for (size_t bytes : {1u, 7u, 4096u, 5003u}) {
    std::vector<char> a(bytes);
    for (char &x : a) x = static_cast<char>(random());
    std::vector<char> b = a;
    EXPECT_EQ(there(TEGULA_INT8, a.data(), b.data(), bytes, 1), std::optional(true)) << tegula_last_error();
    b[random() % bytes] ^= 1;
    EXPECT_EQ(there(TEGULA_INT8, a.data(), b.data(), bytes, 1), std::optional(false));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CompareThereTest, testing::Values("cpu", "sim"));

} // namespace
