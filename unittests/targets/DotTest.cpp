// emitDot against plain loops: all shapes of small powers of two, every operand kind, every target.
#include "targets/cpu/emit/Dot.h"
#include "JitLibrary.h"
#include "Machine.h"
#include <cmath>
#include <cstring>
#include <random>

namespace tegula::cpu {
namespace {

using ir::Elem;

struct Case {
  Elem elem, acc;
  int64_t m, n, k;
  bool accumulate;
  DotPlan plan;
  std::string name() const {
    return std::string(plan.bUnsigned && !plan.bBiased ? "dot_unsigned_" : "dot_") + ir::name(elem) + "_" +
           std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + (accumulate ? "_acc" : "");
  }
};

std::vector<Case> cases(const CpuTarget &t) {
  std::vector<Case> all;
  auto add = [&](Elem e, Elem acc, int64_t m, int64_t n, int64_t k) {
    all.push_back({e, acc, m, n, k, (m + n + k) % 3 != 0, dotPlan(t, e, e, acc, m, n, k, "ieee")});
  };
  for (int64_t m : {1, 2, 8, 16, 32})
    for (int64_t n : {1, 2, 4, 8, 16, 64})
      for (int64_t k : {1, 2, 16, 64})
        add(Elem::F32, Elem::F32, m, n, k);
  for (int64_t m : {1, 4, 16, 64})
    for (int64_t n : {1, 4, 8, 32})
      for (int64_t k : {1, 2, 8, 32}) {
        add(Elem::F64, Elem::F64, m, n, k);
        add(Elem::BF16, Elem::F32, m, n, k);
        add(Elem::I8, Elem::I32, m, n, k);
        if (DotPlan p = dotPlan(t, Elem::I8, Elem::I8, Elem::I32, m, n, k, "ieee", true); p.bUnsigned && !p.bBiased)
          all.push_back({Elem::I8, Elem::I32, m, n, k, (m + n + k) % 3 != 0, p});
      }
  add(Elem::F32, Elem::F32, 64, 64, 2048); // several k blocks
  add(Elem::F32, Elem::F32, 32, 128, 1024);
  add(Elem::BF16, Elem::F32, 32, 64, 2048);
  return all;
}

/// Small integers: every sum is exact in every format, so results must be equal.
double sample(std::mt19937 &rng, bool isInt8) {
  int range = isInt8 ? 256 : 17;
  return static_cast<double>(static_cast<int>(rng() % static_cast<unsigned>(range)) - range / 2);
}

void put(std::vector<uint8_t> &buffer, int64_t index, Elem e, double x) {
  auto write = [&](auto value) {
    std::memcpy(buffer.data() + index * static_cast<int64_t>(sizeof value), &value, sizeof value);
  };
  switch (e) {
  case Elem::F32:
    return write(static_cast<float>(x));
  case Elem::F64:
    return write(x);
  case Elem::I8:
    return write(static_cast<uint8_t>(static_cast<int>(x)));
  case Elem::I16:
    return write(static_cast<int16_t>(x));
  case Elem::I32:
    return write(static_cast<int32_t>(x));
  default: { // bf16: the integers used have short significands
    float f = static_cast<float>(x);
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    return write(static_cast<uint16_t>(bits >> 16));
  }
  }
}
double get(const std::vector<uint8_t> &buffer, int64_t index, Elem e) {
  auto read = [&](auto value) {
    std::memcpy(&value, buffer.data() + index * static_cast<int64_t>(sizeof value), sizeof value);
    return static_cast<double>(value);
  };
  return e == Elem::F32 ? read(0.0f) : e == Elem::F64 ? read(0.0) : read(int32_t(0));
}

void check(const Case &c, const JitLibrary &lib) {
  const DotPlan &p = c.plan;
  std::mt19937 rng(7);
  std::vector<double> a(c.m * c.k), b(c.k * c.n), want(c.m * c.n);
  for (auto *values : {&a, &b, &want})
    for (double &x : *values)
      x = sample(rng, c.elem == Elem::I8);
  if (p.bUnsigned && !p.bBiased) { // also where sums of two products are largest
    for (double &x : b)
      x = x < 0 ? 127 : x;
    std::fill_n(a.begin(), a.size() / 2, -128);
  }
  std::vector<uint8_t> pa(p.aElems * ir::byteWidth(p.aElem)), pb(p.bElems * ir::byteWidth(p.bElem));
  std::vector<uint8_t> pc(c.m * p.cRowStride * ir::byteWidth(p.accElem));
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t k = 0; k < c.k; ++k)
      put(pa, i * p.aRowStride + k, p.aElem, a[i * c.k + k]);
  for (int64_t k = 0; k < c.k; ++k)
    for (int64_t j = 0; j < c.n; ++j)
      put(pb, packedBOffset(p, k, j), p.bElem, b[k * c.n + j] + (p.bBiased ? 128 : 0));
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < c.n; ++j) {
      put(pc, i * p.cRowStride + j, p.accElem, want[i * c.n + j]);
      double sum = c.accumulate ? want[i * c.n + j] : 0;
      for (int64_t k = 0; k < c.k; ++k)
        sum += a[i * c.k + k] * b[k * c.n + j];
      want[i * c.n + j] = sum;
    }
  lib.pointers(c.name(), {pa.size(), pb.size(), pc.size()})(pa.data(), pb.data(), pc.data());
  for (int64_t i = 0; i < c.m; ++i)
    for (int64_t j = 0; j < c.n; ++j)
      ASSERT_EQ(get(pc, i * p.cRowStride + j, p.accElem), want[i * c.n + j]) << c.name() << " at " << i << "," << j;
}

