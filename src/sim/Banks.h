// Counts the passes (wavefronts) over the 32 banks of shared memory that the accesses of a warp take (docs/hopper.md,
// section on banks).
//
// Lanes reach an instruction at different times in the simulator. The n-th access of a lane at a site belongs to the
// same instruction as the n-th access of the other lanes there. It is counted when all 32 lanes have reached it, or
// when the CTA ends.
#pragma once
#include "sim/State.h"
#include <unordered_map>

namespace tegula::sim {

/// Passes for the lanes of `mask`, each accessing `bytes` bytes at its address; sets `ideal` to the passes of
/// conflict-free addresses.
unsigned wavefronts(const uint32_t *addresses, uint32_t mask, uint32_t bytes, unsigned &ideal);

class BankCounter {
public:
  void add(uint32_t warp, uint32_t lane, int32_t site, SharedAccess kind, uint32_t addr, uint32_t bytes, bool active,
           Counters &counters);
  /// A matrix move: `n` phases of 8 row addresses.
  static void addMatrix(SharedAccess kind, const uint32_t *rows, unsigned n, Counters &counters);
  /// Counts the incomplete groups.
  void flush(Counters &counters);

private:
  struct Group {
    uint32_t came = 0, active = 0, bytes = 0;
    uint32_t addresses[32] = {};
  };
  struct Sequence {
    SharedAccess kind = SharedAccess::Load;
    uint32_t done = 0;      // groups counted and dropped
    uint32_t next[32] = {}; // number of the lane's next access
    std::deque<Group> open;
  };
  static void count(const Group &g, SharedAccess kind, Counters &counters);
  std::unordered_map<uint64_t, Sequence> sequences_;
};

inline void countBanks(Thread *t, int32_t site, SharedAccess kind, uint32_t addr, int32_t bytes, int32_t p) {
  if (!t->cta->banks)
    return;
  t->cta->banks->add(t->tid / 32, t->lane, site, kind, addr, uint32_t(bytes), p != 0, t->cluster->counters);
}

} // namespace tegula::sim
