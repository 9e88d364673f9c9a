// Scheduling of the fibers of a cluster: first come, first served, one at a time, and only where the kernel waits or
// loops.
#include "sim/AsyncState.h"
#include "sim/StackPool.h"
#include "sim/State.h"
#include "support/Clock.h"

namespace tegula::sim {

/// Back edges after which a thread lets others run, and turns of all threads after which other clusters get theirs:
/// soon if the cluster used global atomics with a result, which is how kernels wait for one another, else late (a loop
/// that polls with loads).
static constexpr uint32_t backedgeBudget = 16, pollRounds = 2, spinRounds = 64;
/// Local memory that must be left when the simulator is called.
static constexpr size_t stackReserve = 24 * 1024;

void checkStack(Thread *t) {
  auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  auto bottom = reinterpret_cast<uintptr_t>(t->context.stackBottom);
  // With AddressSanitizer frames may live elsewhere; then nothing can be told.
  if (here >= bottom && here < bottom + stackReserve)
    fail(t, FaultKind::StackOverflow, -1, -1, "has used its %zu bytes of local memory", t->context.stackBytes);
}

static void switchFrom(Thread *t, bool forGood) {
  Cluster &c = *t->cluster;
  if (c.launch->stop.load(std::memory_order_relaxed))
    c.stopped = true;
  Thread *next = c.stopped || c.rotate ? nullptr : c.popReady();
  if (next == t) {
    t->wait.kind = Wait::Running;
    return;
  }
  if (next)
    next->wait.kind = Wait::Running, ++c.counters.switches;
  switchContext(t->context, next ? next->context : c.host, forGood);
}

void block(Thread *t) { switchFrom(t, false); }

void wake(Thread *t) { t->cluster->pushReady(t); }

[[noreturn]] static void leave(Thread *t) {
  Cluster &c = *t->cluster;
  checkExit(t);
  t->wait = {Wait::Exited};
  --t->cta->live;
  --c.live;
  t->warp->exited |= 1u << t->lane;
  collectAfterExit(t);
  clusterBarrierAfterExit(t);
  switchFrom(t, true);
  __builtin_unreachable();
}

static void fiberMain(void *arg) {
  Thread *t = static_cast<Thread *>(arg);
  const LaunchConfig &config = t->cluster->launch->config;
  config.entry(t, config.args);
  leave(t);
}

static void prepareCta(Cluster &c, Cta &cta, const LaunchConfig &config) {
  cta.live = config.threads;
  cta.memory.assign(config.sharedBytes, 0xcd);
  cta.shadow.reset(config.sharedBytes);
  uint32_t registers = config.registersPerThread;
  if (!registers)
    registers = std::min(256u, 65536 / config.threads) / 8 * 8;
  for (Warp &w : cta.warps)
    w.exited = 0, w.registers = registers, w.gathers.clear();
  for (Warpgroup &g : cta.groups)
    g.name = nullptr, g.arrived = 0;
  for (NamedBarrier &b : cta.barriers)
    b.count = b.arrived = b.warpsSeen = 0, b.waiting.clear(), b.gathered = nullptr;
  cta.freeRegisters = 0;
  cta.registerWaiters.clear();
  resetAsync(cta);
}

/// Fixed parts: who belongs to whom.
static bool build(Cluster &c, const LaunchConfig &config) {
  size_t count = size_t(config.threads) * config.clusterCtas;
  c.stacks = config.stacks ? config.stacks->take(count, config.stackBytes)
                           : std::make_unique<StackSlab>(count, config.stackBytes);
  if (!c.stacks->ok())
    return false;
  c.threads = std::vector<Thread>(count);
  size_t ring = 1;
  while (ring <= count)
    ring *= 2;
  c.ready.resize(ring);
  for (uint32_t rank = 0; rank < config.clusterCtas; ++rank) {
    auto cta = std::make_unique<Cta>();
    cta->cluster = &c;
    cta->rank = rank;
    cta->warps = std::vector<Warp>(config.threads / 32);
    cta->groups = std::vector<Warpgroup>(config.threads / 128);
    for (uint32_t tid = 0; tid < config.threads; ++tid) {
      Thread &t = c.threads[rank * config.threads + tid];
      t.cluster = &c, t.cta = cta.get(), t.warp = &cta->warps[tid / 32];
      t.id = rank * config.threads + tid, t.tid = tid, t.lane = tid % 32;
      if (t.lane == 0)
        t.warp->threads = &t;
      if (tid % 128 == 0 && tid / 128 < cta->groups.size())
        cta->groups[tid / 128].threads = &t;
    }
    c.ctas.push_back(std::move(cta));
  }
  return true;
}

bool startCluster(Cluster &c, LaunchState &launch, uint64_t linear) {
  const LaunchConfig &config = launch.config;
  c.launch = &launch;
  if (c.threads.empty() && !build(c, config))
    return false;
  c.index[0] = int32_t(linear % uint64_t(config.grid[0]));
  c.index[1] = int32_t(linear / uint64_t(config.grid[0]) % uint64_t(config.grid[1]));
  c.index[2] = int32_t(linear / uint64_t(config.grid[0]) / uint64_t(config.grid[1]));
  c.clocks.reset(uint32_t(c.threads.size()));
  c.released.clear();
  c.barrier.arrived = 0, c.barrier.waiting.clear(), c.barrier.gathered = c.barrier.completed = nullptr;
  for (auto &cta : c.ctas)
    prepareCta(c, *cta, config);
  c.live = uint32_t(c.threads.size());
  c.readyHead = c.readyCount = c.spins = 0;
  c.stopped = c.rotate = c.polls = false;
  Clock *nothing = c.clocks.make();
  nothing->refs = c.live;
  for (Thread &t : c.threads) {
    t.clock = nothing;
    t.fenced = t.ordered = 0, t.budget = backedgeBudget, t.loopSite = -1, t.clusterArrived = false;
    t.clusterPhase = t.clusterCompleted = t.clusterWaited = 0, t.lastBuffer = {};
    t.async.reset();
    // Equal frames start at different cache sets.
    t.context.prepare(c.stacks->bottom(t.id), c.stacks->stackBytes(), t.id % 16 * 256, fiberMain, &t);
    t.wait = {};
    c.pushReady(&t);
  }
  return true;
}

Turn runCluster(Cluster &c) {
  while (true) {
    if (c.stopped || c.launch->stop.load(std::memory_order_relaxed))
      return Turn::Stopped;
    if (c.rotate) {
      c.rotate = false;
      c.spins = 0;
      c.polls = false;
      return Turn::Rotated;
    }
    if (c.live == 0)
      return Turn::Finished;
    Thread *next = c.popReady();
    if (!next) {
      record(*c.launch, describeDeadlock(c));
      return Turn::Stopped;
    }
    next->wait.kind = Wait::Running;
    ++c.counters.switches;
    switchContext(c.host, next->context);
  }
}

/// Has no cluster finished for too long? Asked for now and then, as it takes a look at the clock.
static bool hangs(Cluster &c) {
  uint64_t limit = c.launch->config.hangNs;
  return limit && ++c.yields % 64 == 0 &&
         uint64_t(steadyNs() - c.launch->lastFinish.load(std::memory_order_relaxed)) > limit;
}

static void yieldAtBackedge(Thread *t) {
  Cluster &c = *t->cluster;
  t->budget = backedgeBudget;
  const std::atomic<int32_t> *cancel = c.launch->config.cancel;
  if (cancel && cancel->load(std::memory_order_relaxed))
    fail(t, FaultKind::Cancelled, -1, -1, "stopped");
  if (hangs(c))
    fail(t, FaultKind::Hang, t->loopSite, -1, "goes round in a loop and no program finishes");
  if (++c.spins > (c.polls ? pollRounds : spinRounds) * c.live)
    c.rotate = true;
  c.pushReady(t);
  block(t);
}

} // namespace tegula::sim

void tegula_sim_backedge(TegulaSimThread *t, int32_t site) {
  t->loopSite = site;
  if (--t->budget == 0)
    tegula::sim::yieldAtBackedge(t);
}
