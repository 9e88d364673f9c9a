// The state of a running launch: threads, warps, CTAs, clusters. Private to the layer.
//
// A cluster belongs to one host thread, and only that thread accesses its state; LaunchState holds the state that host
// threads share. Functions that may switch fibers own no memory across the switch: a fiber can be abandoned.
#pragma once
#include "sim/Fiber.h"
#include "sim/Machine.h"
#include "sim/Shadow.h"
#include <deque>
#include <memory>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace tegula::sim {

struct Warp;
struct Cta;
struct Cluster;
struct LaunchState;
struct AsyncState;    // AsyncState.h: what a thread has in flight
struct MbarrierTable; // Mbarrier.h
class BankCounter;    // Banks.h

/// Why a thread does not run.
enum class Wait : uint8_t { Running, Ready, Warp, Warpgroup, Barrier, ClusterBarrier, Mbarrier, Registers, Exited };

struct WaitInfo {
  Wait kind = Wait::Ready;
  int32_t site = -1;
  uint64_t a = 0; // mask, barrier id, mbarrier address ...
  uint32_t b = 0; // thread count, parity
};

/// A thread's operands of a collective instruction, read by the thread that comes last, which also writes results.
struct Slot {
  uint64_t a = 0, b = 0;
  const void *in = nullptr;
  void *out = nullptr;
  uint32_t result = 0;
};

} // namespace tegula::sim

struct TegulaSimThread {
  tegula::sim::Context context;
  tegula::sim::Cluster *cluster = nullptr;
  tegula::sim::Cta *cta = nullptr;
  tegula::sim::Warp *warp = nullptr;
  tegula::sim::Clock *clock = nullptr;
  uint32_t id = 0; // in the cluster: rank * threads + tid
  uint32_t tid = 0, lane = 0;
  uint32_t fenced = 0;  // own generic writes up to this stamp are visible to the asynchronous proxy
  uint32_t ordered = 0; // what it did up to this stamp is before its last memory fence
  uint32_t budget = 0;  // back edges left before others get a turn
  int32_t loopSite = -1; // of the last back edge
  // Cluster barrier: phases this thread has arrived at, seen completed and waited for.
  bool clusterArrived = false;
  uint32_t clusterPhase = 0, clusterCompleted = 0, clusterWaited = 0;
  tegula::sim::WaitInfo wait;
  tegula::sim::Slot slot;
  tegula::sim::Extent lastBuffer;
  uint64_t faultAddress = 0; // of the global access that is about to fail
  std::unique_ptr<tegula::sim::AsyncState> async;

  TegulaSimThread();
  ~TegulaSimThread();
};

