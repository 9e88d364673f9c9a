// Element-wise operations against scalar C++ on random and special operands: every target, several widths.
#include "FloatReference.h"
#include "JitLibrary.h"
#include "Machine.h"
#include <random>

namespace tegula::cpu {
namespace {

using ir::CmpPred;
using ir::Elem;
using ir::OpKind;
using namespace reference;

ir::Op makeOp(OpKind kind) {
  ir::Op op{};
  op.kind = kind;
  return op;
}
const unsigned widths[] = {1, 4, 16, 32};
constexpr size_t maxWidth = 32;

void add(JitLibrary &lib, const std::string &name, const ir::Op &op, unsigned operands, Elem arg, Elem result,
         std::vector<unsigned> lanes = {std::begin(widths), std::end(widths)}) {
  std::vector<Elem> args(operands, arg);
  for (unsigned w : lanes)
    lib.addElementwise(
        name + "_" + std::to_string(w), w, args, result,
        [&](VecEmitter &v, llvm::ArrayRef<llvm::Value *> x) { return v.elementwise(op, x, arg, result); });
}

/// Results of one operation for one width.
template <typename R>
std::vector<R> run(const JitLibrary &lib, const std::string &name, unsigned width,
                   std::initializer_list<const void *> in, size_t n) {
  std::vector<R> out(n);
  std::vector<const void *> pointers(in);
  lib.elementwise(name + "_" + std::to_string(width))(pointers.data(), out.data(), static_cast<int64_t>(n));
  return out;
}

class VecTest : public testing::TestWithParam<std::string> {};

//===--------------------------------------------------------------------------------------------------------------===//
// Integers

template <typename T> std::vector<T> integers(unsigned seed) {
  using L = std::numeric_limits<T>;
  const T special[] = {0, 1, T(-1), 2, T(-2), L::min(), L::max(), T(L::max() - 1), T(L::min() + 1), 7};
  std::vector<T> all;
  std::mt19937_64 rng(seed);
  // Pairs of specials when seeds 0 (slow index) and 1 (fast index) are zipped; then random numbers of all sizes.
  for (size_t i = 0; i < std::size(special); ++i)
    for (size_t j = 0; j < std::size(special); ++j)
      all.push_back(special[seed ? j : i]);
  for (int i = 0; i < 2000; ++i) {
    T x = static_cast<T>(static_cast<T>(rng()) >> (rng() % (8 * sizeof(T))));
    all.push_back(x);
  }
  while (all.size() % maxWidth)
    all.push_back(1);
  return all;
}

template <typename T> struct Wider;
template <> struct Wider<uint8_t> {
  using type = uint64_t;
};
template <> struct Wider<uint16_t> {
  using type = uint64_t;
};
template <> struct Wider<uint32_t> {
  using type = uint64_t;
};
template <> struct Wider<uint64_t> {
  using type = unsigned __int128;
};

/// The expected bits, or nothing where any value is right.
template <typename U> std::optional<U> integerResult(OpKind k, U a, U b) {
  using S = std::make_signed_t<U>;
  constexpr unsigned bits = 8 * sizeof(U);
  S sa = static_cast<S>(a), sb = static_cast<S>(b);
  bool overflow = sa == std::numeric_limits<S>::min() && sb == -1;
  switch (k) {
  case OpKind::Add:
    return U(a + b);
  case OpKind::Sub:
    return U(a - b);
  case OpKind::Mul:
    return U(typename Wider<U>::type(a) * b);
  case OpKind::SDiv:
    return b && !overflow ? std::optional<U>(U(sa / sb)) : std::nullopt;
  case OpKind::SRem:
    return b && !overflow ? std::optional<U>(U(sa % sb)) : std::nullopt;
  case OpKind::UDiv:
    return b ? std::optional<U>(U(a / b)) : std::nullopt;
  case OpKind::URem:
    return b ? std::optional<U>(U(a % b)) : std::nullopt;
  case OpKind::And:
    return U(a & b);
  case OpKind::Or:
    return U(a | b);
  case OpKind::Xor:
    return U(a ^ b);
  case OpKind::Shl:
    return b < bits ? U(typename Wider<U>::type(a) << b) : U(0);
  case OpKind::LShr:
    return b < bits ? U(a >> b) : U(0);
  case OpKind::AShr:
    return U(sa >> std::min<U>(b, bits - 1));
  case OpKind::SMin:
    return U(std::min(sa, sb));
  case OpKind::SMax:
    return U(std::max(sa, sb));
  case OpKind::UMin:
    return std::min(a, b);
  case OpKind::UMax:
    return std::max(a, b);
  case OpKind::UMulHi:
    return U((typename Wider<U>::type(a) * b) >> bits);
  case OpKind::AbsI:
    return sa < 0 ? U(0 - a) : a;
  case OpKind::Clz:
    return a ? U(std::countl_zero(a)) : U(bits);
  case OpKind::PopCount:
    return U(std::popcount(a));
  default:
    return std::nullopt;
  }
}

template <typename U> void testIntegers(const std::string &target, Elem e) {
  JitLibrary lib(target);
  for (int k = int(OpKind::Add); k < int(OpKind::CmpI); ++k)
    add(lib, ir::info(OpKind(k)).name, makeOp(OpKind(k)), static_cast<unsigned>(ir::info(OpKind(k)).operands), e, e);
  ASSERT_TRUE(lib.load());
  std::vector<U> a = integers<U>(0), b = integers<U>(1);
  for (int k = int(OpKind::Add); k < int(OpKind::CmpI); ++k)
    for (unsigned w : widths) {
      const char *name = ir::info(OpKind(k)).name;
      std::vector<U> out = run<U>(lib, name, w, {a.data(), b.data()}, a.size());
      for (size_t i = 0; i < a.size(); ++i)
        if (auto want = integerResult<U>(OpKind(k), a[i], b[i]))
          ASSERT_EQ(out[i], *want) << name << " i" << 8 * sizeof(U) << " of " << +a[i] << ", " << +b[i] << " lanes "
                                   << w;
    }
}
TEST_P(VecTest, Integers8) { testIntegers<uint8_t>(GetParam(), Elem::I8); }
TEST_P(VecTest, Integers16) { testIntegers<uint16_t>(GetParam(), Elem::I16); }
TEST_P(VecTest, Integers32) { testIntegers<uint32_t>(GetParam(), Elem::I32); }
TEST_P(VecTest, Integers64) { testIntegers<uint64_t>(GetParam(), Elem::I64); }

TEST_P(VecTest, DivisionByConstants) {
  JitLibrary lib(GetParam());
  const int32_t divisors[] = {1, 2, 3, 7, 10, -1, -2, -7, 64, 0, INT32_MIN, INT32_MAX};
  for (int32_t d : divisors)
    lib.addElementwise("by" + std::to_string(d), 16, {Elem::I32}, Elem::I32,
                       [&](VecEmitter &v, llvm::ArrayRef<llvm::Value *> x) {
                         llvm::Value *c = llvm::ConstantInt::get(x[0]->getType(), static_cast<uint64_t>(d), true);
                         return v.elementwise(makeOp(OpKind::SDiv), {x[0], c}, Elem::I32, Elem::I32);
                       });
  ASSERT_TRUE(lib.load());
  std::vector<int32_t> a = integers<int32_t>(0), out(a.size());
  for (int32_t d : divisors) {
    const void *p = a.data();
    lib.elementwise("by" + std::to_string(d))(&p, out.data(), static_cast<int64_t>(a.size()));
    for (size_t i = 0; i < a.size(); ++i)
      if (d != 0 && !(d == -1 && a[i] == INT32_MIN))
        ASSERT_EQ(out[i], a[i] / d) << a[i] << " / " << d;
  }
}

TEST_P(VecTest, BooleanOperations) {
  JitLibrary lib(GetParam());
  const OpKind kinds[] = {OpKind::Add, OpKind::Sub, OpKind::Mul, OpKind::And, OpKind::Or,
                          OpKind::Xor, OpKind::UMin, OpKind::UMax, OpKind::UDiv, OpKind::URem};
  for (OpKind k : kinds)
    add(lib, ir::info(k).name, makeOp(k), 2, Elem::I1, Elem::I1);
  ASSERT_TRUE(lib.load());
  std::vector<uint8_t> a, b;
  for (size_t i = 0; i < maxWidth; ++i) {
    a.push_back(i & 1);
    b.push_back(i >> 1 & 1);
  }
  for (OpKind k : kinds)
    for (unsigned w : widths) {
      auto out = run<uint8_t>(lib, ir::info(k).name, w, {a.data(), b.data()}, a.size());
      for (size_t i = 0; i < a.size(); ++i) {
        auto want = k == OpKind::UMin || k == OpKind::UMax ? integerResult<uint8_t>(k, a[i], b[i])
                                                           : integerResult<uint8_t>(k, a[i], b[i]);
        if (want)
          ASSERT_EQ(out[i], *want & 1) << ir::info(k).name << " " << +a[i] << "," << +b[i];
      }
    }
}

//===--------------------------------------------------------------------------------------------------------------===//
// Floats

template <typename T> std::vector<T> floats(unsigned seed) {
  using L = std::numeric_limits<T>;
  const T special[] = {0,
                       -T(0),
                       1,
                       -1,
                       T(0.5),
                       T(-0.5),
                       T(1.5),
                       T(2.5),
                       T(-2.5),
                       L::min(),
                       L::max(),
                       -L::max(),
                       L::denorm_min(),
                       -L::denorm_min(),
                       L::infinity(),
                       -L::infinity(),
                       L::quiet_NaN(),
                       L::signaling_NaN(),
                       T(0.7),
                       T(-0.3),
                       T(1e6) + T(0.5),
                       T(-3e9)};
  std::vector<T> all;
  for (size_t i = 0; i < std::size(special); ++i)
    for (size_t j = 0; j < std::size(special); ++j)
      all.push_back(special[seed == 0 ? i : seed == 1 ? j : (i * 7 + j * 3) % std::size(special)]);
  std::mt19937_64 rng(seed + 10);
  for (int i = 0; i < 6000; ++i) {
    uint64_t bits = rng();
    T x;
    std::memcpy(&x, &bits, sizeof x);
    all.push_back(i % 3 ? x : static_cast<T>(static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-60));
  }
  while (all.size() % maxWidth)
    all.push_back(1);
  return all;
}

template <typename T> bool same(T a, T b) { // NaN equals NaN, zeros by sign
  return std::isnan(a) || std::isnan(b) ? std::isnan(a) && std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

template <typename T> T minMax(bool isMin, bool propagate, T a, T b) {
  if (std::isnan(a) || std::isnan(b))
    return propagate ? std::numeric_limits<T>::quiet_NaN() : std::isnan(a) ? b : a;
  if (a == b)
    return isMin == std::signbit(a) ? a : b;
  return (a < b) == isMin ? a : b;
}

template <typename T> T floatResult(OpKind k, T a, T b, T c) {
  switch (k) {
  case OpKind::FAdd:
    return a + b;
  case OpKind::FSub:
    return a - b;
  case OpKind::FMul:
    return a * b;
  case OpKind::FDiv:
    return a / b;
  case OpKind::FRem:
    return std::fmod(a, b);
  case OpKind::FNeg:
    return std::copysign(a, std::signbit(a) ? T(1) : T(-1));
  case OpKind::FAbs:
    return std::fabs(a);
  case OpKind::Fma:
    return std::fma(a, b, c);
  case OpKind::MinNum:
    return minMax(true, false, a, b);
  case OpKind::MaxNum:
    return minMax(false, false, a, b);
  case OpKind::Minimum:
    return minMax(true, true, a, b);
  case OpKind::Maximum:
    return minMax(false, true, a, b);
  case OpKind::Sqrt:
    return std::sqrt(a);
  case OpKind::Floor:
    return std::floor(a);
  default:
    return std::ceil(a);
  }
}
const OpKind floatKinds[] = {OpKind::FAdd, OpKind::FSub, OpKind::FMul, OpKind::FDiv, OpKind::FRem,
                             OpKind::FNeg, OpKind::FAbs, OpKind::Fma, OpKind::MinNum, OpKind::MaxNum,
                             OpKind::Minimum, OpKind::Maximum, OpKind::Sqrt, OpKind::Floor, OpKind::Ceil};

template <typename T> void testFloats(const std::string &target, Elem e) {
  JitLibrary lib(target);
  for (OpKind k : floatKinds)
    add(lib, ir::info(k).name, makeOp(k), static_cast<unsigned>(ir::info(k).operands), e, e);
  ASSERT_TRUE(lib.load());
  std::vector<T> a = floats<T>(0), b = floats<T>(1), c = floats<T>(2);
  for (OpKind k : floatKinds)
    for (unsigned w : widths) {
      const char *name = ir::info(k).name;
      std::vector<T> out = run<T>(lib, name, w, {a.data(), b.data(), c.data()}, a.size());
      for (size_t i = 0; i < a.size(); ++i)
        ASSERT_PRED2(same<T>, out[i], floatResult<T>(k, a[i], b[i], c[i]))
            << name << " of " << std::hexfloat << a[i] << ", " << b[i] << ", " << c[i] << " lanes " << w;
    }
}
TEST_P(VecTest, Float) { testFloats<float>(GetParam(), Elem::F32); }
TEST_P(VecTest, Double) { testFloats<double>(GetParam(), Elem::F64); }

template <typename T> void testFmod(const std::string &target, Elem e) {
  JitLibrary lib(target);
  lib.addElementwise("soft", 1, {e, e}, e, [&](VecEmitter &v, llvm::ArrayRef<llvm::Value *> x) {
    VecEmitter soft = v;
    soft.target.libm = false;
    return soft.elementwise(makeOp(OpKind::FRem), x, e, e);
  });
  add(lib, "vector", makeOp(OpKind::FRem), 2, e, e);
  ASSERT_TRUE(lib.load());
  std::vector<T> a = floats<T>(0), b = floats<T>(1);
  std::mt19937_64 rng(5);
  for (int i = 0; i < 100000; ++i) { // near each other, so that quotients are small and large
    T x = static_cast<T>(std::ldexp(static_cast<double>(rng() >> 11), static_cast<int>(rng() % 200) - 150));
    a.push_back(i % 2 ? x : -x);
    b.push_back(static_cast<T>(
        std::ldexp(static_cast<double>(rng() >> (11 + rng() % 50)), static_cast<int>(rng() % 200) - 150)));
  }
  for (int i = 0; i < 20000; ++i) { // quotients that are integers, or just below one
    T y = static_cast<T>(static_cast<double>(rng() >> 40) + 1), x = y * static_cast<T>(rng() >> (41 + rng() % 20));
    a.push_back(i % 3 ? std::nextafter(x, T(0)) : x);
    b.push_back(i % 2 ? y : -y);
  }
  while (a.size() % maxWidth)
    a.push_back(1), b.push_back(1);
  for (unsigned w : widths) {
    std::vector<T> out = run<T>(lib, "vector", w, {a.data(), b.data()}, a.size());
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_PRED2(same<T>, out[i], std::fmod(a[i], b[i])) << std::hexfloat << a[i] << ", " << b[i] << " lanes " << w;
  }
  std::vector<T> out(a.size());
  const void *in[] = {a.data(), b.data()};
  lib.elementwise("soft")(in, out.data(), static_cast<int64_t>(out.size()));
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_PRED2(same<T>, out[i], std::fmod(a[i], b[i])) << std::hexfloat << a[i] << ", " << b[i];
}
TEST_P(VecTest, FmodOfVectorsAndWithoutLibrary) {
  testFmod<float>(GetParam(), Elem::F32);
  testFmod<double>(GetParam(), Elem::F64);
}

TEST_P(VecTest, MinMaxWithConstants) {
  JitLibrary lib(GetParam());
  const float constants[] = {0.0f, -0.0f, 1.0f, -2.5f, INFINITY, -INFINITY, NAN};
  const OpKind kinds[] = {OpKind::MinNum, OpKind::MaxNum, OpKind::Minimum, OpKind::Maximum};
  auto name = [&](OpKind k, size_t c) { return std::string(ir::info(k).name) + std::to_string(c); };
  for (OpKind k : kinds)
    for (size_t c = 0; c < std::size(constants); ++c)
      for (bool left : {false, true})
        lib.addElementwise(name(k, c) + (left ? "l" : "r"), 16, {Elem::F32}, Elem::F32,
                           [&](VecEmitter &v, llvm::ArrayRef<llvm::Value *> x) {
                             llvm::Value *y = llvm::ConstantFP::get(x[0]->getType(), llvm::APFloat(constants[c]));
                             return v.elementwise(makeOp(k), {left ? y : x[0], left ? x[0] : y}, Elem::F32, Elem::F32);
                           });
  ASSERT_TRUE(lib.load());
  std::vector<float> a = floats<float>(0), out(a.size());
  const void *p = a.data();
  for (OpKind k : kinds)
    for (size_t c = 0; c < std::size(constants); ++c)
      for (const char *side : {"l", "r"}) {
        lib.elementwise(name(k, c) + side)(&p, out.data(), static_cast<int64_t>(a.size()));
        for (size_t i = 0; i < a.size(); ++i)
          ASSERT_PRED2(same<float>, out[i], floatResult<float>(k, a[i], constants[c], 0)) << name(k, c) << " " << a[i];
      }
}

/// Narrow arithmetic: the exact result rounded once. fma needs more than double to be exact; long double has it here.
TEST_P(VecTest, NarrowFloatsRoundOnce) {
  JitLibrary lib(GetParam());
  for (const Format &f : formats())
    for (OpKind k : floatKinds)
      add(lib, std::string(f.name) + ir::info(k).name, makeOp(k), static_cast<unsigned>(ir::info(k).operands), f.elem,
          f.elem, {16});
  ASSERT_TRUE(lib.load());
  std::mt19937 rng(5);
  for (const Format &f : formats()) {
    unsigned bytes = ir::byteWidth(f.elem);
    size_t n = 2048;
    std::vector<uint8_t> in[3];
    std::vector<uint32_t> codes[3];
    std::vector<double> values = finiteValues(f);
    for (int j = 0; j < 3; ++j) {
      in[j].resize(n * bytes);
      for (size_t i = 0; i < n; ++i) {
        uint32_t code = rng() & (bytes == 1 ? 0xFFu : 0xFFFFu);
        codes[j].push_back(code);
        std::memcpy(in[j].data() + i * bytes, &code, bytes);
      }
    }
    for (OpKind k : floatKinds) {
      std::vector<uint8_t> out(n * bytes);
      const void *p[] = {in[0].data(), in[1].data(), in[2].data()};
      lib.elementwise(std::string(f.name) + ir::info(k).name + "_16")(p, out.data(), int64_t(n));
      for (size_t i = 0; i < n; ++i) {
        double x[3], want;
        for (int j = 0; j < 3; ++j)
          x[j] = decode(f, codes[j][i]);
        if (k == OpKind::Fma) {
          // Exact sum of two doubles, then rounded to odd.
          double s = x[0] * x[1] + x[2], product = x[0] * x[1], z = s - product;
          double error = (product - (s - z)) + (x[2] - z);
          if (std::isfinite(s) && error != 0 && (llvm::bit_cast<uint64_t>(s) & 1) == 0)
            s = std::nextafter(s, error > 0 ? INFINITY : -INFINITY);
          want = s;
        } else {
          want = floatResult<double>(k, x[0], x[1], x[2]); // double rounding is innocuous from 53 digits
        }
        uint32_t got = 0;
        std::memcpy(&got, out.data() + i * bytes, bytes);
        if (std::isnan(want)) {
          if (f.nanCode != -2)
            ASSERT_TRUE(std::isnan(decode(f, got)))
                << f.name << " " << ir::info(k).name << " " << x[0] << " " << x[1] << " gives " << got << " codes "
                << codes[0][i] << " " << codes[1][i];
          continue;
        }
        bool exact = k == OpKind::FNeg || k == OpKind::FAbs || k == OpKind::Floor || k == OpKind::Ceil ||
                     (k >= OpKind::MinNum && k <= OpKind::Maximum);
        if (exact && f.infinity && std::isinf(want)) { // not a rounding, so nothing saturates
          ASSERT_EQ(decode(f, got), want) << f.name << " " << ir::info(k).name;
          continue;
        }
        ASSERT_EQ(got, encode(f, values, want, false))
            << f.name << " " << ir::info(k).name << " of " << std::hexfloat << x[0] << ", " << x[1] << ", " << x[2];
      }
    }
  }
}

TEST_P(VecTest, Comparisons) {
  JitLibrary lib(GetParam());
  auto op = [](CmpPred p) {
    ir::Op o = makeOp(p < CmpPred::Oeq ? OpKind::CmpI : OpKind::CmpF);
    o.attrs.push_back({ir::attr::pred, p});
    return o;
  };
  for (int p = 0; p <= int(CmpPred::Uno); ++p) {
    bool isInt = p < int(CmpPred::Oeq);
    add(lib, "c" + std::to_string(p), op(CmpPred(p)), 2, isInt ? Elem::I32 : Elem::F32, Elem::I1);
  }
  ASSERT_TRUE(lib.load());
  std::vector<uint32_t> ia = integers<uint32_t>(0), ib = integers<uint32_t>(1);
  std::vector<float> fa = floats<float>(0), fb = floats<float>(1);
  auto wantInt = [](CmpPred p, uint32_t a, uint32_t b) {
    int32_t x = static_cast<int32_t>(a), y = static_cast<int32_t>(b);
    const bool r[] = {a == b, a != b, x<y, x <= y, x> y, x >= y, a<b, a <= b, a> b, a >= b};
    return r[int(p)];
  };
  auto wantFloat = [](CmpPred p, float a, float b) {
    bool uno = std::isnan(a) || std::isnan(b);
    const bool r[] = {a == b, a < b || a > b, a<b, a <= b, a> b, a >= b, !uno, uno || a == b,
                      !(a == b), uno || a < b, uno || a <= b, uno || a > b, uno || a >= b, uno};
    return r[int(p) - int(CmpPred::Oeq)];
  };
  for (int p = 0; p <= int(CmpPred::Uno); ++p)
    for (unsigned w : widths) {
      bool isInt = p < int(CmpPred::Oeq);
      size_t n = isInt ? ia.size() : fa.size();
      auto out = isInt ? run<uint8_t>(lib, "c" + std::to_string(p), w, {ia.data(), ib.data()}, n)
                       : run<uint8_t>(lib, "c" + std::to_string(p), w, {fa.data(), fb.data()}, n);
      for (size_t i = 0; i < n; ++i)
        ASSERT_EQ(out[i], isInt ? wantInt(CmpPred(p), ia[i], ib[i]) : wantFloat(CmpPred(p), fa[i], fb[i]))
            << ir::name(CmpPred(p)) << " lanes " << w << " at " << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Targets, VecTest, testing::ValuesIn(elementwiseTargets()), test::testName);

} // namespace
} // namespace tegula::cpu
