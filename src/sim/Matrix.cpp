// ldmatrix and stmatrix: 8x8 matrices of 16-bit elements between shared memory and the registers of a warp.
#include "sim/AsyncState.h"
#include "sim/Banks.h"
#include "sim/State.h"
#include <cstring>

using namespace tegula::sim;

namespace tegula::sim {

struct MatrixMove {
  uint32_t addr;
  int32_t site, n, trans;
};

static MatrixMove &moveOf(Thread *t) { return *static_cast<MatrixMove *>(const_cast<void *>(t->slot.in)); }

static void checkMove(Thread *warp, const char *name, uint32_t mask) {
  const MatrixMove &m = moveOf(warp);
  if (mask != ~0u || (m.n != 1 && m.n != 2 && m.n != 4))
    fail(warp, FaultKind::BadInstruction, m.site, -1, "executes %s.x%d at site %d with mask 0x%x", name, m.n, m.site,
         mask);
}

/// Element (row, column) of a matrix that half `half` of a lane's register holds.
static uint32_t elementIndex(uint32_t lane, uint32_t half, bool trans) {
  uint32_t a = lane / 4, b = lane % 4 * 2 + half;
  return trans ? b * 8 + a : a * 8 + b;
}

static void countMove(Thread *warp, SharedAccess kind, int32_t n) {
  if (!warp->cta->banks)
    return;
  uint32_t rows[32];
  for (int32_t i = 0; i < 8 * n; ++i)
    rows[i] = moveOf(warp + i).addr;
  BankCounter::addMatrix(kind, rows, unsigned(n), warp->cluster->counters);
}

static void runLoad(Thread *warp, uint32_t mask) {
  checkMove(warp, "ldmatrix", mask);
  warp->cluster->count(Instr::Ldmatrix);
  const MatrixMove &m = moveOf(warp);
  countMove(warp, SharedAccess::Ldmatrix, m.n);
  Clocks &clocks = warp->cluster->clocks;
  for (int32_t i = 0; i < m.n; ++i) {
    uint16_t matrix[64];
    for (int32_t r = 0; r < 8; ++r) {
      Thread *t = warp + 8 * i + r;
      uint32_t addr = moveOf(t).addr;
      Cta *cta;
      const uint8_t *from = sharedAt(t, m.site, "ldmatrix", addr, 16, 16, cta);
      // The warp reads as one: any of its threads may say afterwards that it is done.
      Actor a = actorOf(t, m.site);
      a.who = clocks.warpEntry(t->id / 32);
      a.lanes = 0;
      Conflict f = cta->shadow.access(clocks, a, Touch::Load, userOffset(addr), 16);
      if (f)
        failAccess(t, *cta, m.site, "ldmatrix", 16, f);
      std::memcpy(matrix + 8 * r, from, 16);
    }
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint32_t low = matrix[elementIndex(lane, 0, m.trans)], high = matrix[elementIndex(lane, 1, m.trans)];
      static_cast<uint32_t *>(warp[lane].slot.out)[i] = low | high << 16;
    }
  }
}

static void runStore(Thread *warp, uint32_t mask) {
  checkMove(warp, "stmatrix", mask);
  warp->cluster->count(Instr::Stmatrix);
  const MatrixMove &m = moveOf(warp);
  countMove(warp, SharedAccess::Stmatrix, m.n);
  for (int32_t i = 0; i < m.n; ++i) {
    uint16_t matrix[64];
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint32_t v = static_cast<const uint32_t *>(warp[lane].slot.out)[i];
      matrix[elementIndex(lane, 0, m.trans)] = uint16_t(v);
      matrix[elementIndex(lane, 1, m.trans)] = uint16_t(v >> 16);
    }
    for (int32_t r = 0; r < 8; ++r) {
      Thread *t = warp + 8 * i + r;
      uint32_t addr = moveOf(t).addr;
      Cta *cta;
      uint8_t *to = sharedAt(t, m.site, "stmatrix", addr, 16, 16, cta);
      touchShared(t, m.site, "stmatrix", *cta, userOffset(addr), 16, Touch::Store);
      std::memcpy(to, matrix + 8 * r, 16);
    }
  }
}

} // namespace tegula::sim

void tegula_sim_ldmatrix(TegulaSimThread *t, int32_t site, uint32_t addr, int32_t n, int32_t trans, uint32_t *out) {
  MatrixMove m{addr, site, n, trans};
  t->slot.in = &m, t->slot.out = out;
  collect(t, "ldmatrix", site, ~0u, runLoad);
}

void tegula_sim_stmatrix(TegulaSimThread *t, int32_t site, uint32_t addr, int32_t n, int32_t trans,
                         const uint32_t *in) {
  checkMarkers(t, site, "stmatrix", in, 4 * n);
  MatrixMove m{addr, site, n, trans};
  t->slot.in = &m, t->slot.out = const_cast<uint32_t *>(in);
  collect(t, "stmatrix", site, ~0u, runStore);
}
