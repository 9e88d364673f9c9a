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
    if (f.aType != m.aType)
      continue;
    bool b = m.bType == m.aType ||
             (f.mixed && widthIndex(m.bType) == widthIndex(m.aType) && isIntType(m.bType) == isIntType(m.aType));
    bool kOk = m.k > 0 && (m.k & (m.k - 1)) == 0 && (f.kMask & m.k);
    return b && kOk && (f.dTypes >> m.dType & 1);
  }
  return false;
}

/// Where the elements of a fragment lie in a row-major matrix: the index of element e of a lane is lane[l] +
/// element[e], since registers and lanes choose different bits of the position.
struct Places {
  uint32_t perLane;
  uint16_t lane[32], element[32];
  Places(const Fragment &f, uint32_t count, uint32_t columns) : perLane(count / 32) {
    auto index = [&](Position p) { return uint16_t(p.row * columns + p.col); };
    uint32_t perReg = 1u << f.subBits;
    for (uint32_t l = 0; l < 32; ++l)
      lane[l] = index(f.at(0, 0, l));
    for (uint32_t e = 0; e < perLane; ++e)
      element[e] = index(f.at(e % perReg, e / perReg, 0));
  }
};

static const uint8_t *bytesOf(const uint32_t *registers) { return reinterpret_cast<const uint8_t *>(registers); }

template <class E> static void scatter(const Places &p, uint32_t lane, const E *from, E *to) {
  for (uint32_t e = 0; e < p.perLane; ++e)
    to[p.lane[lane] + p.element[e]] = from[e];
}
template <class E> static void gather(const Places &p, uint32_t lane, const E *from, E *to) {
  for (uint32_t e = 0; e < p.perLane; ++e)
    to[e] = from[p.lane[lane] + p.element[e]];
}

static void decode(int32_t type, const uint8_t *from, uint32_t count, float *to) {
  decodeFloats(type, from, count, to, 1);
}
static void decode(int32_t type, const uint8_t *from, uint32_t count, int32_t *to) {
  if (type == TEGULA_MMA_S32)
    std::memcpy(to, from, count * 4);
  else
    decodeInts(type, from, count, to, 1);
}

/// m16n8: `encode(values, count, registers)` packs a lane's results.
template <class E, class Multiply, class Encode>
static void runProduct(Thread *warp, const MmaArgs &m, Multiply multiply, Encode encode) {
  uint32_t width = widthIndex(m.aType), k = uint32_t(m.k);
  bool half = m.dType == TEGULA_MMA_F16;
  Places pa(fragmentA[width], 16 * k, k), pb(fragmentB[width], 8 * k, 8), pd(half ? fragmentHalfD : fragmentD, 128, 8);
  E a[16 * 32], b[32 * 8], acc[16 * 8], lane[32];
  for (uint32_t l = 0; l < 32; ++l) {
    const MmaArgs &mine = argsOf(warp[l]);
    decode(m.aType, bytesOf(mine.a), pa.perLane, lane), scatter(pa, l, lane, a);
    decode(m.bType, bytesOf(mine.b), pb.perLane, lane), scatter(pb, l, lane, b);
    decode(m.dType, bytesOf(mine.c), pd.perLane, lane), scatter(pd, l, lane, acc);
  }
  multiply(acc, a, b, 16, 8, k);
  for (uint32_t l = 0; l < 32; ++l) {
    gather(pd, l, acc, lane);
    encode(lane, pd.perLane, argsOf(warp[l]).d);
  }
}

static void runFloat(Thread *warp, const MmaArgs &m) {
  bool half = m.dType == TEGULA_MMA_F16;
  runProduct<float>(warp, m, multiplyFloat, [&](const float *values, uint32_t count, uint32_t *d) {
    if (!half)
      return void(std::memcpy(d, values, count * 4));
    for (uint32_t i = 0; i < count; i += 2)
      d[i / 2] = floatToHalf(values[i]) | uint32_t(floatToHalf(values[i + 1])) << 16;
  });
}

static void runInt(Thread *warp, const MmaArgs &m) {
  runProduct<int32_t>(warp, m, multiplyInt,
                      [](const int32_t *values, uint32_t count, uint32_t *d) { std::memcpy(d, values, count * 4); });
}

/// f64: m8n8k4, or m16n8 with K of 8 and 16.
static void runDouble(Thread *warp, const MmaArgs &m) {
  uint32_t k = uint32_t(m.k), rows = k == 4 ? 8 : 16;
  Places pa(fragmentA[3], rows * k, k), pb(fragmentB[3], 8 * k, 8), pd(fragmentD, rows * 8, 8);
  double a[16 * 16], b[16 * 8], acc[16 * 8], lane[8];
  auto load = [&](const Places &p, uint32_t l, const uint32_t *registers, double *to) {
    std::memcpy(lane, registers, p.perLane * 8);
    scatter(p, l, lane, to);
  };
  for (uint32_t l = 0; l < 32; ++l) {
    load(pa, l, argsOf(warp[l]).a, a);
    load(pb, l, argsOf(warp[l]).b, b);
    load(pd, l, argsOf(warp[l]).c, acc);
  }
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t c = 0; c < 8; ++c)
      for (uint32_t i = 0; i < k; ++i)
        acc[r * 8 + c] = __builtin_fma(a[r * k + i], b[i * 8 + c], acc[r * 8 + c]);
  for (uint32_t l = 0; l < 32; ++l) {
    gather(pd, l, acc, lane);
    std::memcpy(argsOf(warp[l]).d, lane, pd.perLane * 8);
  }
}

static void runMma(Thread *warp, uint32_t mask) {
  warp->cluster->count(Instr::Mma);
  const MmaArgs &m = argsOf(*warp);
  if (mask != ~0u || !exists(m))
    fail(warp, FaultKind::BadInstruction, m.site, -1,
         "executes mma.sync with K = %d and types %d x %d -> %d at site %d (mask 0x%x)", m.k, m.aType, m.bType, m.dType,
         m.site, mask);
  if (m.aType == TEGULA_MMA_F64)
    return runDouble(warp, m);
  if (isIntType(m.aType))
    return runInt(warp, m);
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
