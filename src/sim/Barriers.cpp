// Barriers of a CTA and of a cluster, and fences.
#include "sim/State.h"

using namespace tegula::sim;

namespace tegula::sim {

/// A count of 0 means all threads of the CTA.
static int32_t allIfZero(Thread *t, int32_t count) {
  return count ? count : int32_t(t->cluster->launch->config.threads);
}

/// Checks what a thread says of a barrier against what others said, and counts it in. True if it is the last.
static bool arriveAt(Thread *t, int32_t site, const char *verb, int32_t id, int32_t count) {
  t->cluster->count(Instr::Barrier);
  uint32_t threads = t->cluster->launch->config.threads;
  if (uint32_t(id) >= 16 || count <= 0 || count % 32 != 0 || uint32_t(count) > threads)
    fail(t, FaultKind::BadInstruction, site, -1,
         "executes %s at site %d: barrier %d with a count of %d in a CTA of %u threads", verb, site, id, count,
         threads);
  NamedBarrier &b = t->cta->barriers[id];
  uint32_t warp = t->tid / 32;
  if (b.count == 0) {
    b.count = uint32_t(count);
    b.warpsSeen = 0;
  } else if (b.count != uint32_t(count)) {
    int32_t other = b.waiting.empty() ? -1 : b.waiting[0]->wait.site;
    fail(t, FaultKind::BarrierDivergence, site, other,
         "comes to barrier %d at site %d with a count of %d threads; others came with a count of %u (site %d)", id,
         site, count, b.count, other);
  }
  if ((b.warpsSeen >> warp & 1) && b.warpSite[warp] != site)
    fail(t, FaultKind::BarrierDivergence, site, b.warpSite[warp],
         "comes to barrier %d at site %d; other threads of its warp came to it at site %d", id, site, b.warpSite[warp]);
  b.warpsSeen |= 1u << warp;
  b.warpSite[warp] = site;
  return ++b.arrived == b.count;
}

static void complete(Thread *t, NamedBarrier &b) {
  Cluster &c = *t->cluster;
  if (!b.waiting.empty())
    synchronize(c, b.waiting.data(), b.waiting.size(), b.gathered);
  for (Thread *o : b.waiting)
    if (o != t)
      wake(o);
  c.clocks.drop(b.gathered);
  b.gathered = nullptr;
  b.waiting.clear();
  b.count = b.arrived = 0;
}

static void completeCluster(Cluster &c) {
  ClusterBarrier &b = c.barrier;
  c.clocks.drop(b.completed);
  b.completed = b.gathered;
  b.gathered = nullptr;
  b.arrived = 0;
  for (Thread &t : c.threads)
    if (t.wait.kind != Wait::Exited)
      t.clusterArrived = false, ++t.clusterCompleted;
  for (Thread *t : b.waiting)
    wake(t);
  b.waiting.clear();
}

/// Threads that have left count as arrived.
static bool clusterComplete(const Cluster &c) { return c.barrier.arrived && c.barrier.arrived == c.live; }

void clusterBarrierAfterExit(Thread *t) {
  Cluster &c = *t->cluster;
  if (t->clusterArrived)
    --c.barrier.arrived;
  if (clusterComplete(c))
    completeCluster(c);
}

} // namespace tegula::sim

void tegula_sim_bar_sync(TegulaSimThread *t, int32_t site, int32_t id, int32_t count) {
  checkStack(t);
  count = allIfZero(t, count);
  bool last = arriveAt(t, site, "bar.sync", id, count);
  NamedBarrier &b = t->cta->barriers[id];
  b.waiting.push_back(t);
  if (last)
    return complete(t, b);
  t->wait = {Wait::Barrier, site, uint64_t(id), uint32_t(count)};
  block(t);
}

void tegula_sim_bar_arrive(TegulaSimThread *t, int32_t site, int32_t id, int32_t count) {
  count = allIfZero(t, count);
  bool last = arriveAt(t, site, "bar.arrive", id, count);
  NamedBarrier &b = t->cta->barriers[id];
  release(t, b.gathered);
  advance(t);
  if (last)
    complete(t, b);
}

void tegula_sim_cluster_arrive(TegulaSimThread *t, int32_t site, int32_t relaxed) {
  Cluster &c = *t->cluster;
  c.count(Instr::ClusterBarrier);
  if (t->clusterArrived)
    fail(t, FaultKind::BarrierDivergence, site, -1, "arrives at the cluster barrier twice in one phase (site %d)",
         site);
  t->clusterArrived = true;
  ++c.barrier.arrived;
  if (relaxed) {
    // Only what a fence ordered before is released; enough for mbarriers that were initialized and fenced.
    if (!c.barrier.gathered)
      c.barrier.gathered = c.clocks.make();
    c.barrier.gathered->know[t->id] = std::max(c.barrier.gathered->know[t->id], t->ordered);
  } else {
    release(t, c.barrier.gathered);
    advance(t);
  }
  ++t->clusterPhase;
  if (clusterComplete(c))
    completeCluster(c);
}

void tegula_sim_cluster_wait(TegulaSimThread *t, int32_t site) {
  Cluster &c = *t->cluster;
  if (t->clusterCompleted > t->clusterPhase || t->clusterWaited == t->clusterPhase)
    fail(t, FaultKind::BarrierDivergence, site, -1, "waits for the cluster barrier at site %d without having arrived",
         site);
  t->clusterWaited = t->clusterPhase;
  while (t->clusterCompleted < t->clusterPhase) {
    t->wait = {Wait::ClusterBarrier, site};
    c.barrier.waiting.push_back(t);
    block(t);
  }
  acquire(t, c.barrier.completed);
}

void tegula_sim_fence_proxy_async(TegulaSimThread *t, int32_t site) {
  t->cluster->count(Instr::Fence);
  t->fenced = t->cluster->clocks.now;
  advance(t);
  fenceMbarrierInit(t);
}

void tegula_sim_fence_mbarrier_init(TegulaSimThread *t, int32_t site) {
  t->cluster->count(Instr::Fence);
  fenceMbarrierInit(t);
  t->ordered = t->cluster->clocks.now;
  advance(t);
}

void tegula_sim_membar(TegulaSimThread *t, int32_t site, int32_t scope) {
  t->cluster->count(Instr::Fence);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  t->ordered = t->cluster->clocks.now;
  advance(t);
}