namespace tegula::sim {
using Thread = TegulaSimThread;

/// A collective instruction that some threads of a warp or warpgroup have come to. `run` executes it for all of them.
struct Gather {
  using Run = void (*)(Thread *first, uint32_t mask);
  const char *name = nullptr; // null: free
  Run run = nullptr;
  uint32_t mask = 0, arrived = 0;
  int32_t site = -1;
};

struct Warp {
  Thread *threads = nullptr; // 32 of them
  uint32_t exited = 0;
  uint32_t registers = 0; // per thread
  std::deque<Gather> gathers;
};

struct Warpgroup {
  Thread *threads = nullptr; // 128 of them
  const char *name = nullptr;
  uint32_t arrived = 0;
  int32_t site = -1;
};

/// One of the 16 barriers of a CTA.
struct NamedBarrier {
  uint32_t count = 0, arrived = 0; // count 0: nobody has come
  std::vector<Thread *> waiting;
  Clock *gathered = nullptr; // of those who arrived without waiting
  uint32_t warpsSeen = 0;
  std::array<int32_t, 32> warpSite{};
};

/// The last access of a thread (or of the copies of an mbarrier) of another CTA to this one's shared memory.
struct Visit {
  uint32_t stamp;
  uint32_t phase; // of the cluster barrier: who has waited for it comes later, whatever was released there
  int32_t site;
};

struct Cta {
  Cluster *cluster = nullptr;
  uint32_t rank = 0;
  uint32_t live = 0;           // threads that have not exited
  std::vector<uint8_t> memory; // from sharedBase on
  ShadowMemory shadow;
  std::vector<Warp> warps;
  std::vector<Warpgroup> groups;
  NamedBarrier barriers[16];
  std::unique_ptr<MbarrierTable> mbarriers;
  std::unique_ptr<BankCounter> banks;
  uint32_t freeRegisters = 0;
  std::vector<Thread *> registerWaiters;
  std::map<uint32_t, Visit> visits; // by clock entry; of those that no thread that has left knew of
  Cta();
  ~Cta();
};

struct ClusterBarrier {
  uint32_t arrived = 0;
  std::vector<Thread *> waiting;
  Clock *gathered = nullptr, *completed = nullptr;
};

/// Bytes of global memory that a bulk store or reduction writes, from its issue to a wait of the issuing thread that
/// covers the write.
struct BulkWrite {
  uint64_t end;
  uint32_t thread, group;
  int32_t site, op; // op: TEGULA_ATOM_* of a reduction, -1 of a store
};

struct Cluster {
  ~Cluster();
  LaunchState *launch = nullptr;
  std::unique_ptr<StackSlab> stacks;
  std::vector<Thread> threads; // never resized while fibers exist
  std::vector<std::unique_ptr<Cta>> ctas;
  Clocks clocks;
  ClusterBarrier barrier;
  Context host;
  int32_t index[3] = {0, 0, 0};
  uint32_t live = 0;
  bool stopped = false; // fault or cancellation: no fiber runs any more
  bool rotate = false;  // give other clusters of this host thread a turn
  bool polls = false;   // a global atomic with a result since then
  uint32_t spins = 0;   // yields at back edges since the last turn
  uint32_t yields = 0;  // all of them
  uint32_t ticks = 0;   // what the clock register reads
  Counters counters;
  std::vector<uint32_t> scratch;                      // of wgmma
  std::map<uint64_t, BulkWrite> bulkWrites;           // by first byte; none longer than a row of a box
  std::vector<std::pair<uint32_t, Clock *>> released; // shared atomics with release: address, what was known

