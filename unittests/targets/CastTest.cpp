// Conversions between element kinds: every code of every narrow format, every midpoint, on every target and several
// widths.
#include "FloatReference.h"
#include "JitLibrary.h"
#include "Machine.h"
#include <random>

namespace tegula::cpu {
namespace {

using ir::Elem;
using ir::OpKind;
using namespace reference;

const unsigned widths[] = {1, 4, 16};

ir::Op makeOp(OpKind kind, bool rtz = false) {
  ir::Op op{};
  op.kind = kind;
  if (rtz)
    op.attrs.push_back({ir::attr::rtz, true});
  return op;
}

void addCast(JitLibrary &lib, const std::string &name, unsigned lanes, OpKind kind, Elem from, Elem to,
             bool rtz = false) {
  ir::Op op = makeOp(kind, rtz);
  lib.addElementwise(name, lanes, {from}, to,
                     [&](VecEmitter &v, llvm::ArrayRef<llvm::Value *> x) { return v.elementwise(op, x, from, to); });
}

std::vector<uint8_t> run(const JitLibrary &lib, const std::string &name, const void *in, size_t n, size_t outBytes) {
  std::vector<uint8_t> out(n * outBytes);
  lib.elementwise(name)(&in, out.data(), static_cast<int64_t>(n));
  return out;
}

template <typename T> T at(const std::vector<uint8_t> &bytes, size_t i) {
  T x;
  std::memcpy(&x, bytes.data() + i * sizeof(T), sizeof(T));
  return x;
}

uint32_t codeAt(const std::vector<uint8_t> &bytes, size_t i, Elem e) {
  return ir::byteWidth(e) == 1 ? at<uint8_t>(bytes, i) : at<uint16_t>(bytes, i);
}

std::string label(const Format &f, unsigned lanes, const char *what) {
  return std::string(f.name) + "_" + what + "_" + std::to_string(lanes);
}

/// Inputs around every decision of a rounding to the format: values, midpoints, and both neighbours of these.
template <typename T> std::vector<T> roundingInputs(const Format &f) {
  std::vector<double> values = finiteValues(f);
  std::vector<T> in;
  double inf = std::numeric_limits<double>::infinity(), last = values.back();
  auto around = [&](double x) {
    T t = static_cast<T>(x);
    for (T y : {t, std::nextafter(t, T(0)), std::nextafter(t, T(inf))})
      in.insert(in.end(), {y, -y});
  };
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    around(values[i]);
    around((values[i] + values[i + 1]) / 2);
    // A double this close to a midpoint rounds to it in float: rounding twice goes wrong here.
    in.push_back(static_cast<T>((values[i] + values[i + 1]) / 2 * (1 + 0x1p-45)));
    in.push_back(static_cast<T>((values[i] + values[i + 1]) / 2 * (1 - 0x1p-45)));
  }
  around(last);
  around(last + (last - values[values.size() - 2]) / 2);
  around(last * 2);
  for (double x : {inf, -inf, std::nan(""), -std::nan(""), 1e300, -1e-300, 5e-324, 1e-45, 3e38})
    in.push_back(static_cast<T>(x));
  std::mt19937_64 rng(1);
  for (int i = 0; i < 4000; ++i) {
    uint64_t bits = rng();
    T x;
    std::memcpy(&x, &bits, sizeof x);
    in.push_back(x);
  }
  while (in.size() % 16)
    in.push_back(0);
  return in;
}

class CastTest : public testing::TestWithParam<std::string> {};

TEST_P(CastTest, WideningIsExact) {
  JitLibrary lib(GetParam());
  for (const Format &f : formats())
    for (unsigned w : widths)
      addCast(lib, label(f, w, "up"), w, OpKind::FpExt, f.elem, Elem::F32);
  ASSERT_TRUE(lib.load());
  for (const Format &f : formats())
    for (unsigned w : widths) {
      unsigned bytes = ir::byteWidth(f.elem), count = 1u << (8 * bytes);
      std::vector<uint8_t> in(count * bytes);
      for (uint32_t c = 0; c < count; ++c)
        std::memcpy(in.data() + c * bytes, &c, bytes);
      auto out = run(lib, label(f, w, "up"), in.data(), count, 4);
      for (uint32_t c = 0; c < count; ++c) {
        float want = static_cast<float>(decode(f, c)), got = at<float>(out, c);
        if (std::isnan(want))
          ASSERT_TRUE(std::isnan(got)) << f.name << " code " << c;
        else
          ASSERT_TRUE(got == want && std::signbit(got) == std::signbit(want)) << f.name << " code " << c << ": " << got;
      }
    }
}

template <typename T> void testNarrowing(const std::string &target, Elem from) {
  JitLibrary lib(target);
  for (const Format &f : formats())
    for (unsigned w : widths) {
      addCast(lib, label(f, w, "rne"), w, OpKind::FpTrunc, from, f.elem);
      addCast(lib, label(f, w, "rtz"), w, OpKind::FpTrunc, from, f.elem, true);
    }
  ASSERT_TRUE(lib.load());
  for (const Format &f : formats()) {
    std::vector<T> in = roundingInputs<T>(f);
    std::vector<double> values = finiteValues(f);
    for (unsigned w : widths)
      for (bool rtz : {false, true}) {
        auto out = run(lib, label(f, w, rtz ? "rtz" : "rne"), in.data(), in.size(), ir::byteWidth(f.elem));
        for (size_t i = 0; i < in.size(); ++i) {
          uint32_t got = codeAt(out, i, f.elem), want = encode(f, values, static_cast<double>(in[i]), rtz);
          if (want != ~0u)
            ASSERT_EQ(got, want) << f.name << (rtz ? " rtz " : " ") << std::hexfloat << in[i] << " lanes " << w;
          else if (f.nanCode != -2)
            ASSERT_TRUE(std::isnan(decode(f, got))) << f.name << " NaN -> " << got;
        }
      }
  }
}
TEST_P(CastTest, FloatNarrowsWithOneRounding) { testNarrowing<float>(GetParam(), Elem::F32); }
TEST_P(CastTest, DoubleNarrowsWithOneRounding) { testNarrowing<double>(GetParam(), Elem::F64); }

TEST_P(CastTest, DoubleToFloat) {
  JitLibrary lib(GetParam());
  addCast(lib, "rne", 8, OpKind::FpTrunc, Elem::F64, Elem::F32);
  addCast(lib, "rtz", 8, OpKind::FpTrunc, Elem::F64, Elem::F32, true);
  ASSERT_TRUE(lib.load());
  std::vector<double> in = {1 + 0x1p-24,
                            1 + 0x1p-23 + 0x1p-24,
                            1e39,
                            -1e39,
                            0x1.ffffffp127,
                            1e-46,
                            1e-45,
                            -3e-46,
                            0x1p-149,
                            0x1.8p-149,
                            0.1,
                            -0.1,
                            INFINITY,
                            -INFINITY,
                            0.0,
                            -0.0};
  auto near = run(lib, "rne", in.data(), in.size(), 4), zero = run(lib, "rtz", in.data(), in.size(), 4);
  for (size_t i = 0; i < in.size(); ++i) {
    float want = static_cast<float>(in[i]);
    ASSERT_EQ(at<uint32_t>(near, i), llvm::bit_cast<uint32_t>(want)) << in[i];
    if (std::fabs(static_cast<double>(want)) > std::fabs(in[i]))
      want = std::nextafter(want, 0.0f);
    ASSERT_EQ(at<uint32_t>(zero, i), llvm::bit_cast<uint32_t>(want)) << in[i];
  }
}

/// Saturating conversion as PTX does it.
template <typename I> I saturate(double x) {
  if (std::isnan(x))
    return 0;
  x = std::trunc(x);
  if (x < static_cast<double>(std::numeric_limits<I>::min()))
    return std::numeric_limits<I>::min();
  if (x >= std::ldexp(1.0, std::numeric_limits<I>::digits))
    return std::numeric_limits<I>::max();
  return static_cast<I>(x);
}

template <typename I, typename T> void testFloatToInt(const std::string &target, Elem from, Elem to) {
  JitLibrary lib(target);
  OpKind kind = std::is_signed_v<I> ? OpKind::FpToSI : OpKind::FpToUI;
  for (unsigned w : widths)
    addCast(lib, "c" + std::to_string(w), w, kind, from, to);
  ASSERT_TRUE(lib.load());
  std::vector<T> in;
  for (int bit = -2; bit < 70; ++bit)
    for (double d : {-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5})
      in.insert(in.end(), {T(std::ldexp(1.0, bit) + d), T(-std::ldexp(1.0, bit) + d)});
  for (double x : {0.0, -0.0, 0.99, -0.99, 1e30, -1e30})
    in.push_back(static_cast<T>(x));
  for (T x : {T(INFINITY), T(-INFINITY), T(NAN)})
    in.push_back(x);
  while (in.size() % 16)
    in.push_back(1);
  for (unsigned w : widths) {
    auto out = run(lib, "c" + std::to_string(w), in.data(), in.size(), sizeof(I));
    for (size_t i = 0; i < in.size(); ++i)
      ASSERT_EQ(at<I>(out, i), saturate<I>(static_cast<double>(in[i]))) << in[i] << " lanes " << w;
  }
}
TEST_P(CastTest, FloatToIntSaturates) {
  testFloatToInt<int8_t, float>(GetParam(), Elem::F32, Elem::I8);
  testFloatToInt<uint8_t, float>(GetParam(), Elem::F32, Elem::I8);
  testFloatToInt<int16_t, float>(GetParam(), Elem::F32, Elem::I16);
  testFloatToInt<int32_t, float>(GetParam(), Elem::F32, Elem::I32);
  testFloatToInt<uint32_t, float>(GetParam(), Elem::F32, Elem::I32);
  testFloatToInt<int64_t, float>(GetParam(), Elem::F32, Elem::I64);
  testFloatToInt<uint64_t, float>(GetParam(), Elem::F32, Elem::I64);
  testFloatToInt<int32_t, double>(GetParam(), Elem::F64, Elem::I32);
  testFloatToInt<uint32_t, double>(GetParam(), Elem::F64, Elem::I32);
  testFloatToInt<int64_t, double>(GetParam(), Elem::F64, Elem::I64);
  testFloatToInt<uint64_t, double>(GetParam(), Elem::F64, Elem::I64);
}

template <typename I> void testIntToNarrow(const std::string &target, Elem from) {
  JitLibrary lib(target);
  OpKind kind = std::is_signed_v<I> ? OpKind::SIToFp : OpKind::UIToFp;
  for (const Format &f : formats())
    addCast(lib, label(f, 16, "int"), 16, kind, from, f.elem);
  addCast(lib, "f32", 16, kind, from, Elem::F32);
  addCast(lib, "f64", 16, kind, from, Elem::F64);
  ASSERT_TRUE(lib.load());
  std::vector<I> in = {0, I(-1), 1, std::numeric_limits<I>::min(), std::numeric_limits<I>::max()};
  std::mt19937_64 rng(2);
  for (int i = 0; i < 3000; ++i)
    in.push_back(static_cast<I>(rng() >> (i % 64)));
  for (int top = 1; top < std::numeric_limits<I>::digits; ++top) // one step beside midpoints of short significands
    for (int low = 0; low < top; ++low)
      for (int delta : {-1, 0, 1})
        in.push_back(static_cast<I>((uint64_t(1) << top) + (uint64_t(1) << low) + static_cast<uint64_t>(delta)));
  while (in.size() % 16)
    in.push_back(0);
  for (const Format &f : formats()) {
    std::vector<double> values = finiteValues(f);
    auto out = run(lib, label(f, 16, "int"), in.data(), in.size(), ir::byteWidth(f.elem));
    for (size_t i = 0; i < in.size(); ++i) {
      // long double holds every 64-bit integer; make it a double rounded to odd, which encode() then rounds once.
      long double exact = in[i];
      double x = static_cast<double>(exact);
      if (static_cast<long double>(x) != exact && (llvm::bit_cast<uint64_t>(x) & 1) == 0)
        x = std::nextafter(x, static_cast<long double>(x) < exact ? INFINITY : -INFINITY);
      ASSERT_EQ(codeAt(out, i, f.elem), encode(f, values, x, false)) << f.name << " of " << +in[i];
    }
  }
  auto f32 = run(lib, "f32", in.data(), in.size(), 4), f64 = run(lib, "f64", in.data(), in.size(), 8);
  for (size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(at<float>(f32, i), static_cast<float>(in[i])) << +in[i];
    ASSERT_EQ(at<double>(f64, i), static_cast<double>(in[i])) << +in[i];
  }
}
TEST_P(CastTest, IntToFloatRoundsOnce) {
  testIntToNarrow<int8_t>(GetParam(), Elem::I8);
  testIntToNarrow<uint16_t>(GetParam(), Elem::I16);
  testIntToNarrow<int32_t>(GetParam(), Elem::I32);
  testIntToNarrow<uint32_t>(GetParam(), Elem::I32);
  testIntToNarrow<int64_t>(GetParam(), Elem::I64);
  testIntToNarrow<uint64_t>(GetParam(), Elem::I64);
}

INSTANTIATE_TEST_SUITE_P(Targets, CastTest, testing::ValuesIn(elementwiseTargets()), test::testName);

} // namespace
} // namespace tegula::cpu
