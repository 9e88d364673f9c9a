// The report for a cluster in which no thread can run: who waits for what.
#include "sim/State.h"

namespace tegula::sim {

static bool sameWait(const Thread &a, const Thread &b) {
  return a.cta == b.cta && a.wait.kind == b.wait.kind && a.wait.site == b.wait.site && a.wait.a == b.wait.a &&
         a.wait.b == b.wait.b;
}

static std::string waitText(const Thread &t) {
  const WaitInfo &w = t.wait;
  switch (w.kind) {
  case Wait::Exited:
    return "left the kernel";
  case Wait::Warp: {
    const char *name = "warp instruction";
    for (const Gather &g : t.warp->gathers)
      if (g.name && (g.arrived >> t.lane & 1))
        name = g.name;
    return formatText("in %s of mask 0x%x at site %d, whose other threads do not come", name, uint32_t(w.a), w.site);
  }
  case Wait::Warpgroup:
    return formatText("in wgmma at site %d, to which not all 128 threads come", w.site);
  case Wait::Barrier: {
    const NamedBarrier &b = t.cta->barriers[w.a];
    return formatText("at barrier %u at site %d, to which %u of %u threads came", unsigned(w.a), w.site, b.arrived,
                      b.count);
  }
  case Wait::ClusterBarrier:
    return formatText("at the cluster barrier at site %d", w.site);
  case Wait::Mbarrier:
    return mbarrierText(t);
  case Wait::Registers:
    return formatText("in setmaxnreg.inc at site %d for registers that nobody gives back", w.site);
  default:
    return "ready";
  }
}

static FaultKind kindOf(const Cluster &c) {
  bool warp = false, barrier = false, other = false;
  for (const Thread &t : c.threads) {
    warp |= t.wait.kind == Wait::Warp || t.wait.kind == Wait::Warpgroup;
    barrier |= t.wait.kind == Wait::Barrier;
    other |= t.wait.kind == Wait::Mbarrier || t.wait.kind == Wait::Registers || t.wait.kind == Wait::ClusterBarrier;
  }
  return other     ? FaultKind::Deadlock
         : warp    ? FaultKind::WarpDivergence
         : barrier ? FaultKind::BarrierDivergence
                   : FaultKind::Deadlock;
}

Fault describeDeadlock(Cluster &c) {
  Fault f;
  f.kind = kindOf(c);
  f.text = std::string(faultName(f.kind)) + ": no thread can go on";
  std::copy_n(c.index, 3, f.pid);
  unsigned lines = 0;
  for (size_t i = 0; i < c.threads.size();) {
    size_t end = i + 1;
    while (end < c.threads.size() && sameWait(c.threads[i], c.threads[end]))
      ++end;
    const Thread &t = c.threads[i];
    if (f.site < 0 && t.wait.kind != Wait::Exited)
      f.site = t.wait.site, f.thread = t.tid, f.ctaRank = t.cta->rank;
    if (++lines <= 16) {
      uint32_t last = c.threads[end - 1].tid;
      std::string who = t.tid == last ? formatText("thread %u", t.tid) : formatText("threads %u to %u", t.tid, last);
      if (c.ctas.size() > 1)
        who += formatText(" of CTA %u", t.cta->rank);
      f.text += "; " + who + " " + waitText(t);
    }
    i = end;
  }
  if (lines > 16)
    f.text += formatText("; and %u more groups of threads", lines - 16);
  return f;
}

} // namespace tegula::sim
