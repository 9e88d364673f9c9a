// mbarrier instructions. What is wrong with a use is said at once if it can be known, else when nobody can go on.
#include "sim/Mbarrier.h"
#include "sim/AsyncState.h"

using namespace tegula::sim;

namespace tegula::sim {

Mbarrier &mbarrierAt(Thread *t, int32_t site, const char *verb, uint32_t addr, bool async) {
  Cta *cta;
  sharedAt(t, site, verb, addr, 8, 8, cta);
  auto it = cta->mbarriers->all.find(userOffset(addr));
  if (it == cta->mbarriers->all.end())
    fail(t, FaultKind::Mbarrier, site, -1, "executes %s at site %d: no mbarrier is initialized at 0x%x", verb, site,
         addr);
  Mbarrier &b = it->second;
  if (b.initBy != t->id && t->clock->know[b.initBy] < b.initStamp)
    fail(t, FaultKind::Mbarrier, site, b.initSite,
         "executes %s at site %d: %s initialized the mbarrier at 0x%x (site %d), and nothing orders that before", verb,
         site, ThreadName(*t->cluster, b.initBy).text, addr, b.initSite);
  bool fenceNeeded = async || cta != t->cta;
  bool fenceKnown = b.initFenced && (b.initBy == t->id || t->clock->know[b.initBy] >= b.fenceStamp);
  if (fenceNeeded && !fenceKnown)
    fail(t, FaultKind::MissingProxyFence, site, b.initSite,
         "executes %s at site %d: the initialization of the mbarrier at 0x%x (site %d) was not made visible by "
         "fence.mbarrier_init or fence.proxy.async",
         verb, site, addr, b.initSite);
  return b;
}

void fenceMbarrierInit(Thread *t) {
  MbarrierTable &table = *t->cta->mbarriers;
  if (!table.unfenced)
    return;
  for (auto &[offset, b] : table.all)
    if (!b.initFenced && b.initBy == t->id) {
      b.initFenced = true;
      b.fenceStamp = t->cluster->clocks.now;
      --table.unfenced;
    }
  advance(t);
}

static void checkPhase(Thread *t, int32_t site, Mbarrier &b) {
  if (b.pending || b.tx > 0)
    return;
  if (b.tx < 0)
    fail(t, FaultKind::Mbarrier, site, -1,
         "ends phase %u of the mbarrier at 0x%x at site %d with %lld bytes more than were expected", b.completed,
         b.offset + sharedBase, site, static_cast<long long>(-b.tx));
  Clocks &clocks = t->cluster->clocks;
  clocks.drop(b.done);
  b.done = b.gathered;
  b.gathered = nullptr;
  b.pending = b.count;
  ++b.completed;
  for (Thread *w : b.waiting)
    wake(w);
  b.waiting.clear();
}

void gatherAgent(Thread *t, Mbarrier &b, uint32_t stamp) {
  if (!b.gathered)
    b.gathered = t->cluster->clocks.make();
  b.gathered->know[b.agent] = std::max(b.gathered->know[b.agent], stamp);
}

void expectBytes(Thread *t, int32_t site, Mbarrier &b, int64_t bytes) {
  b.tx += bytes;
  if (bytes < 0 || b.tx > mbarrierLimit)
    fail(t, FaultKind::Mbarrier, site, -1,
         "expects %lld bytes at site %d: %lld would be pending at the mbarrier at 0x%x, at most %lld can",
         static_cast<long long>(bytes), site, static_cast<long long>(b.tx), b.offset + sharedBase,
         static_cast<long long>(mbarrierLimit));
}

void completeBytes(Thread *t, int32_t site, Mbarrier &b, int64_t bytes, uint32_t stamp) {
  b.tx -= bytes;
  if (b.tx < -mbarrierLimit)
    fail(t, FaultKind::Mbarrier, site, -1,
         "copies %lld bytes at site %d: the transaction count of the mbarrier at 0x%x overflows",
         static_cast<long long>(bytes), site, b.offset + sharedBase);
  gatherAgent(t, b, stamp);
  checkPhase(t, site, b);
}

void arriveAt(Thread *t, int32_t site, Mbarrier &b, uint32_t count, bool publishes) {
  t->cluster->count(Instr::MbarArrive);
  noteVisit(t, site, *b.cta, t->id, t->clusterPhase);
  if (count == 0 || count > b.pending)
    fail(t, FaultKind::Mbarrier, site, -1,
         "arrives %u times at site %d at the mbarrier at 0x%x, whose phase %u has %u of %u arrivals pending (and %lld "
         "bytes)",
         count, site, b.offset + sharedBase, b.completed, b.pending, b.count, static_cast<long long>(b.tx));
  if (publishes) {
    release(t, b.gathered);
    advance(t);
  }
  b.pending -= count;
  checkPhase(t, site, b);
}

std::string mbarrierText(const Thread &t) {
  const Cta &cta = *t.cluster->ctas[t.wait.a >> 24];
  auto it = cta.mbarriers->all.find(userOffset(uint32_t(t.wait.a)));
  if (it == cta.mbarriers->all.end())
    return "at an mbarrier that is gone";
  const Mbarrier &b = it->second;
  return formatText("at site %d for parity %u of the mbarrier at 0x%x, whose phase %u (parity %u) has %u of %u "
                    "arrivals and %lld bytes pending",
                    t.wait.site, t.wait.b, uint32_t(t.wait.a), b.completed, b.completed & 1, b.pending, b.count,
                    static_cast<long long>(b.tx));
}

} // namespace tegula::sim

