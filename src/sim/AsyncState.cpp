// Beginning and end of what threads have in flight.
#include "sim/AsyncState.h"
#include "sim/Banks.h"
#include "sim/Mbarrier.h"

namespace tegula::sim {

AsyncState &asyncOf(Thread *t) {
  if (!t->async)
    t->async = std::make_unique<AsyncState>();
  return *t->async;
}

void noteVisit(Thread *t, int32_t site, Cta &cta, uint32_t who, uint32_t phase) {
  if (&cta != t->cta)
    cta.visits[who] = {t->cluster->clocks.now, phase, site};
}

/// Shared memory is there as long as one thread of its CTA. So of each access by another CTA one of them has to know
/// when it leaves.
static void checkVisits(Thread *t) {
  auto &visits = t->cta->visits;
  auto isKnown = [t](uint32_t who, const Visit &v) {
    uint32_t stamp = std::max(t->clock->know[who], t->cluster->clocks.isThread(who) ? t->clock->floor : 0);
    return stamp >= v.stamp || t->clusterWaited > v.phase;
  };
  std::erase_if(visits, [&](const auto &v) { return isKnown(v.first, v.second); });
  if (visits.empty() || t->cta->live > 1)
    return;
  auto [who, visit] = *visits.begin();
  bool isThread = t->cluster->clocks.isThread(who);
  ThreadName name(*t->cluster, isThread ? who : t->id);
  fail(
      t, FaultKind::SharedBounds, visit.site, -1,
      "leaves the kernel, and its CTA ends; no thread of the CTA has waited for the access of %s to its shared memory at site %d",
      isThread ? name.text : "a copy", visit.site);
}

void checkExit(Thread *t) {
  if (!t->cta->visits.empty())
    checkVisits(t);
  if (!t->async || t->async->bulk.empty())
    return;
  int32_t site = t->async->bulk.front().site;
  fail(t, FaultKind::MissingWait, site, -1,
       "leaves the kernel although nobody waited for the bulk store of site %d, which may still read its shared memory",
       site);
}

void resetAsync(Cta &cta) {
  cta.mbarriers = std::make_unique<MbarrierTable>();
  cta.visits.clear();
  cta.cluster->bulkWrites.clear();
  cta.banks.reset();
  if (cta.cluster->launch->config.countBanks)
    cta.banks = std::make_unique<BankCounter>();
}

} // namespace tegula::sim
