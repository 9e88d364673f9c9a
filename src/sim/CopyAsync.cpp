// cp.async: copies of 4 to 16 bytes by each thread. The bytes are in place at once, but nobody may use them before the
// wait.
#include "sim/AsyncState.h"
#include "sim/Mbarrier.h"
#include <cstring>

using namespace tegula::sim;

void tegula_sim_cp_async(TegulaSimThread *t, int32_t site, uint32_t dst, uint64_t src, int32_t bytes, int32_t srcBytes,
                         int32_t p) {
  t->cluster->count(Instr::CpAsync);
  if (!p)
    return;
  if ((bytes != 4 && bytes != 8 && bytes != 16) || srcBytes < 0 || srcBytes > bytes)
    fail(t, FaultKind::BadInstruction, site, -1, "executes cp.async of %d of %d bytes at site %d", srcBytes, bytes,
         site);
  Cta *cta;
  uint8_t *to = sharedAt(t, site, "cp.async", dst, uint32_t(bytes), uint32_t(bytes), cta);
  if (cta != t->cta)
    fail(t, FaultKind::SharedBounds, site, -1, "executes cp.async into another CTA (0x%x) at site %d", dst, site);
  if (srcBytes)
    checkGlobal(t, site, "cp.async", src, uint64_t(srcBytes), uint32_t(bytes));
  touchShared(t, site, "cp.async", *cta, userOffset(dst), uint32_t(bytes), Touch::CopyStore);
  std::memset(to, 0, size_t(bytes));
  if (srcBytes)
    std::memcpy(to, reinterpret_cast<const void *>(src), size_t(srcBytes));
  AsyncState &a = asyncOf(t);
  a.copies.push_back({userOffset(dst), uint32_t(bytes), t->cluster->clocks.now, a.copyGroup});
}

void tegula_sim_cp_async_commit(TegulaSimThread *t, int32_t site) { ++asyncOf(t).copyGroup; }

void tegula_sim_cp_async_wait(TegulaSimThread *t, int32_t site, int32_t n) {
  AsyncState &a = asyncOf(t);
  uint32_t now = t->cluster->clocks.now;
  while (!a.copies.empty() && int64_t(a.copies.front().group) + n < int64_t(a.copyGroup)) {
    const PendingCopyOp &op = a.copies.front();
    t->cta->shadow.land(op.address, op.bytes, op.stamp, t->id, now, false);
    a.copies.pop_front();
  }
  // Copies handed over to an mbarrier: waiting for all groups covers them too.
  if (n == 0)
    for (auto &[agent, stamp] : a.handedOver)
      learn(t, agent, stamp);
  if (n == 0)
    a.handedOver.clear();
}

void tegula_sim_cp_async_mbar_arrive(TegulaSimThread *t, int32_t site, uint32_t bar) {
  Mbarrier &b = mbarrierAt(t, site, "cp.async.mbarrier.arrive", bar, false);
  AsyncState &a = asyncOf(t);
  uint32_t now = t->cluster->clocks.now;
  for (const PendingCopyOp &op : a.copies)
    t->cta->shadow.land(op.address, op.bytes, op.stamp, b.agent, now, false);
  if (!a.copies.empty())
    a.handedOver.push_back({b.agent, now});
  a.copies.clear();
  gatherAgent(t, b, now);
  advance(t);
  arriveAt(t, site, b, 1, false);
}