class DotTest : public testing::TestWithParam<std::string> {};

TEST_P(DotTest, EqualsPlainLoops) {
  JitLibrary lib(GetParam());
  std::vector<Case> all = cases(lib.target());
  for (const Case &c : all)
    lib.addPointers(c.name(), [&](VecEmitter &v, llvm::ArrayRef<llvm::Value *> args) {
      emitDot(v, lib.target(), c.plan, args[0], args[1], args[2], c.accumulate);
    });
  ASSERT_TRUE(lib.load());
  for (const Case &c : all)
    check(c, lib);
}

TEST_P(DotTest, BytesInFours) {
  JitLibrary lib(GetParam());
  const CpuTarget &t = lib.target();
  DotPlan plain = dotPlan(t, Elem::I8, Elem::I8, Elem::I32, 2, 64, 32, "ieee");
  DotPlan noSign = dotPlan(t, Elem::I8, Elem::I8, Elem::I32, 2, 64, 32, "ieee", true);
  EXPECT_EQ(plain.kGroup == 4, t.multipliesBytes());
  EXPECT_EQ(plain.bBiased, t.multipliesBytes());
  EXPECT_EQ(noSign.kGroup == 4, t.avx2);
  EXPECT_EQ(noSign.bUnsigned, t.avx2);
  EXPECT_FALSE(noSign.bBiased);
}

TEST(DotPlan, PairsOfBf16WhereTheInstructionIsFast) {
  CpuTarget t = *parseTarget("cpu:avx512bf16");
  for (bool slow : {false, true}) {
    t.slowPairsOfBf16 = slow;
    EXPECT_EQ(dotPlan(t, ir::Elem::BF16, ir::Elem::BF16, ir::Elem::F32, 64, 64, 64, "ieee").kGroup, slow ? 1 : 2);
  }
}

// Where A comes from a large L2, blocks of six rows and four vectors, if there are that many columns; else, and for
// pairs, twelve and two.
TEST(DotPlan, WideBlocksWhereTheLastLevelIsFar) {
  CpuTarget t = *parseTarget("cpu:avx512bf16");
  auto shape = [&](ir::Elem e, ir::Elem acc, int64_t n) {
    const DotPlan p = dotPlan(t, e, e, acc, 128, n, 64, "ieee");
    return std::pair(p.mr, p.nr);
  };
  const std::pair narrow(12u, 32u), wide(6u, 64u);
  EXPECT_EQ(shape(ir::Elem::F32, ir::Elem::F32, 256), narrow);
  t.l2Bytes = 2 << 20;
  EXPECT_EQ(shape(ir::Elem::F32, ir::Elem::F32, 256), wide);
  EXPECT_EQ(shape(ir::Elem::F32, ir::Elem::F32, 64), wide);
  EXPECT_EQ(shape(ir::Elem::F32, ir::Elem::F32, 32), narrow);
  EXPECT_EQ(shape(ir::Elem::BF16, ir::Elem::F32, 256), narrow);
  EXPECT_EQ(shape(ir::Elem::I8, ir::Elem::I32, 256), wide);
  t.slowPairsOfBf16 = true;
  EXPECT_EQ(shape(ir::Elem::BF16, ir::Elem::F32, 256), wide);
}

TEST_P(DotTest, TruncTf32) {
  JitLibrary lib(GetParam());
  lib.addElementwise("trunc", 4, {Elem::F32}, Elem::F32,
                     [](VecEmitter &v, llvm::ArrayRef<llvm::Value *> x) { return truncTf32(v, x[0]); });
  ASSERT_TRUE(lib.load());
  const uint32_t in[] = {0x3F800FFF, 0xBF801FFF, 0x7F800000, 0x7F800001}, want[] = {0x3F800000, 0xBF800000, 0x7F800000};
  uint32_t out[4];
  const void *p = in;
  lib.elementwise("trunc")(&p, out, 4);
  EXPECT_EQ(std::memcmp(out, want, sizeof want), 0);
  EXPECT_GT(out[3] & 0x7FFFFFFF, 0x7F800000u) << "NaN stays NaN";
}

INSTANTIATE_TEST_SUITE_P(Targets, DotTest, testing::ValuesIn(runnableTargets()), test::testName);

} // namespace
} // namespace tegula::cpu
