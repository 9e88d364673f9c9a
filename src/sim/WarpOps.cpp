// Instructions of a warp that move values between registers: shfl, vote, elect, bar.warp.
#include "sim/AsyncState.h"
#include "sim/State.h"
#include <bit>

using namespace tegula::sim;

namespace tegula::sim {

static void runShuffle(Thread *warp, uint32_t mask) {
  warp->cluster->count(Instr::Shuffle);
  // The hardware's rule without sub-warp segments: a source lane outside 0..31 gives the lane's own value.
  for (uint32_t m = mask; m; m &= m - 1) {
    int32_t lane = std::countr_zero(m);
    Slot &s = warp[lane].slot; // `result` holds the site until then
    auto mode = int32_t(s.b >> 32), operand = int32_t(uint32_t(s.b));
    int32_t from = lane;
    switch (mode) {
    case TEGULA_SHFL_IDX:
      from = operand & 31;
      break;
    case TEGULA_SHFL_BFLY:
      from = lane ^ (operand & 31);
      break;
    case TEGULA_SHFL_UP:
      from = lane - (operand & 31);
      break;
    default:
      from = lane + (operand & 31);
      break;
    }
    if (from < 0 || from > 31)
      from = lane;
    if (!(mask >> from & 1))
      fail(warp + lane, FaultKind::WarpDivergence, int32_t(s.result), -1,
           "executes shfl at site %d and reads lane %d, which the mask 0x%x does not name or which has left the kernel",
           int32_t(s.result), from, mask);
    s.result = uint32_t(warp[from].slot.a);
  }
}

static void runBallot(Thread *warp, uint32_t mask) {
  warp->cluster->count(Instr::Vote);
  uint32_t votes = 0;
  for (uint32_t m = mask; m; m &= m - 1)
    if (warp[std::countr_zero(m)].slot.a)
      votes |= m & -m;
  for (uint32_t m = mask; m; m &= m - 1)
    warp[std::countr_zero(m)].slot.result = votes;
}

static void runElect(Thread *warp, uint32_t mask) {
  warp->cluster->count(Instr::Vote);
  for (uint32_t m = mask; m; m &= m - 1)
    warp[std::countr_zero(m)].slot.result = m == mask;
}

static void runSyncwarp(Thread *warp, uint32_t mask) {
  warp->cluster->count(Instr::Syncwarp);
  Thread *list[32];
  size_t count = 0;
  for (uint32_t m = mask; m; m &= m - 1)
    list[count++] = warp + std::countr_zero(m);
  synchronize(*warp->cluster, list, count, nullptr);
}

} // namespace tegula::sim

uint32_t tegula_sim_shfl(TegulaSimThread *t, int32_t site, int32_t mode, uint32_t mask, uint32_t value, int32_t lane) {
  checkMarkers(t, site, "shfl", &value, 4);
  t->slot = {value, uint64_t(uint32_t(mode)) << 32 | uint32_t(lane), nullptr, nullptr, uint32_t(site)};
  collect(t, "shfl", site, mask, runShuffle);
  return t->slot.result;
}

uint32_t tegula_sim_ballot(TegulaSimThread *t, int32_t site, uint32_t mask, int32_t p) {
  t->slot = {uint64_t(p != 0)};
  collect(t, "vote", site, mask, runBallot);
  return t->slot.result;
}

int32_t tegula_sim_elect(TegulaSimThread *t, int32_t site, uint32_t mask) {
  collect(t, "elect", site, mask, runElect);
  return int32_t(t->slot.result);
}

void tegula_sim_syncwarp(TegulaSimThread *t, int32_t site, uint32_t mask) {
  collect(t, "bar.warp", site, mask, runSyncwarp);
}