void tegula_sim_mbar_init(TegulaSimThread *t, int32_t site, uint32_t bar, int32_t count) {
  Cta *cta;
  sharedAt(t, site, "mbarrier.init", bar, 8, 8, cta);
  if (cta != t->cta || count < 1 || count > mbarrierLimit)
    fail(t, FaultKind::Mbarrier, site, -1,
         "executes mbarrier.init at site %d with a count of %d at 0x%x; the count must be in 1..%lld and the barrier "
         "in the own CTA",
         site, count, bar, static_cast<long long>(mbarrierLimit));
  uint32_t offset = userOffset(bar);
  // An initialization is a write: nobody may still use these bytes for something else, nor as a barrier.
  touchShared(t, site, "mbarrier.init", *cta, offset, 8, Touch::Store);
  cta->shadow.markBarrier(offset, true);
  Clocks &clocks = t->cluster->clocks;
  Mbarrier &b = cta->mbarriers->all[offset];
  b = {};
  b.cta = cta;
  b.offset = offset;
  b.count = b.pending = uint32_t(count);
  b.agent = clocks.newAgent();
  b.initBy = t->id, b.initStamp = clocks.now, b.initSite = site;
  ++cta->mbarriers->unfenced;
}

void tegula_sim_mbar_inval(TegulaSimThread *t, int32_t site, uint32_t bar) {
  Mbarrier &b = mbarrierAt(t, site, "mbarrier.inval", bar, false);
  if (!b.waiting.empty())
    fail(t, FaultKind::Mbarrier, site, b.waiting[0]->wait.site,
         "executes mbarrier.inval at site %d while %s waits for the barrier (site %d)", site,
         ThreadName(*t->cluster, b.waiting[0]->id).text, b.waiting[0]->wait.site);
  Cta &cta = *t->cta;
  uint32_t offset = b.offset;
  if (!b.initFenced)
    --cta.mbarriers->unfenced;
  t->cluster->clocks.drop(b.gathered);
  t->cluster->clocks.drop(b.done);
  cta.mbarriers->all.erase(offset);
  cta.shadow.markBarrier(offset, false);
  touchShared(t, site, "mbarrier.inval", cta, offset, 8, Touch::Store);
}

void tegula_sim_mbar_arrive(TegulaSimThread *t, int32_t site, uint32_t bar, int32_t count, int32_t p) {
  if (!p)
    return;
  arriveAt(t, site, mbarrierAt(t, site, "mbarrier.arrive", bar, false), uint32_t(count), true);
}

void tegula_sim_mbar_arrive_expect(TegulaSimThread *t, int32_t site, uint32_t bar, int32_t bytes, int32_t p) {
  if (!p)
    return;
  Mbarrier &b = mbarrierAt(t, site, "mbarrier.arrive.expect_tx", bar, false);
  expectBytes(t, site, b, bytes);
  arriveAt(t, site, b, 1, true);
}

void tegula_sim_mbar_wait(TegulaSimThread *t, int32_t site, uint32_t bar, int32_t parity) {
  t->cluster->count(Instr::MbarWait);
  Mbarrier &b = mbarrierAt(t, site, "mbarrier.try_wait", bar, false);
  if (bar >> 24 != t->cta->rank || (parity & ~1))
    fail(t, FaultKind::Mbarrier, site, -1,
         "waits at site %d for parity %d of the mbarrier at 0x%x; parity is 0 or 1, and only the own CTA's "
         "barriers can be waited for",
         site, parity, bar);
  // True for the parity of the last completed phase; before the first phase ends the one before it counts as complete.
  if ((b.completed & 1) == uint32_t(parity)) {
    t->wait = {Wait::Mbarrier, site, bar, uint32_t(parity)};
    b.waiting.push_back(t);
    block(t);
  }
  acquire(t, b.done);
}
