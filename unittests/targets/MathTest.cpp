// Elementary functions against libm in the next wider type: 2 ulp everywhere, exact special values, on every target.
#include "JitLibrary.h"
#include "Machine.h"
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <random>

namespace tegula::cpu {
namespace {

using ir::Elem;
using ir::OpKind;

struct Function {
  OpKind kind;
  const char *name;
  long double (*reference)(long double);
  double (*reference32)(double); // enough for float, and ten times faster
};
long double rsqrtl(long double x) { return 1 / sqrtl(x); }
double rsqrt(double x) { return 1 / std::sqrt(x); }
const Function functions[] = {{OpKind::Exp, "exp", expl, exp},     {OpKind::Exp2, "exp2", exp2l, exp2},
                              {OpKind::Log, "log", logl, log},     {OpKind::Log2, "log2", log2l, log2},
                              {OpKind::Sin, "sin", sinl, sin},     {OpKind::Cos, "cos", cosl, cos},
                              {OpKind::Sqrt, "sqrt", sqrtl, sqrt}, {OpKind::Rsqrt, "rsqrt", rsqrtl, rsqrt},
                              {OpKind::Erf, "erf", erfl, erf},     {OpKind::Tanh, "tanh", tanhl, tanh}};

template <typename T> T fromBits(uint64_t bits) {
  T x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// Distance in units of the last place of the result type at `want`.
template <typename T, typename W> double ulps(T got, W want) {
  if (std::isnan(want) || std::isnan(got))
    return std::isnan(want) && std::isnan(got) ? 0 : INFINITY;
  T rounded = static_cast<T>(want);
  if (std::isinf(rounded) || std::isinf(got)) { // where rounding decides, the largest number is one step from infinity
    T finite = std::isinf(got) ? rounded : got;
    bool oneStep = std::fabs(finite) == std::numeric_limits<T>::max() && std::signbit(got) == std::signbit(rounded);
    return got == rounded ? 0 : oneStep ? 1 : INFINITY;
  }
  if (want == 0)
    return got == 0 && std::signbit(got) == std::signbit(want) ? 0 : INFINITY;
  int e = std::max(std::ilogb(want), std::numeric_limits<T>::min_exponent - 1);
  return static_cast<double>(
      std::fabs((static_cast<W>(got) - want) / std::ldexp(W(1), e - std::numeric_limits<T>::digits + 1)));
}

template <typename T> std::string nameOf(const Function &f, unsigned lanes) {
  return std::string(f.name) + (sizeof(T) == 4 ? "32_" : "64_") + std::to_string(lanes);
}

template <typename T> void addAll(JitLibrary &lib, std::initializer_list<unsigned> widths) {
  Elem e = sizeof(T) == 4 ? Elem::F32 : Elem::F64;
  for (const Function &f : functions)
    for (unsigned w : widths)
      lib.addElementwise(nameOf<T>(f, w), w, {e}, e, [&](VecEmitter &v, llvm::ArrayRef<llvm::Value *> x) {
        ir::Op op{};
        op.kind = f.kind;
        return v.elementwise(op, x, e, e);
      });
}

template <typename T>
std::vector<T> apply(const JitLibrary &lib, const Function &f, unsigned lanes, std::vector<T> in) {
  while (in.size() % 32)
    in.push_back(1);
  std::vector<T> out(in.size());
  const void *p = in.data();
  lib.elementwise(nameOf<T>(f, lanes))(&p, out.data(), static_cast<int64_t>(in.size()));
  return out;
}

class MathTest : public testing::TestWithParam<std::string> {};

template <typename T, typename W>
void expectClose(const Function &f, const std::vector<T> &in, const std::vector<T> &out, const char *what) {
  double worst = 0;
  T at = 0, got = 0;
  W want = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    W w =
        sizeof(W) == 8 ? static_cast<W>(f.reference32(static_cast<double>(in[i]))) : static_cast<W>(f.reference(in[i]));
    double e = ulps<T, W>(out[i], w);
    if (e > worst) {
      worst = e;
      at = in[i];
      got = out[i];
      want = w;
    }
  }
  printf("  %-6s %s max error %.3f ulp at %a\n", f.name, what, worst, static_cast<double>(at));
  EXPECT_LE(worst, 2.0) << f.name << " " << what << " of " << std::hexfloat << at << " gives " << got << ", not "
                        << want;
}

TEST_P(MathTest, FloatWithinTwoUlp) {
  JitLibrary lib(GetParam());
  addAll<float>(lib, {16});
  ASSERT_TRUE(lib.load());
  // Every float at a stride; a finer stride where it is about the machine that users run.
  uint64_t stride = GetParam() == tegula::cpu::test::machineName() ? 3001 : 40009;
  std::vector<float> in;
  for (uint64_t bits = 0; bits <= 0xFFFFFFFF; bits += stride)
    in.push_back(fromBits<float>(bits));
  for (float x = -20; x < 20; x += 0x1p-12f)
    in.push_back(x);
  for (float x = 0.5f; x < 2; x += 0x1p-16f)
    in.push_back(x);
  for (int k = 1; k < 2000; ++k) // near multiples of pi/2
    in.push_back(static_cast<float>(k * M_PI_2));
  for (const Function &f : functions)
    expectClose<float, double>(f, in, apply<float>(lib, f, 16, in), "f32");
}

TEST_P(MathTest, DoubleWithinTwoUlp) {
  JitLibrary lib(GetParam());
  addAll<double>(lib, {8});
  ASSERT_TRUE(lib.load());
  std::mt19937_64 rng(3);
  std::vector<double> in;
  int n = GetParam() == tegula::cpu::test::machineName() ? 60000 : 15000;
  for (int i = 0; i < n; ++i) {
    in.push_back(fromBits<double>(rng()));
    double u = static_cast<double>(rng()) * 0x1p-64;
    in.insert(in.end(), {u, -u, 0.5 + 1.5 * u, 1 + (u - 0.5) * 0x1p-20, 800 * (2 * u - 1), 8 * u,
                         std::exp(60 * (u - 0.5)), -std::exp(60 * (u - 0.5))});
    in.push_back(static_cast<double>(static_cast<int>(i * 37)) * M_PI_2);
  }
  for (const Function &f : functions)
    expectClose<double, long double>(f, in, apply<double>(lib, f, 8, in), "f64");
}

template <typename T> void testSpecials(const std::string &target, std::initializer_list<unsigned> widths) {
  JitLibrary lib(target);
  addAll<T>(lib, widths);
  ASSERT_TRUE(lib.load());
  using L = std::numeric_limits<T>;
  std::vector<T> in = {0,
                       -T(0),
                       L::infinity(),
                       -L::infinity(),
                       L::quiet_NaN(),
                       1,
                       -1,
                       L::denorm_min(),
                       -L::denorm_min(),
                       L::min(),
                       -L::min(),
                       L::min() / 2,
                       L::max(),
                       -L::max(),
                       T(0.5),
                       2,
                       T(1e-5),
                       T(-1e-5),
                       4,
                       1024,
                       T(88.72283),
                       T(88.7229),
                       T(-103.97),
                       T(-103.98),
                       T(-87.4),
                       T(709.78),
                       T(709.79),
                       T(-745.1),
                       T(-745.2),
                       128,
                       T(127.9),
                       -149,
                       -150,
                       1024,
                       -1074,
                       -1075};
  for (const Function &f : functions)
    for (unsigned w : widths) {
      std::vector<T> out = apply(lib, f, w, in);
      for (size_t i = 0; i < in.size(); ++i) {
        long double want = f.reference(in[i]);
        if (std::isinf(static_cast<T>(want)) || want == 0)
          EXPECT_TRUE(out[i] == static_cast<T>(want) && std::signbit(out[i]) == std::signbit(want))
              << f.name << "(" << in[i] << ") = " << out[i] << " lanes " << w;
        else
          EXPECT_LE((ulps<T, long double>(out[i], want)), 2.0)
              << f.name << "(" << in[i] << ") = " << out[i] << " lanes " << w;
      }
    }
}
TEST_P(MathTest, SpecialValuesAtAllWidths) {
  testSpecials<float>(GetParam(), {1, 2, 4, 8, 16, 32});
  testSpecials<double>(GetParam(), {1, 2, 4, 8, 16});
}

// Functions may leave a vector to other code because of one of its elements.
TEST_P(MathTest, NeighboursDoNotMatter) {
  JitLibrary lib(GetParam());
  addAll<float>(lib, {8});
  ASSERT_TRUE(lib.load());
  std::mt19937 rng(5);
  std::vector<float> mixed;
  for (int i = 0; i < 400; ++i) {
    mixed.push_back(std::exp2(static_cast<float>(rng() % 4000) / 200 - 10));
    if (i % 3 == 0)
      mixed.push_back(fromBits<float>(rng()));
  }
  for (const Function &f : functions) {
    const std::vector<float> out = apply(lib, f, 8, mixed);
    for (size_t i = 0; i < mixed.size(); ++i) {
      const float alone = apply(lib, f, 8, std::vector<float>(8, mixed[i]))[0];
      EXPECT_TRUE(std::bit_cast<uint32_t>(alone) == std::bit_cast<uint32_t>(out[i]) ||
                  (std::isnan(alone) && std::isnan(out[i])))
          << f.name << " of " << mixed[i];
    }
  }
}

// Zero comes from factors that are zero, not from products too small for a float, which take several times as long;
// with AVX-512 from lanes that are not scaled, so that not even what is just too small underflows.
TEST_P(MathTest, ExpOfMinusInfinityDoesNotUnderflow) {
  JitLibrary lib(GetParam());
  addAll<float>(lib, {8});
  addAll<double>(lib, {4});
  ASSERT_TRUE(lib.load());
  for (const Function &f : {functions[0], functions[1]}) {
    std::feclearexcept(FE_ALL_EXCEPT);
    EXPECT_EQ(apply(lib, f, 8, std::vector<float>{-INFINITY, -1e9f})[0], 0);
    EXPECT_EQ(apply(lib, f, 4, std::vector<double>{-INFINITY, -1e9})[0], 0);
    if (lib.target().avx512) {
      EXPECT_EQ(apply(lib, f, 8, std::vector<float>{-151, -200, -400})[0], 0);
      EXPECT_EQ(apply(lib, f, 4, std::vector<double>{-1076, -1500})[0], 0);
    }
    EXPECT_FALSE(std::fetestexcept(FE_UNDERFLOW)) << f.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, MathTest, testing::ValuesIn(elementwiseTargets()), test::testName);

} // namespace
} // namespace tegula::cpu
