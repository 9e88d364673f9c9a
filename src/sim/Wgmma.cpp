// wgmma: a warpgroup multiplies matrices in shared memory, asynchronously.
//
// The product is computed at once. Its registers hold markers until a wait (Markers.cpp), and its reads of shared
// memory carry the warpgroup's clock entry, which threads know after their wait.
#include "sim/Fragments.h"
#include "sim/Markers.h"
#include "sim/MatrixMath.h"
#include "sim/Numeric.h"
#include "sim/WgmmaOperand.h"
#include <cstring>

using namespace tegula::sim;

namespace tegula::sim {

struct WgmmaArgs {
  int32_t site, n, dType, aType, bType;
  const uint32_t *aRegs;
  uint64_t aDesc, bDesc;
  int32_t scaleD, negA, negB, transA, transB;
  uint32_t *d;

  bool sameAs(const WgmmaArgs &o) const {
    return n == o.n && dType == o.dType && aType == o.aType && bType == o.bType && !aRegs == !o.aRegs &&
           (aRegs || aDesc == o.aDesc) && bDesc == o.bDesc && !scaleD == !o.scaleD && negA == o.negA &&
           negB == o.negB && transA == o.transA && transB == o.transB;
  }
  uint32_t registers() const { return uint32_t(n) / (dType == TEGULA_MMA_F16 ? 4 : 2); }
};
static const WgmmaArgs &argsOf(const Thread &t) { return *static_cast<const WgmmaArgs *>(t.slot.in); }

static bool exists(const WgmmaArgs &w) {
  bool ints = isIntType(w.aType);
  if (w.n < 8 || w.n > 256 || w.n % 8 || (ints && w.n > 32 && w.n % 16))
    return false;
  bool wide = w.aType == TEGULA_MMA_F16 || w.aType == TEGULA_MMA_BF16;
  if (!wide && (w.transA || w.transB))
    return false;
  if (w.aType == TEGULA_MMA_BF16 || w.aType == TEGULA_MMA_TF32)
    return w.bType == w.aType && w.dType == TEGULA_MMA_F32;
  if (w.aType == TEGULA_MMA_F16)
    return w.bType == w.aType && (w.dType == TEGULA_MMA_F32 || w.dType == TEGULA_MMA_F16);
  if (ints)
    return isIntType(w.bType) && w.dType == TEGULA_MMA_S32 && !w.negA && !w.negB;
  bool fp8 = (w.aType == TEGULA_MMA_E4M3 || w.aType == TEGULA_MMA_E5M2) &&
             (w.bType == TEGULA_MMA_E4M3 || w.bType == TEGULA_MMA_E5M2);
  return fp8 && (w.dType == TEGULA_MMA_F32 || w.dType == TEGULA_MMA_F16);
}

/// The accumulator that `d` names: markers continue one in flight, plain values begin a new one.
static Accumulator &accumulatorOf(Thread *t, const WgmmaArgs &w) {
  AsyncState &a = asyncOf(t);
  uint32_t count = w.registers(), index;
  Accumulator *in = w.scaleD ? markedBy(a, w.d[0], index) : nullptr;
  if (in && in->values.size() != count)
    fail(t, FaultKind::BadInstruction, w.site, in->site,
         "executes wgmma at site %d with another shape than the one in flight on its accumulator (site %d)", w.site,
         in->site);
  for (uint32_t i = 0; w.scaleD && i < count; ++i) {
    if (in ? w.d[i] == makeMarker(in->serial, i) && i < in->values.size() : w.d[i] >> 20 != markerTop)
      continue;
    Accumulator *other = markedBy(a, w.d[i], index);
    if (other != in || in)
      fail(t, FaultKind::MissingWait, w.site, (other ? other : in)->site,
           "executes wgmma at site %d on registers of which some belong to the wgmma of site %d, which is not waited "
           "for",
           w.site, (other ? other : in)->site);
  }
  bool fenced = a.everFenced && (in || !w.scaleD || a.fencedSinceWait);
  if (!fenced)
    fail(t, FaultKind::MissingWgmmaFence, w.site, -1,
         "executes wgmma at site %d on registers written since the last wgmma.fence", w.site);
  if (in)
    return *in;
  // Finished accumulators that no wait named are kept for a while: their markers may still be asked for.
  if (a.accumulators.size() >= 32)
    for (size_t i = 0; i < a.accumulators.size(); ++i)
      if (a.accumulators[i].final || a.accumulators.size() >= 60) {
        a.accumulators.erase(a.accumulators.begin() + ptrdiff_t(i));
        break;
      }
  Accumulator &c = a.accumulators.emplace_back();
  c.serial = ++a.serial;
  c.values.assign(count, 0);
  if (w.scaleD)
    std::memcpy(c.values.data(), w.d, count * 4);
  a.open = uint32_t(a.accumulators.size());
  return c;
}

/// Where a thread's registers lie in the 64 x n matrix: first(tid) + offset(register, sub-element).
struct Places {
  uint32_t subs, offsets[128][2];
  explicit Places(const WgmmaArgs &w) : w_(w) {
    bool half = w.dType == TEGULA_MMA_F16;
    subs = half ? 2 : 1;
    const Fragment &f = half ? fragmentHalfD : fragmentD;
    for (uint32_t r = 0; r < w.registers(); ++r)
      for (uint32_t s = 0; s < subs; ++s) {
        Position p = f.at(s, r & (half ? 1 : 3), 0);
        offsets[r][s] = p.row * uint32_t(w.n) + p.col + (r >> (half ? 1 : 2)) * 8;
      }
  }
  uint32_t first(uint32_t tid) const {
    Position p = fragmentD.at(0, 0, tid % 32);
    return (p.row + tid / 32 * 16) * uint32_t(w_.n) + p.col;
  }

private:
  const WgmmaArgs &w_;
};

static void gatherD(Thread *group, const WgmmaArgs &w, const Places &places, uint32_t *acc) {
  for (uint32_t i = 0; i < 128; ++i) {
    Accumulator &c = accumulatorOf(group + i, argsOf(group[i]));
    group[i].slot.a = uint64_t(&c - group[i].async->accumulators.data());
    if (!w.scaleD)
      continue;
    uint32_t *base = acc + places.first(i);
    for (uint32_t r = 0; r < w.registers(); ++r) {
      if (places.subs == 1) {
        base[places.offsets[r][0]] = c.values[r];
        continue;
      }
      base[places.offsets[r][0]] = fromFloat(halfToFloat(uint16_t(c.values[r])));
      base[places.offsets[r][1]] = fromFloat(halfToFloat(uint16_t(c.values[r] >> 16)));
    }
  }
}

static void scatterD(Thread *group, const WgmmaArgs &w, const Places &places, const uint32_t *acc) {
  for (uint32_t i = 0; i < 128; ++i) {
    AsyncState &a = *group[i].async;
    Accumulator &c = a.accumulators[group[i].slot.a];
    const uint32_t *base = acc + places.first(i);
    for (uint32_t r = 0; r < w.registers(); ++r) {
      uint32_t low = base[places.offsets[r][0]];
      if (places.subs == 2)
        low = floatToHalf(toFloat(low)) | uint32_t(floatToHalf(toFloat(base[places.offsets[r][1]]))) << 16;
      c.values[r] = low;
    }
    c.lastGroup = a.wgmmaGroup;
    c.final = false, c.taken = 0;
    c.site = w.site;
    for (uint32_t r = 0; r < w.registers(); ++r)
      argsOf(group[i]).d[r] = makeMarker(c.serial, r);
  }
}

/// A from registers, to a row-major 64 x k matrix of 32-bit values.
static void readA(Thread *group, const WgmmaArgs &w, uint32_t k, uint32_t *a) {
  uint32_t width = widthIndex(w.aType), bytes = 1u << width;
  const Fragment &f = fragmentA[width];
  for (uint32_t i = 0; i < 128; ++i) {
    const WgmmaArgs &mine = argsOf(group[i]);
    checkMarkers(group + i, w.site, "wgmma", mine.aRegs, 16);
    for (uint32_t e = 0; e < 16 / bytes; ++e) {
      Position p = f.at(e % (1u << f.subBits), e >> f.subBits, i % 32);
      const uint8_t *from = reinterpret_cast<const uint8_t *>(mine.aRegs) + e * bytes;
      uint32_t *to = a + (p.row + i / 32 * 16) * k + p.col;
      if (isIntType(w.aType))
        decodeInts(w.aType, from, 1, reinterpret_cast<int32_t *>(to), 1);
      else
        decodeFloats(w.aType, from, 1, reinterpret_cast<float *>(to), 1);
    }
  }
}

static void runWgmma(Thread *group) {
  Cluster &cluster = *group->cluster;
  cluster.count(Instr::Wgmma);
  const WgmmaArgs &w = argsOf(*group);
  if (!exists(w))
    fail(group, FaultKind::BadInstruction, w.site, -1,
         "executes wgmma with N = %d and types %d x %d -> %d at site %d, which does not exist", w.n, w.aType, w.bType,
         w.dType, w.site);
  for (uint32_t i = 1; i < 128; ++i)
    if (!argsOf(group[i]).sameAs(w))
      fail(group + i, FaultKind::WarpDivergence, w.site, -1,
           "executes wgmma at site %d with other operands than thread %u", w.site, group->tid);
  uint32_t n = uint32_t(w.n), k = 32 >> widthIndex(w.aType);
  cluster.scratch.resize(64 * 256 + 64 * 32 + 32 * 256);
  uint32_t *acc = cluster.scratch.data(), *a = acc + 64 * 256, *b = a + 64 * 32;
  std::memset(acc, 0, 64 * n * 4);
  Places places(w);
  gatherD(group, w, places, acc);
  GroupReader reader(group, w.site);
  if (w.aRegs)
    readA(group, w, k, a);
  else
    reader.read({w.aDesc, w.aType, w.transA != 0, 64, false}, a);
  reader.read({w.bDesc, w.bType, w.transB != 0, n, true}, b);
  reader.finish();
  if (isIntType(w.aType)) {
    multiplyInt(reinterpret_cast<int32_t *>(acc), reinterpret_cast<int32_t *>(a), reinterpret_cast<int32_t *>(b), 64, n,
                k);
  } else {
    auto *fa = reinterpret_cast<float *>(a);
    if (!w.negA != !w.negB)
      for (uint32_t i = 0; i < 64 * k; ++i)
        fa[i] = -fa[i];
    multiplyFloat(reinterpret_cast<float *>(acc), fa, reinterpret_cast<float *>(b), 64, n, k);
  }
  scatterD(group, w, places, acc);
  for (uint32_t i = 0; i < 128; ++i)
    group[i].async->wgmmas.push_back({group[i].async->wgmmaGroup, cluster.clocks.now, w.site});
  advance(group);
}

} // namespace tegula::sim

