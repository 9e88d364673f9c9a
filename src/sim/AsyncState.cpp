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

void checkExit(Thread *t) {
  if (!t->async || t->async->bulk.empty())
    return;
  int32_t site = t->async->bulk.front().site;
  fail(t, FaultKind::MissingWait, site, -1,
       "leaves the kernel although nobody waited for the bulk store of site %d, which may still read its shared memory",
       site);
}

void resetAsync(Cta &cta) {
  cta.mbarriers = std::make_unique<MbarrierTable>();
  cta.cluster->bulkWrites.clear();
  cta.banks.reset();
  if (cta.cluster->launch->config.countBanks)
    cta.banks = std::make_unique<BankCounter>();
}

} // namespace tegula::sim
