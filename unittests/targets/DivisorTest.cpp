// Quotients by the reciprocal of one number against the machine's division.
#include "JitLibrary.h"
#include "KernelHarness.h"
#include "targets/common/Divisor.h"
#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace tegula::cpu {
namespace {

using ir::Elem;

/// Steps between two floats, of which the numbers are in order.
int64_t steps(float a, float b) {
  auto place = [](float x) {
    auto i = std::bit_cast<int32_t>(x);
    return i < 0 ? -static_cast<int64_t>(i & INT32_MAX) : static_cast<int64_t>(i);
  };
  return std::abs(place(a) - place(b));
}

class DivisorTest : public testing::TestWithParam<std::string> {};

TEST_P(DivisorTest, DividesAsTheMachineDoes) {
  JitLibrary lib(GetParam());
  bool has = false;
  lib.addElementwise(
      "divide", 8, {Elem::F32, Elem::F32}, Elem::F32, [&](VecEmitter &v, llvm::ArrayRef<llvm::Value *> x) {
        has = targets::hasDivisors(v);
        return has ? targets::divideBy(v, x[0], targets::divisorOf(v, x[1])) : v.b.CreateFDiv(x[0], x[1]);
      });
  ASSERT_TRUE(lib.load());
  if (!has)
    GTEST_SKIP() << "no fused multiply-adds";
  using L = std::numeric_limits<float>;
  std::vector<float> divisors = {0, 1, 2, 3, 7, 10, 49, 127, 255, 0.1f, 1e-8f, 0.999f, L::min(), L::denorm_min(),
                                 0x1p-126f, std::nextafter(0x1p-126f, 0.0f), 0x1p-127f, 0x1.8p-128f, 0x1p-140f,
                                 0x1p100f, std::nextafter(0x1p100f, L::infinity()), 0x1p126f, 0x1p127f,
                                 0x1.fffffep126f, L::max(), L::infinity(), std::nextafter(1.0f, 0.0f),
                                 std::nextafter(1.0f, 2.0f), std::nextafter(2.0f, 1.0f)};
  std::vector<float> dividends = divisors;
  std::mt19937 rng(11);
  for (int i = 0; i < 500; ++i)
    divisors.push_back(std::bit_cast<float>(static_cast<uint32_t>(rng())));
  for (int i = 0; i < 3000; ++i)
    dividends.push_back(std::bit_cast<float>(static_cast<uint32_t>(rng())));
  dividends.push_back(L::quiet_NaN());
  for (size_t n = dividends.size(), i = 0; i < n; ++i)
    dividends.push_back(-dividends[i]);
  while (dividends.size() % 8)
    dividends.push_back(1);
  const size_t n = dividends.size();
  std::vector<float> ys(n), out(n);
  const auto divide = lib.elementwise("divide");
  size_t normal = 0, apart = 0;
  for (size_t k = 0; k < 2 * divisors.size(); ++k) {
    const float y = k % 2 ? -divisors[k / 2] : divisors[k / 2];
    std::fill(ys.begin(), ys.end(), y);
    const void *in[] = {dividends.data(), ys.data()};
    divide(in, out.data(), static_cast<int64_t>(n));
    for (size_t i = 0; i < n; ++i) {
      const float want = dividends[i] / y, got = out[i];
      if (std::isnan(want) || std::isnan(got)) {
        ASSERT_TRUE(std::isnan(want) && std::isnan(got)) << dividends[i] << " / " << y << " = " << got;
        continue;
      }
      ASSERT_EQ(std::signbit(got), std::signbit(want)) << dividends[i] << " / " << y << " = " << got;
      const bool isNormal = std::isnormal(want) && std::fabs(want) > 0x1p-100f;
      ASSERT_LE(steps(got, want), isNormal ? 1 : 2)
          << std::hexfloat << dividends[i] << " / " << y << " = " << got << ", not " << want;
      normal += isNormal;
      apart += isNormal && got != want;
    }
    for (float whole = 1; whole < 9; ++whole) // what is a float is exact
      if (y == std::round(y) && std::fabs(y) < 1e5f && y != 0) {
        std::fill(out.begin(), out.end(), 0.0f);
        std::vector<float> multiples(8, whole * y);
        const void *again[] = {multiples.data(), ys.data()};
        divide(again, out.data(), 8);
        ASSERT_EQ(out[0], whole) << y;
      }
  }
  // Most of them by what is one step from a power of two, whose quotients lie next to halves of steps.
  EXPECT_LT(static_cast<double>(apart), 1e-4 * static_cast<double>(normal)) << apart << " of " << normal;
}

INSTANTIATE_TEST_SUITE_P(Targets, DivisorTest, testing::ValuesIn(runnableTargets()), test::testName);

/// Divisions in the innermost loops of a row of `columns` floats that is divided by a number of the launch; `more`
/// comes before the quotient %q = %v / %ds.
size_t divisionsOfRow(int columns, const std::string &more, const std::string &attributes, const std::string &target) {
  const std::string t = "tensor<" + std::to_string(columns), f = t + "xf32>", i = t + "xi32>", p = t + "xptr<f32>>";
  const std::string ir = test::stage(
      "kernel @k(%x: ptr<f32>, %o: ptr<f32>, %d: f32) {\n%r = range {start = 0} : " + i + "\n%ds = splat %d : " + f +
          "\n%xs = splat %x : " + p + "\n%xa = addptr %xs, %r\n%l = load %xa : " + f + "\n" + more +
          "%q = fdiv %v, %ds " + attributes + "\n%os = splat %o : " + p + "\n%oa = addptr %os, %r\nstore %oa, %q\n}",
      *parseTarget(target), Stage::Llvm);
  size_t count = 0;
  for (size_t at = 0; (at = ir.find("fdiv <", at)) != std::string::npos; ++at)
    ++count;
  return count;
}

// A loop that waits for the divider multiplies, unless each quotient has to be exact, the row is short, or the divider
// works beside other instructions.
TEST(Divisor, OfALoopThatWaitsForTheDivider) {
  const std::string plain = "%v = fmul %l, %l\n", busy = "%e = exp %l\n%v = fadd %e, %l\n";
  for (const char *target : {"cpu:avx2", "cpu:avx512"}) {
    EXPECT_EQ(divisionsOfRow(1024, plain, "{approx = 1}", target), 0u) << target;
    EXPECT_GT(divisionsOfRow(1024, plain, "", target), 0u) << target;
    EXPECT_GT(divisionsOfRow(128, plain, "{approx = 1}", target), 0u) << target;
    EXPECT_GT(divisionsOfRow(1024, busy, "{approx = 1}", target), 0u) << target;
    // by a constant, in rows of any length
    EXPECT_EQ(divisionsOfRow(128, "%six = const {value = 6.0} : tensor<128xf32>\n%v = fdiv %l, %six {approx = 1}\n", "",
                             target),
              divisionsOfRow(128, plain, "", target))
        << target;
  }
  EXPECT_GT(divisionsOfRow(1024, plain, "{approx = 1}", "cpu:x86-64"), 0u);
}

} // namespace
} // namespace tegula::cpu
