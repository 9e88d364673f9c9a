// Instructions that threads of a warp (or the four warps of a warpgroup) execute together.
#include "sim/State.h"

namespace tegula::sim {

static Gather &gatherFor(Thread *t, const char *name, int32_t site, uint32_t mask, Gather::Run run) {
  Warp &w = *t->warp;
  Gather *unused = nullptr;
  for (Gather &g : w.gathers) {
    if (!g.name) {
      unused = &g;
    } else if (g.mask == mask && !(g.arrived >> t->lane & 1)) {
      if (g.run == run && g.site == site)
        return g;
      fail(t, FaultKind::WarpDivergence, site, g.site,
           "executes %s (mask 0x%x) at site %d while other threads of its warp are in %s with that mask at site %d",
           name, mask, site, g.name, g.site);
    }
  }
  if (!unused)
    unused = &w.gathers.emplace_back();
  *unused = {name, run, mask, 0, site};
  return *unused;
}

static void finish(Thread *warpThreads, Gather &g, Thread *last) {
  uint32_t came = g.arrived;
  Gather::Run run = g.run;
  run(warpThreads, came);
  g.name = nullptr;
  for (uint32_t m = came; m; m &= m - 1) {
    Thread *other = warpThreads + __builtin_ctz(m);
    if (other != last)
      wake(other);
  }
}

void collect(Thread *t, const char *name, int32_t site, uint32_t mask, Gather::Run run) {
  checkStack(t);
  if (!(mask >> t->lane & 1))
    fail(t, FaultKind::WarpDivergence, site, -1, "executes %s at site %d with mask 0x%x, which does not name it", name,
         site, mask);
  Warp &w = *t->warp;
  Gather &g = gatherFor(t, name, site, mask, run);
  g.arrived |= 1u << t->lane;
  if (g.arrived == (mask & ~w.exited)) {
    // A thread of the warp faults with the identity of the last to come, which is the one that runs.
    finish(w.threads, g, t);
    return;
  }
  t->wait = {Wait::Warp, site, mask};
  block(t);
}

void collectAfterExit(Thread *t) {
  Warp &w = *t->warp;
  for (Gather &g : w.gathers)
    if (g.name && g.arrived == (g.mask & ~w.exited))
      finish(w.threads, g, nullptr);
}

void collectGroup(Thread *t, const char *name, int32_t site, void (*run)(Thread *first)) {
  checkStack(t);
  uint32_t index = t->tid / 128;
  if (index >= t->cta->groups.size())
    fail(t, FaultKind::BadInstruction, site, -1, "executes %s at site %d in warps that make no whole warpgroup", name,
         site);
  Warpgroup &g = t->cta->groups[index];
  if (g.arrived == 0) {
    g.name = name, g.site = site;
  } else if (g.site != site || g.name != name) {
    fail(t, FaultKind::WarpDivergence, site, g.site,
         "executes %s at site %d while other threads of its warpgroup are in %s at site %d", name, site, g.name,
         g.site);
  }
  if (++g.arrived < 128) {
    t->wait = {Wait::Warpgroup, site, index};
    block(t);
    return;
  }
  g.arrived = 0;
  run(g.threads);
  for (unsigned i = 0; i < 128; ++i)
    if (g.threads + i != t)
      wake(g.threads + i);
}

} // namespace tegula::sim
