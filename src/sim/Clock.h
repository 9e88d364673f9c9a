// Vector clocks: which accesses of other threads are ordered before a GPU thread's next one.
//
// Time is one counter per cluster (`Clocks::now`). An access to shared memory is stamped with (who, now). A thread
// knows an access (u, s) if its clock's entry for u is at least s; then the access is ordered before what the thread
// does next. An instruction that releases (arriving at a barrier) publishes the entry (self, now) and advances `now`,
// so that later accesses carry a larger stamp; an instruction that acquires (leaving a barrier) takes the maximum of
// entries.
//
// Entries: one per thread of the cluster; one per warp, for what a warp reads together (ldmatrix); one per warpgroup,
// for its asynchronous wgmma; and `agentCount` for other asynchronous actors (bulk copies of an mbarrier, bulk stores
// of a thread). `proxy` entries say up to when a thread's generic writes are visible to the asynchronous proxy
// (fence.proxy.async).
//
// Clocks are immutable once shared and counted by reference: after a barrier all threads have the same one.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace tegula::sim {

struct Clock {
  uint32_t refs = 0;
  uint32_t mark = 0;  // number of the last maximum it was taken into
  uint32_t floor = 0; // every thread's accesses with stamps up to this are known
  std::unique_ptr<uint32_t[]> know, proxy;
};

class Clocks {
public:
  static constexpr uint32_t agentCount = 256;

  void reset(uint32_t threads);
  /// An empty clock, or a copy of `from`, with one reference.
  Clock *make(const Clock *from = nullptr);
  static Clock *share(Clock *c) { return ++c->refs, c; }
  void drop(Clock *c) {
    if (c && --c->refs == 0)
      free_.push_back(c);
  }
  /// to = max(to, from); `to` must not be shared.
  void merge(Clock &to, const Clock &from) const;
  /// A clock (new reference) that knows what both know. Remembers the last result: many threads join the same pair.
  Clock *join(Clock *a, Clock *b);

  /// A clock (new reference) that also knows (who, stamp); remembers the last result like join().
  Clock *with(Clock *a, uint32_t who, uint32_t stamp);
  /// to = min(to, from): what both know; `to` must not be shared.
  void meet(Clock &to, const Clock &from) const;

  uint32_t threads() const { return threads_; }
  uint32_t warpEntry(uint32_t warp) const { return threads_ + warp; }
  uint32_t groupEntry(uint32_t warp) const { return threads_ + threads_ / 32 + warp / 4; }
  /// Entry of a new asynchronous actor. Their number is finite: actors beyond it share entries, which can hide a fault
  /// but never reports a false one.
  uint32_t newAgent() { return firstAgent_ + nextAgent_++ % agentCount; }
  bool isThread(uint32_t who) const { return who < threads_; }
  bool isWarp(uint32_t who) const { return who >= threads_ && who < threads_ + threads_ / 32; }
  bool isGroup(uint32_t who) const { return who >= threads_ + threads_ / 32 && who < firstAgent_; }

  uint32_t now = 1;
  uint32_t visits = 0; // for Clock::mark
  /// `now` saturates after 2^32 releases: accesses then count as known, which can hide a fault but never reports a
  /// false one.
  void advance() { now += now != ~0u; }

private:
  uint32_t threads_ = 0, entries_ = 0, firstAgent_ = 0, nextAgent_ = 0;
  std::vector<std::unique_ptr<Clock>> all_;
  std::vector<Clock *> free_;
  Clock *lastA_ = nullptr, *lastB_ = nullptr, *lastResult_ = nullptr;
  Clock *withOf_ = nullptr, *withResult_ = nullptr;
  uint32_t withWho_ = 0, withStamp_ = 0;
};

} // namespace tegula::sim
