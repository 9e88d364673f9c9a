// Shadow state of a CTA's shared memory: for every 4 bytes the last writer, the readers since then, and which bytes
// have been written. A word accessed in parts is split into one record per byte until it is written whole again.
//
// Checks follow the order that synchronization gives (vector clocks, Clock.h): whether two accesses race does not
// depend on how fibers were scheduled. Only the first race is reported.
#pragma once
#include "sim/Clock.h"
#include "sim/Machine.h"
#include <memory>
#include <vector>

namespace tegula::sim {

/// Threads (a warp's first thread and a mask of lanes) or another actor (mask 0) that read at one time.
struct Reader {
  uint32_t stamp = 0, mask = 0;
  uint16_t who = 0, site = 0;
};

struct ShadowRecord {
  uint32_t writeStamp = 0;
  uint16_t writer = 0, writeSite = 0;
  Reader reader;      // stamp 0: none
  uint32_t more = 0;  // further readers: index + 1 in ShadowMemory::readers_
  uint32_t split = 0; // index + 1 of four byte records
  uint8_t init = 0;   // bit i: byte i is written (byte records: bit 0)
  uint8_t flags = 0;
};

enum ShadowFlag : uint8_t {
  PendingCopy = 1, // destination of a cp.async whose thread has not waited
  BarrierWord = 2, // part of an mbarrier
  AtomicWrite = 4, // last written by an atomic
  WaitedCopy = 8,  // last written by a cp.async of 16 bytes that was waited for: no fence.proxy.async needed
};

enum class Touch : uint8_t { Load, Store, Atomic, AsyncLoad, AsyncStore, CopyStore };

/// Who accesses: `who` is the entry that will know of it, `thread` the issuing thread, whose knowledge counts.
struct Actor {
  const Clock *clock = nullptr;
  uint32_t who = 0;
  uint32_t thread = 0;    // cluster-wide id; for a whole warpgroup: noThread, all knowledge is in the clock
  uint32_t warpFirst = 0; // first thread of the warp
  uint32_t lanes = 0;     // bit of the lane for reads of single threads, else 0
  uint32_t fenced = 0;    // the thread's own writes up to here are visible to the asynchronous proxy
  int32_t site = -1;
  static constexpr uint32_t noThread = ~0u;
};

/// Why an access faults: the kind of fault, and the conflicting access.
struct Conflict {
  FaultKind kind = FaultKind::None;
  uint32_t offset = 0; // of the first byte concerned
  uint32_t who = 0, lanes = 0, stamp = 0;
  int32_t site = -1;
  bool otherWrote = false;
  explicit operator bool() const { return kind != FaultKind::None; }
};

class ShadowMemory {
public:
  /// Memory of `bytes` bytes, nothing written.
  void reset(uint32_t bytes);
  /// Checks and records an access to [offset, offset + bytes), offsets from the first user byte.
  Conflict access(Clocks &clocks, const Actor &actor, Touch touch, uint32_t offset, uint32_t bytes);
  /// Completes a cp.async: its bytes become ordinary writes of (who, stamp), unless they were overwritten meanwhile.
  void land(uint32_t offset, uint32_t bytes, uint32_t oldStamp, uint32_t who, uint32_t stamp, bool keepPending);
  void markBarrier(uint32_t offset, bool isBarrier);
  bool isBarrier(uint32_t offset) const { return words_[offset / 4].flags & BarrierWord; }

private:
  struct Check;
  ShadowRecord *bytesOf(ShadowRecord &word);
  void clearReaders(ShadowRecord &r);
  Conflict touchRecord(const Check &c, ShadowRecord &r, uint8_t needInit);
  Conflict slowChecks(const Check &c, ShadowRecord &r, uint8_t needInit);
  bool knowsReader(const Check &c, const Reader &r) const;
  void addReader(const Check &c, ShadowRecord &r);

  std::unique_ptr<ShadowRecord[]> words_;
  uint32_t wordCount_ = 0, capacity_ = 0;
  std::vector<std::array<ShadowRecord, 4>> splits_;
  std::vector<uint32_t> freeSplits_;
  std::vector<std::vector<Reader>> readers_;
  std::vector<uint32_t> freeReaders_;
};

} // namespace tegula::sim
