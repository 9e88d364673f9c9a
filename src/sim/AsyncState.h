// The asynchronous operations of one GPU thread in flight: cp.async copies, bulk stores, wgmma accumulators.
#pragma once
#include "sim/State.h"

namespace tegula::sim {

/// One wgmma accumulator of one thread, from the first wgmma on it to the wait.
struct Accumulator {
  uint32_t serial = 0;    // part of its markers
  uint32_t lastGroup = 0; // commit group of the last wgmma on it
  bool final = false;     // a wait has covered it
  uint32_t taken = 0;     // registers that a wait gave back
  int32_t site = -1;      // of the last wgmma
  std::vector<uint32_t> values;
};

/// A cp.async in flight.
struct PendingCopyOp {
  uint32_t address = 0, bytes = 0, stamp = 0, group = 0;
};

/// An asynchronous reader of shared memory: the commit group it belongs to and its stamp.
struct BulkGroup {
  uint32_t group = 0, stamp = 0;
  int32_t site = -1;
};

struct AsyncState {
  // cp.async: operations not yet waited for; `copyGroup` is the group being filled.
  std::deque<PendingCopyOp> copies;
  uint32_t copyGroup = 0;
  std::vector<std::pair<uint32_t, uint32_t>> handedOver; // to mbarriers: clock entry, stamp
  // Bulk stores: the open group and committed groups, whose reads of shared memory no wait has covered.
  std::deque<BulkGroup> bulk;
  uint32_t bulkGroup = 0;
  uint32_t bulkAgent = 0; // 0: none yet
  std::deque<std::pair<uint32_t, uint64_t>> bulkWrites; // group and key in the cluster's map
  // wgmma
  std::vector<Accumulator> accumulators;
  std::deque<BulkGroup> wgmmas; // not yet waited for
  uint32_t wgmmaGroup = 0;
  uint32_t serial = 0;
  bool everFenced = false, fencedSinceWait = false; // wgmma.fence
  uint32_t open = 0;                                // accumulators not yet replaced by their values
};

AsyncState &asyncOf(Thread *t);

/// Faults if the bytes hold markers of accumulators that no wait has covered.
void checkMarkersSlow(Thread *t, int32_t site, const char *verb, const void *data, size_t bytes);
inline void checkMarkers(Thread *t, int32_t site, const char *verb, const void *data, int32_t bytes) {
  if (t->async && t->async->open)
    checkMarkersSlow(t, site, verb, data, size_t(bytes));
}

} // namespace tegula::sim
