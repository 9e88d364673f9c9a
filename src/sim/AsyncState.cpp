// Beginning and end of what threads have in flight.
#include "sim/AsyncState.h"
#include "sim/Banks.h"
#include "sim/Mbarrier.h"

namespace tegula::sim {

AsyncState &asyncOf(Thread *t) {
  if (!t->async) t->async = std::make_unique<AsyncState>();
  return *t->async;
}

void checkExit(Thread *t) {}

void resetAsync(Cta &cta) {
  cta.mbarriers = std::make_unique<MbarrierTable>();
  cta.banks.reset();
  if (cta.cluster->launch->config.countBanks) cta.banks = std::make_unique<BankCounter>();
}

void checkMarkersSlow(Thread *t, int32_t site, const char *verb, const void *data, size_t bytes) {}
void fenceMbarrierInit(Thread *t) {}
std::string mbarrierText(const Thread &t) { return {}; }

} // namespace tegula::sim
