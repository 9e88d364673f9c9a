// Element arithmetic against the compiler's own, and the narrow float formats by brute force.
#include "ir/Scalar.h"
#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <map>

using namespace tegula::ir;

namespace {

constexpr Elem narrowElems[] = {Elem::F8E5M2, Elem::F8E4M3FN, Elem::F8E4B15, Elem::F8E4B8,
                                Elem::F8E5B16, Elem::F16, Elem::BF16};

TEST(Scalar, DecodeThenEncodeIsIdentity) {
  for (Elem e : narrowElems)
    for (uint64_t bits = 0; bits <= elemMask(e); ++bits) {
      double v = decodeFloat(e, bits);
      uint64_t back = encodeFloat(e, v);
      if (std::isnan(v))
        EXPECT_TRUE(std::isnan(decodeFloat(e, back)));
      else if (std::isinf(v))
        EXPECT_TRUE(back == bits || isFp8(e));
      else
        EXPECT_EQ(back, bits) << name(e);
    }
}

TEST(Scalar, KnownValues) {
  struct Row {
    Elem e;
    uint64_t bits;
    double value;
  };
  const Row rows[] = {
      {Elem::F8E5M2, 0x7B, 57344},        {Elem::F8E4M3FN, 0x7E, 448},  {Elem::F8E4B8, 0x7F, 240},
      {Elem::F8E5B16, 0x7F, 57344},       {Elem::F8E4B15, 0x7F, 1.875}, {Elem::F16, 0x7BFF, 65504},
      {Elem::F16, 1, std::ldexp(1, -24)}, {Elem::BF16, 0x3F80, 1},      {Elem::F8E4M3FN, 1, std::ldexp(1, -9)}};
  for (const Row &r : rows)
    EXPECT_EQ(decodeFloat(r.e, r.bits), r.value) << name(r.e);
  EXPECT_EQ(encodeFloat(Elem::F8E4M3FN, 1e9), 0x7Eu);
  EXPECT_EQ(encodeFloat(Elem::F8E5M2, -INFINITY), 0xFBu);
  EXPECT_EQ(encodeFloat(Elem::F16, 65520), 0x7C00u);
  EXPECT_EQ(encodeFloat(Elem::F16, 65519.99), 0x7BFFu);
  EXPECT_EQ(encodeFloat(Elem::F16, 1e6, true), 0x7BFFu);
  EXPECT_EQ(encodeFloat(Elem::F32, 1e300, true), 0x7F7FFFFFu);
}

// Between two neighbours, the nearer wins and ties go to the even code.
TEST(Scalar, RoundsToNearestEven) {
  for (Elem e : narrowElems) {
    std::map<double, uint64_t> codes;
    for (uint64_t bits = 0; bits < (elemMask(e) >> 1); ++bits)
      if (double v = decodeFloat(e, bits); std::isfinite(v))
        codes[v] = bits;
    for (auto it = codes.begin(), next = std::next(it); next != codes.end(); ++it, ++next) {
      long double mid = (static_cast<long double>(it->first) + next->first) / 2;
      EXPECT_EQ(encodeFloat(e, mid), it->second & 1 ? next->second : it->second) << name(e);
      EXPECT_EQ(encodeFloat(e, std::nextafter(mid, -1.0L)), it->second);
      EXPECT_EQ(encodeFloat(e, std::nextafter(mid, INFINITY)), next->second);
      EXPECT_EQ(encodeFloat(e, std::nextafter(mid, INFINITY), true), it->second);
    }
  }
}

uint64_t eval(OpKind k, Elem from, Elem to, std::initializer_list<uint64_t> args) {
  ScalarOp op{k, from, to};
  return evalScalar(op, {args.begin(), args.size()}).value_or(0xDEAD);
}

TEST(Scalar, IntegersWrap) {
  for (unsigned a = 0; a < 256; a += 3)
    for (unsigned b = 0; b < 256; b += 5) {
      auto i8 = [](unsigned v) { return static_cast<int8_t>(v); };
      EXPECT_EQ(eval(OpKind::Add, Elem::I8, Elem::I8, {a, b}), static_cast<uint8_t>(a + b));
      EXPECT_EQ(eval(OpKind::Mul, Elem::I8, Elem::I8, {a, b}), static_cast<uint8_t>(a * b));
      EXPECT_EQ(eval(OpKind::UMulHi, Elem::I8, Elem::I8, {a, b}), a * b >> 8);
      EXPECT_EQ(eval(OpKind::SMin, Elem::I8, Elem::I8, {a, b}), static_cast<uint8_t>(std::min(i8(a), i8(b))));
      if (b && !(i8(a) == -128 && i8(b) == -1)) {
        EXPECT_EQ(eval(OpKind::SDiv, Elem::I8, Elem::I8, {a, b}), static_cast<uint8_t>(i8(a) / i8(b)));
        EXPECT_EQ(eval(OpKind::SRem, Elem::I8, Elem::I8, {a, b}), static_cast<uint8_t>(i8(a) % i8(b)));
      }
      EXPECT_EQ(eval(OpKind::AShr, Elem::I8, Elem::I8, {a, b & 7}), static_cast<uint8_t>(i8(a) >> (b & 7)));
    }
  EXPECT_EQ(eval(OpKind::SDiv, Elem::I32, Elem::I32, {1, 0}), 0xDEADu);
  EXPECT_EQ(eval(OpKind::SDiv, Elem::I32, Elem::I32, {0x80000000, 0xFFFFFFFF}), 0xDEADu);
  EXPECT_EQ(eval(OpKind::SRem, Elem::I64, Elem::I64, {uint64_t(1) << 63, ~uint64_t(0)}), 0u);
  for (uint64_t amount : {32u, 100u, 0xFFFFFFFFu}) {
    EXPECT_EQ(eval(OpKind::Shl, Elem::I32, Elem::I32, {1, amount}), 0u);
    EXPECT_EQ(eval(OpKind::LShr, Elem::I32, Elem::I32, {0x80000000, amount}), 0u);
    EXPECT_EQ(eval(OpKind::AShr, Elem::I32, Elem::I32, {0x80000000, amount}), 0xFFFFFFFFu);
    EXPECT_EQ(eval(OpKind::AShr, Elem::I32, Elem::I32, {0x7FFFFFFF, amount}), 0u);
  }
  EXPECT_EQ(eval(OpKind::AShr, Elem::I64, Elem::I64, {uint64_t(1) << 63, 64}), ~uint64_t(0));
  EXPECT_EQ(eval(OpKind::Clz, Elem::I16, Elem::I16, {1}), 15u);
  EXPECT_EQ(eval(OpKind::SExt, Elem::I1, Elem::I8, {1}), 0xFFu);
}

TEST(Scalar, FloatsToIntegersSaturate) {
  auto bits = [](float f) { return static_cast<uint64_t>(std::bit_cast<uint32_t>(f)); };
  EXPECT_EQ(eval(OpKind::FpToSI, Elem::F32, Elem::I32, {bits(3e9f)}), 0x7FFFFFFFu);
  EXPECT_EQ(eval(OpKind::FpToSI, Elem::F32, Elem::I32, {bits(-3e9f)}), 0x80000000u);
  EXPECT_EQ(eval(OpKind::FpToSI, Elem::F32, Elem::I8, {bits(-1.9f)}), 0xFFu);
  EXPECT_EQ(eval(OpKind::FpToUI, Elem::F32, Elem::I8, {bits(-1.9f)}), 0u);
  EXPECT_EQ(eval(OpKind::FpToUI, Elem::F32, Elem::I64, {bits(1e30f)}), ~uint64_t(0));
  EXPECT_EQ(eval(OpKind::FpToSI, Elem::F32, Elem::I64, {bits(NAN)}), 0u);
}

// fma in bf16 must not round twice: compare with exact arithmetic in long double where that is exact enough.
TEST(Scalar, NarrowArithmeticRoundsOnce) {
  uint64_t state = 1;
  auto next = [&] { return state = state * 6364136223846793005u + 1442695040888963407u, state >> 48; };
  for (int i = 0; i < 20000; ++i) {
    uint64_t a = next(), b = next(), c = next();
    double x = decodeFloat(Elem::F16, a), y = decodeFloat(Elem::F16, b), z = decodeFloat(Elem::F16, c);
    if (std::isnan(x * y + z))
      continue;
    long double exact = static_cast<long double>(x) * y + z; // 22 bits + 41 bits of range fit 64
    EXPECT_EQ(eval(OpKind::Fma, Elem::F16, Elem::F16, {a, b, c}), encodeFloat(Elem::F16, exact));
    EXPECT_EQ(eval(OpKind::FMul, Elem::F16, Elem::F16, {a, b}),
              encodeFloat(Elem::F16, static_cast<long double>(x) * y));
  }
}

} // namespace
