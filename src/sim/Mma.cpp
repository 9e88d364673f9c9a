// mma.sync: a warp multiplies matrices that it holds in registers.
#include "sim/AsyncState.h"
#include "sim/Fragments.h"
#include "sim/MatrixMath.h"
#include "sim/Numeric.h"
#include "sim/State.h"
#include <cstring>

using namespace tegula::sim;

namespace tegula::sim {

struct MmaArgs {
  int32_t site, k, dType, aType, bType;
  const uint32_t *a, *b, *c;
  uint32_t *d;
};
static const MmaArgs &argsOf(const Thread &t) { return *static_cast<const MmaArgs *>(t.slot.in); }

/// Which shapes exist: K by operand type, and accumulators.
struct MmaForm {
  int32_t aType, dTypes, kMask; // bit sets of TEGULA_MMA_* and of K
  bool mixed;                   // B may be the other type of the same width
};
static constexpr int32_t bit(int32_t type) { return 1 << type; }
static constexpr MmaForm forms[] = {
    {TEGULA_MMA_F16, bit(TEGULA_MMA_F32) | bit(TEGULA_MMA_F16), 8 | 16, false},
    {TEGULA_MMA_BF16, bit(TEGULA_MMA_F32), 8 | 16, false},
    {TEGULA_MMA_TF32, bit(TEGULA_MMA_F32), 4 | 8, false},
    {TEGULA_MMA_E4M3, bit(TEGULA_MMA_F32) | bit(TEGULA_MMA_F16), 16 | 32, true},
    {TEGULA_MMA_E5M2, bit(TEGULA_MMA_F32) | bit(TEGULA_MMA_F16), 16 | 32, true},
    {TEGULA_MMA_S8, bit(TEGULA_MMA_S32), 16 | 32, true},
    {TEGULA_MMA_U8, bit(TEGULA_MMA_S32), 16 | 32, true},
    {TEGULA_MMA_F64, bit(TEGULA_MMA_F64), 4 | 8 | 16, false},
};

static bool exists(const MmaArgs &m) {
  for (const MmaForm &f : forms) {
    if (f.aType != m.aType) continue;
    bool b = m.bType == m.aType || (f.mixed && widthIndex(m.bType) == widthIndex(m.aType) && isIntType(m.bType) == isIntType(m.aType));
    bool kOk = m.k > 0 && (m.k & (m.k - 1)) == 0 && (f.kMask & m.k);
    return b && kOk && (f.dTypes >> m.dType & 1);
  }
  return false;
}

/// Calls f(lane, byte offset in the lane's registers, position) for every element of a fragment with `count` elements.
template <class F> static void eachElement(const Fragment &f, uint32_t count, uint32_t elementBytes, F use) {
  uint32_t perLane = count / 32, perReg = 1u << f.subBits;
  for (uint32_t e = 0; e < perLane; ++e)
    for (uint32_t lane = 0; lane < 32; ++lane) use(lane, e * elementBytes, f.at(e % perReg, e / perReg, lane));
}

static const uint8_t *bytesOf(const uint32_t *registers) { return reinterpret_cast<const uint8_t *>(registers); }

template <class E, class Decode> static void readOperands(Thread *warp, const MmaArgs &m, E *a, E *b, Decode decode) {
  uint32_t width = widthIndex(m.aType), bytes = 1u << width, k = uint32_t(m.k);
  eachElement(fragmentA[width], 16 * k, bytes, [&](uint32_t lane, uint32_t offset, Position p) {
    decode(m.aType, bytesOf(argsOf(warp[lane]).a) + offset, a + p.row * k + p.col);
  });
  eachElement(fragmentB[width], 8 * k, bytes, [&](uint32_t lane, uint32_t offset, Position p) {
    decode(m.bType, bytesOf(argsOf(warp[lane]).b) + offset, b + p.row * 8 + p.col);
  });
}

/// 32-bit accumulators, or packed f16.
template <class Use> static void eachAccumulator(const MmaArgs &m, Use use) {
  if (m.dType == TEGULA_MMA_F16)
    eachElement(fragmentHalfD, 16 * 8, 2, use);
  else
    eachElement(fragmentD, 16 * 8, 4, use);
}

static void runFloat(Thread *warp, const MmaArgs &m) {
  float a[16 * 32], b[32 * 8], acc[16 * 8];
  readOperands(warp, m, a, b, [](int32_t type, const uint8_t *from, float *to) { decodeFloats(type, from, 1, to, 1); });
  bool half = m.dType == TEGULA_MMA_F16;
  eachAccumulator(m, [&](uint32_t lane, uint32_t offset, Position p) {
    decodeFloats(half ? TEGULA_MMA_F16 : TEGULA_MMA_F32, bytesOf(argsOf(warp[lane]).c) + offset, 1, acc + p.row * 8 + p.col, 1);
  });
  multiplyFloat(acc, a, b, 16, 8, uint32_t(m.k));
  eachAccumulator(m, [&](uint32_t lane, uint32_t offset, Position p) {
    auto *to = reinterpret_cast<uint8_t *>(argsOf(warp[lane]).d) + offset;
    uint32_t bits = half ? floatToHalf(acc[p.row * 8 + p.col]) : fromFloat(acc[p.row * 8 + p.col]);
    std::memcpy(to, &bits, half ? 2 : 4);
  });
}

static void runInt(Thread *warp, const MmaArgs &m) {
  int32_t a[16 * 32], b[32 * 8], acc[16 * 8];
  readOperands(warp, m, a, b, [](int32_t type, const uint8_t *from, int32_t *to) { decodeInts(type, from, 1, to, 1); });
  eachAccumulator(m, [&](uint32_t lane, uint32_t offset, Position p) {
    std::memcpy(acc + p.row * 8 + p.col, bytesOf(argsOf(warp[lane]).c) + offset, 4);
  });
  multiplyInt(acc, a, b, 16, 8, uint32_t(m.k));
  eachAccumulator(m, [&](uint32_t lane, uint32_t offset, Position p) {
    std::memcpy(reinterpret_cast<uint8_t *>(argsOf(warp[lane]).d) + offset, acc + p.row * 8 + p.col, 4);
  });
}

/// f64: m8n8k4, or m16n8 with K of 8 and 16.
static void runDouble(Thread *warp, const MmaArgs &m) {
  uint32_t k = uint32_t(m.k), rows = k == 4 ? 8 : 16;
  double a[16 * 16], b[16 * 8], acc[16 * 8];
  eachElement(fragmentA[3], rows * k, 8, [&](uint32_t lane, uint32_t offset, Position p) {
    std::memcpy(a + p.row * k + p.col, bytesOf(argsOf(warp[lane]).a) + offset, 8);
  });
  // m16n8: registers step rows first, then k; m8n8k4 has one register.
  eachElement(fragmentB[3], 8 * k, 8, [&](uint32_t lane, uint32_t offset, Position p) {
    std::memcpy(b + p.row * 8 + p.col, bytesOf(argsOf(warp[lane]).b) + offset, 8);
  });
  eachElement(fragmentD, rows * 8, 8, [&](uint32_t lane, uint32_t offset, Position p) {
    std::memcpy(acc + p.row * 8 + p.col, bytesOf(argsOf(warp[lane]).c) + offset, 8);
  });
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t c = 0; c < 8; ++c)
      for (uint32_t i = 0; i < k; ++i) acc[r * 8 + c] = __builtin_fma(a[r * k + i], b[i * 8 + c], acc[r * 8 + c]);
  eachElement(fragmentD, rows * 8, 8, [&](uint32_t lane, uint32_t offset, Position p) {
    std::memcpy(reinterpret_cast<uint8_t *>(argsOf(warp[lane]).d) + offset, acc + p.row * 8 + p.col, 8);
  });
}

static void runMma(Thread *warp, uint32_t mask) {
  warp->cluster->count(Instr::Mma);
  const MmaArgs &m = argsOf(*warp);
  if (mask != ~0u || !exists(m))
    fail(warp, FaultKind::BadInstruction, m.site, -1, "executes mma.sync with K = %d and types %d x %d -> %d at site %d (mask 0x%x)", m.k,
         m.aType, m.bType, m.dType, m.site, mask);
  if (m.aType == TEGULA_MMA_F64) return runDouble(warp, m);
  if (isIntType(m.aType)) return runInt(warp, m);
  runFloat(warp, m);
}

} // namespace tegula::sim

void tegula_sim_mma(TegulaSimThread *t, int32_t site, int32_t k, int32_t dType, int32_t aType, int32_t bType,
                    const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *d) {
  MmaArgs m{site, k, dType, aType, bType, a, b, c, d};
  if (exists(m) && t->async && t->async->open) {
    auto width = int32_t(8u << widthIndex(aType));
    checkMarkers(t, site, "mma.sync", a, 16 * k * width / 256);
    checkMarkers(t, site, "mma.sync", b, 8 * k * width / 256);
  }
  t->slot.in = &m;
  collect(t, "mma.sync", site, ~0u, runMma);
}
