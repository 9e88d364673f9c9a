// One-dimensional bulk copies, and the commit groups of bulk stores.
//
// Data moves at once. What makes a copy asynchronous is who knows of it: writes of a load carry the clock entry of its
// mbarrier, reads of a store the entry of the issuing thread's stores, and only the wait gives that knowledge to a
// thread.
#include "sim/Bulk.h"
#include "sim/AsyncState.h"
#include "sim/Mbarrier.h"
#include <cstring>

using namespace tegula::sim;

namespace tegula::sim {

void touchBulk(Thread *t, int32_t site, const char *verb, Cta &cta, uint32_t offset, uint32_t bytes, Touch touch,
               uint32_t agent) {
  noteVisit(t, site, cta, agent, ~0u);
  Actor a{t->clock, agent, t->id, t->id - t->lane, 0, t->fenced, site};
  Conflict f = cta.shadow.access(t->cluster->clocks, a, touch, offset, bytes);
  if (f)
    failAccess(t, cta, site, verb, bytes, f);
}

uint32_t beginBulkStore(Thread *t, int32_t site) {
  t->cluster->count(Instr::BulkStore);
  AsyncState &a = asyncOf(t);
  if (!a.bulkAgent)
    a.bulkAgent = t->cluster->clocks.newAgent();
  a.bulk.push_back({a.bulkGroup, t->cluster->clocks.now, site});
  return a.bulkAgent;
}

void noteBulkWrite(Thread *t, int32_t site, uint64_t address, uint64_t bytes, int32_t op) {
  AsyncState &a = asyncOf(t);
  constexpr uint64_t longest = 256 * 8;
  for (uint64_t at = address, end = address + bytes; at < end; at += longest) {
    t->cluster->bulkWrites[at] = {std::min(end, at + longest), t->id, a.bulkGroup, site, op};
    a.bulkWrites.push_back({a.bulkGroup, at});
  }
}

} // namespace tegula::sim

void tegula_sim_bulk_load(TegulaSimThread *t, int32_t site, uint32_t dst, uint64_t src, int32_t bytes, uint32_t bar,
                          int32_t p) {
  if (!p)
    return;
  t->cluster->count(Instr::BulkLoad);
  if (bytes <= 0 || bytes % 16 || dst >> 24 != bar >> 24)
    fail(t, FaultKind::Tensor, site, -1,
         "executes a bulk load of %d bytes to 0x%x with the mbarrier at 0x%x at site %d; the size must be a multiple "
         "of 16 and the barrier in "
         "the CTA of the destination",
         bytes, dst, bar, site);
  Cta *cta;
  uint8_t *to = sharedAt(t, site, "bulk load", dst, uint32_t(bytes), 16, cta);
  checkGlobal(t, site, "bulk load", src, uint64_t(bytes), 16);
  Mbarrier &b = mbarrierAt(t, site, "bulk load", bar, true);
  touchBulk(t, site, "bulk load", *cta, userOffset(dst), uint32_t(bytes), Touch::AsyncStore, b.agent);
  std::memcpy(to, reinterpret_cast<const void *>(src), size_t(bytes));
  uint32_t stamp = t->cluster->clocks.now;
  advance(t);
  completeBytes(t, site, b, bytes, stamp);
}

void tegula_sim_st_async(TegulaSimThread *t, int32_t site, uint32_t addr, const void *in, int32_t bytes, uint32_t bar,
                         int32_t p) {
  if (!p)
    return;
  t->cluster->count(Instr::StAsync);
  if ((bytes != 4 && bytes != 8 && bytes != 16) || addr >> 24 != bar >> 24)
    fail(
        t, FaultKind::BadInstruction, site, -1,
        "sends %d bytes to 0x%x with the mbarrier at 0x%x at site %d; 4, 8 or 16 can be sent, and the mbarrier must be in the CTA of the destination",
        bytes, addr, bar, site);
  checkMarkers(t, site, "st.async", in, bytes);
  Cta *cta;
  uint8_t *to = sharedAt(t, site, "st.async", addr, uint32_t(bytes), uint32_t(bytes), cta);
  Mbarrier &b = mbarrierAt(t, site, "st.async", bar, true);
  touchBulk(t, site, "st.async", *cta, userOffset(addr), uint32_t(bytes), Touch::Store, b.agent);
  std::memcpy(to, in, size_t(bytes));
  uint32_t stamp = t->cluster->clocks.now;
  advance(t);
  completeBytes(t, site, b, bytes, stamp);
}

void tegula_sim_bulk_store(TegulaSimThread *t, int32_t site, uint64_t dst, uint32_t src, int32_t bytes, int32_t p) {
  if (!p)
    return;
  if (bytes <= 0 || bytes % 16 || src >> 24 != t->cta->rank)
    fail(t, FaultKind::Tensor, site, -1,
         "executes a bulk store of %d bytes from 0x%x at site %d; the size must be a multiple of 16 and the source in "
         "the own CTA",
         bytes, src, site);
  Cta *cta;
  const uint8_t *from = sharedAt(t, site, "bulk store", src, uint32_t(bytes), 16, cta);
  checkGlobal(t, site, "bulk store", dst, uint64_t(bytes), 16);
  uint32_t agent = beginBulkStore(t, site);
  touchBulk(t, site, "bulk store", *cta, userOffset(src), uint32_t(bytes), Touch::AsyncLoad, agent);
  noteBulkWrite(t, site, dst, uint64_t(bytes), -1);
  std::memcpy(reinterpret_cast<void *>(dst), from, size_t(bytes));
  advance(t);
}

void tegula_sim_bulk_commit(TegulaSimThread *t, int32_t site) { ++asyncOf(t).bulkGroup; }

void tegula_sim_bulk_wait(TegulaSimThread *t, int32_t site, int32_t n, int32_t readOnly) {
  AsyncState &a = asyncOf(t);
  uint32_t stamp = 0;
  while (!a.bulk.empty() && int64_t(a.bulk.front().group) + n < int64_t(a.bulkGroup)) {
    stamp = a.bulk.front().stamp;
    a.bulk.pop_front();
  }
  if (stamp)
    learn(t, a.bulkAgent, stamp);
  std::map<uint64_t, BulkWrite> &writes = t->cluster->bulkWrites;
  while (!readOnly && !a.bulkWrites.empty() && int64_t(a.bulkWrites.front().first) + n < int64_t(a.bulkGroup)) {
    auto [group, at] = a.bulkWrites.front();
    a.bulkWrites.pop_front();
    // Another reduction may have come into its place.
    if (auto it = writes.find(at); it != writes.end() && it->second.thread == t->id && it->second.group == group)
      writes.erase(it);
  }
}