  // Ring of threads that can run; capacity is a power of two above the thread count.
  std::vector<Thread *> ready;
  uint32_t readyHead = 0, readyCount = 0;
  void pushReady(Thread *t) {
    t->wait.kind = Wait::Ready;
    ready[(readyHead + readyCount++) & (ready.size() - 1)] = t;
  }
  Thread *popReady() {
    if (!readyCount)
      return nullptr;
    Thread *t = ready[readyHead];
    readyHead = (readyHead + 1) & (uint32_t(ready.size()) - 1);
    --readyCount;
    return t;
  }
  void count(Instr i) { ++counters.instructions[size_t(i)]; }
};

struct LaunchState {
  const LaunchConfig &config;
  std::vector<Extent> buffers; // sorted
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> nextCluster{0};
  // when the launch began or a cluster finished, steady clock in nanoseconds; with hangNs only
  std::atomic<int64_t> lastFinish{0};
  uint64_t clusters = 0;
  std::mutex mutex; // guards report and printing
  Report report;
};

// Schedule.cpp
/// Suspends the running thread until wake(); its `wait` gives the reason.
void block(Thread *t);
void wake(Thread *t);
/// Faults if the thread has used nearly all of its stack.
void checkStack(Thread *t);
/// Makes a cluster ready to run program `linear`; false if memory for stacks is lacking.
bool startCluster(Cluster &c, LaunchState &launch, uint64_t linear);
enum class Turn : uint8_t { Finished, Rotated, Stopped };
/// Runs a cluster until it has finished, wants others to run, or the launch stops.
Turn runCluster(Cluster &c);

// A thread leaves: is it allowed to (AsyncState.cpp), and who can go on without it (Barriers.cpp)?
void checkExit(Thread *t);
/// Entry `who` accesses shared memory of `cta`, at the latest before `phase` of the cluster barrier ends: that must
/// last so long.
void noteVisit(Thread *t, int32_t site, Cta &cta, uint32_t who, uint32_t phase);
void clusterBarrierAfterExit(Thread *t);
/// Mbarriers that this thread initialized are visible to the asynchronous proxy and the cluster (Mbarrier.cpp).
void fenceMbarrierInit(Thread *t);
/// No mbarriers, no copies (AsyncState.cpp).
void resetAsync(Cta &cta);

// Fault.cpp
/// Records a fault of the launch and leaves the running thread for good. Takes C strings only: nothing on an abandoned
/// fiber may own memory.
[[noreturn]] void fail(Thread *t, FaultKind kind, int32_t site, int32_t otherSite, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
[[noreturn]] void failAccess(Thread *t, Cta &target, int32_t site, const char *verb, uint32_t bytes,
                             const Conflict &conflict);
void record(LaunchState &launch, Fault fault);
/// "thread 17 (warp 0)", with the CTA's rank when there are several.
struct ThreadName {
  char text[64];
  ThreadName(const Cluster &c, uint32_t id);
};
std::string formatText(const char *format, ...) __attribute__((format(printf, 1, 2)));
/// Describes what each thread waits for, for a cluster in which no thread can run.
Fault describeDeadlock(Cluster &c);
/// What a thread that waits at an mbarrier waits for (Mbarrier.cpp).
std::string mbarrierText(const Thread &t);

// Order.cpp: what threads learn from each other
/// Adds the clock and the past accesses of `t` to `*into` (a clock owned by a barrier, created if null). Call advance()
/// afterwards.
void release(Thread *t, Clock *&into);
inline void advance(Thread *t) { t->cluster->clocks.advance(); }
void acquire(Thread *t, Clock *from);
/// `t` knows the accesses of entry `who` up to `stamp`.
void learn(Thread *t, uint32_t who, uint32_t stamp);
/// Synchronizes all threads of `list`: each acquires the clocks and the past accesses of the others.
void synchronize(Cluster &c, Thread *const *list, size_t count, Clock *extra);
Actor actorOf(const Thread *t, int32_t site);

// Memory.cpp
/// Host address of shared memory [addr, addr + bytes) and its CTA; faults if it is not all there or misaligned.
uint8_t *sharedAt(Thread *t, int32_t site, const char *verb, uint32_t addr, uint32_t bytes, uint32_t align, Cta *&cta);
inline uint32_t userOffset(uint32_t addr) { return (addr & 0xffffff) - sharedBase; }
/// Faults if the bytes are not in one buffer, misaligned, or still being written by a bulk store; a reduction may
/// overlap others of the same `op`.
void checkGlobal(Thread *t, int32_t site, const char *verb, uint64_t addr, uint64_t bytes, uint32_t align,
                 int32_t op = -1);
/// Checks and records an access to shared memory of `cta`.
void touchShared(Thread *t, int32_t site, const char *verb, Cta &cta, uint32_t offset, uint32_t bytes, Touch touch);

// Atomics.cpp
/// One element of a reduction into global memory; `type` and `op` as for tegula_sim_atom.
void reduceGlobal(void *global, int32_t type, int32_t op, const void *value);

// Collect.cpp
/// Collects the threads of `mask` at one warp instruction; the last thread to arrive runs `run` once for all. Returns
/// when it is done.
void collect(Thread *t, const char *name, int32_t site, uint32_t mask, Gather::Run run);
void collectGroup(Thread *t, const char *name, int32_t site, void (*run)(Thread *first));
/// A thread left the kernel: instructions that wait only for the other threads continue.
void collectAfterExit(Thread *t);

} // namespace tegula::sim
