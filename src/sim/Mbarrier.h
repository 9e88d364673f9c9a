// The mbarriers of a CTA: a phase completes when all its arrivals and all announced bytes have arrived.
#pragma once
#include "sim/State.h"
#include <unordered_map>

namespace tegula::sim {

struct Mbarrier {
  Cta *cta = nullptr;
  uint32_t offset = 0;    // in the CTA's shared memory, from the first user byte
  uint32_t count = 0;     // arrivals of a phase
  uint32_t pending = 0;   // arrivals missing in this phase
  int64_t tx = 0;         // bytes expected minus bytes arrived, in this phase
  uint32_t completed = 0; // phases
  uint32_t agent = 0;     // clock entry of the copies that complete here
  uint32_t initBy = 0, initStamp = 0;
  bool initFenced = false; // the asynchronous proxy and other CTAs see the initialization ...
  uint32_t fenceStamp = 0; // ... for those who know of this fence of the initializing thread
  int32_t initSite = -1;
  Clock *gathered = nullptr; // what arrivals of this phase knew
  Clock *done = nullptr;     // the same of the last completed phase
  std::vector<Thread *> waiting;
};

struct MbarrierTable {
  std::unordered_map<uint32_t, Mbarrier> all; // by offset
  uint32_t unfenced = 0;
};

inline constexpr int64_t mbarrierLimit = (1 << 20) - 1; // arrivals and bytes of a phase

/// The barrier at a shared address, which `t` must know to be initialized. `async`: it is used by the asynchronous
/// proxy.
Mbarrier &mbarrierAt(Thread *t, int32_t site, const char *verb, uint32_t addr, bool async);
void expectBytes(Thread *t, int32_t site, Mbarrier &b, int64_t bytes);
/// Bytes of an asynchronous copy have come; the copy's writes carry (b.agent, stamp).
void completeBytes(Thread *t, int32_t site, Mbarrier &b, int64_t bytes, uint32_t stamp);
/// `publishes`: the arrival releases what the thread knows.
void arriveAt(Thread *t, int32_t site, Mbarrier &b, uint32_t count, bool publishes);
/// Threads that see the phase complete will know the actor's accesses up to `stamp`.
void gatherAgent(Thread *t, Mbarrier &b, uint32_t stamp);

} // namespace tegula::sim
