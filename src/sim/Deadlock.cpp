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

/// "threads 0 to 4, 6 to 31" of those with the same wait as the first, which are marked in `told`.
static std::string groupText(const Cluster &c, size_t first, std::vector<bool> &told) {
  std::string text;
  unsigned ranges = 0, count = 0;
  for (size_t i = first; i < c.threads.size();) {
    size_t end = i;
    while (end < c.threads.size() && !told[end] && sameWait(c.threads[first], c.threads[end]))
      told[end++] = true, ++count;
    if (end == i) {
      ++i;
      continue;
    }
    uint32_t from = c.threads[i].tid, last = c.threads[end - 1].tid;
    if (++ranges <= 8)
      text += (ranges > 1 ? ", " : "") + std::to_string(from) + (last > from ? " to " + std::to_string(last) : "");
    i = end;
  }
  if (ranges > 8)
    text += formatText(" ... (%u threads)", count);
  return (count > 1 ? "threads " : "thread ") + text;
}

Fault describeDeadlock(Cluster &c) {
  Fault f;
  f.kind = kindOf(c);
  f.text = std::string(faultName(f.kind)) + ": no thread can go on";
  std::copy_n(c.index, 3, f.pid);
  std::vector<bool> told(c.threads.size());
  unsigned groups = 0;
  for (size_t i = 0; i < c.threads.size(); ++i) {
    if (told[i])
      continue;
    const Thread &t = c.threads[i];
    if (f.site < 0 && t.wait.kind != Wait::Exited)
      f.site = t.wait.site, f.thread = t.tid, f.ctaRank = t.cta->rank;
    std::string who = groupText(c, i, told);
    if (++groups > 16)
      continue;
    if (c.ctas.size() > 1)
      who += formatText(" of CTA %u", t.cta->rank);
    f.text += "; " + who + " " + waitText(t);
  }
  if (groups > 16)
    f.text += formatText("; and %u more groups of threads", groups - 16);
  return f;
}

} // namespace tegula::sim