void tegula_sim_wgmma(TegulaSimThread *t, int32_t site, int32_t n, int32_t dType, int32_t aType, int32_t bType,
                      const uint32_t *aRegs, uint64_t aDesc, uint64_t bDesc, int32_t scaleD, int32_t negA, int32_t negB,
                      int32_t transA, int32_t transB, uint32_t *d) {
  WgmmaArgs w{site, n, dType, aType, bType, aRegs, aDesc, bDesc, scaleD, negA, negB, transA, transB, d};
  t->slot.in = &w;
  collectGroup(t, "wgmma", site, runWgmma);
}

void tegula_sim_wgmma_fence(TegulaSimThread *t, int32_t site) {
  AsyncState &a = asyncOf(t);
  a.everFenced = a.fencedSinceWait = true;
}

void tegula_sim_wgmma_commit(TegulaSimThread *t, int32_t site) { ++asyncOf(t).wgmmaGroup; }

void tegula_sim_wgmma_wait(TegulaSimThread *t, int32_t site, int32_t n, uint32_t *d, int32_t count) {
  AsyncState &a = asyncOf(t);
  a.fencedSinceWait = false;
  auto finished = [&](uint32_t group) { return int64_t(group) + n < int64_t(a.wgmmaGroup); };
  uint32_t stamp = 0;
  while (!a.wgmmas.empty() && finished(a.wgmmas.front().group)) {
    stamp = a.wgmmas.front().stamp;
    a.wgmmas.pop_front();
  }
  if (stamp)
    learn(t, t->cluster->clocks.groupEntry(t->id / 32), stamp);
  for (Accumulator &c : a.accumulators)
    c.final |= finished(c.lastGroup);
  Accumulator *last = nullptr;
  for (int32_t i = 0; i < count; ++i) {
    if (d[i] >> 20 != markerTop)
      continue;
    auto index = uint32_t(i);
    bool same = last && d[i] == makeMarker(last->serial, index) && index < last->values.size();
    Accumulator *c = same ? last : markedBy(a, d[i], index);
    last = c;
    if (!c || !c->final)
      continue;
    d[i] = c->values[index];
    ++c->taken;
  }
  std::erase_if(a.accumulators, [](const Accumulator &c) { return c.final && c.taken >= c.values.size(); });
  a.open = uint32_t(a.accumulators.size());
}
