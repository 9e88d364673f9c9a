// Faults: the sentence that says what happened, and the way out of a fiber.
#include "sim/State.h"
#include <cstdarg>
#include <cstdio>

namespace tegula::sim {

static const char *const faultNames[] = {"no fault",
                                         "impossible launch",
                                         "assertion failed",
                                         "global access out of bounds",
                                         "shared access out of bounds",
                                         "misaligned access",
                                         "shared-memory race",
                                         "read of uninitialized shared memory",
                                         "barrier divergence",
                                         "warp divergence",
                                         "missing wait",
                                         "operand overwritten while it is read",
                                         "missing proxy fence",
                                         "missing wgmma fence",
                                         "mbarrier misuse",
                                         "bad bulk copy",
                                         "deadlock",
                                         "register pool",
                                         "bad instruction",
                                         "hang",
                                         "stack overflow",
                                         "cancelled"};

const char *faultName(FaultKind kind) { return faultNames[size_t(kind)]; }

static const char *const instrNames[] = {
    "ld.global", "st.global", "ld.shared", "st.shared", "atom", "shfl", "vote",
    "bar.warp", "bar", "barrier.cluster", "fence", "ldmatrix", "stmatrix", "mma",
    "wgmma", "cp.async", "mbarrier.arrive", "mbarrier.wait", "bulk load", "bulk store", "st.async"};
static_assert(sizeof instrNames / sizeof *instrNames == size_t(Instr::Count));
const char *instrName(Instr i) { return instrNames[size_t(i)]; }

static std::string formatList(const char *format, va_list list) {
  va_list copy;
  va_copy(copy, list);
  int n = std::vsnprintf(nullptr, 0, format, copy);
  va_end(copy);
  std::string s(size_t(std::max(n, 0)) + 1, '\0');
  std::vsnprintf(s.data(), s.size(), format, list);
  s.pop_back();
  return s;
}

std::string formatText(const char *format, ...) {
  va_list list;
  va_start(list, format);
  std::string s = formatList(format, list);
  va_end(list);
  return s;
}

ThreadName::ThreadName(const Cluster &c, uint32_t id) {
  uint32_t threads = c.launch->config.threads, tid = id % threads;
  if (c.ctas.size() > 1)
    std::snprintf(text, sizeof text, "thread %u (warp %u) of CTA %u", tid, tid / 32, id / threads);
  else
    std::snprintf(text, sizeof text, "thread %u (warp %u)", tid, tid / 32);
}

void record(LaunchState &launch, Fault fault) {
  std::lock_guard lock(launch.mutex);
  if (!launch.report.fault)
    launch.report.fault = std::move(fault);
  launch.stop.store(true, std::memory_order_relaxed);
}

static void fillPlace(Fault &f, const Cluster &c) { std::copy_n(c.index, 3, f.pid); }

void fail(Thread *t, FaultKind kind, int32_t site, int32_t otherSite, const char *format, ...) {
  Cluster &c = *t->cluster;
  {
    Fault f;
    f.kind = kind, f.site = site, f.otherSite = otherSite;
    fillPlace(f, c);
    f.ctaRank = t->cta->rank, f.thread = t->tid;
    f.address = t->faultAddress;
    va_list list;
    va_start(list, format);
    f.text = std::string(faultName(kind)) + ": " + ThreadName(c, t->id).text + " " + formatList(format, list);
    va_end(list);
    record(*c.launch, std::move(f));
  }
  c.stopped = true;
  switchContext(t->context, c.host, true);
  __builtin_unreachable();
}

/// "thread 3 (warp 0)", "wgmma of warps 4-7", "an asynchronous copy": who an entry of a clock stands for.
static std::string actorText(const Cluster &c, uint32_t who, uint32_t lanes) {
  const Clocks &k = c.clocks;
  if (k.isThread(who)) {
    uint32_t id = lanes ? who + unsigned(__builtin_ctz(lanes)) : who;
    return ThreadName(c, id).text;
  }
  if (k.isWarp(who))
    return formatText("warp %u", who - k.threads());
  if (k.isGroup(who)) {
    uint32_t first = (who - k.groupEntry(0)) * 4;
    return formatText("a wgmma of warps %u to %u", first, first + 3);
  }
  return "an asynchronous bulk copy";
}

static std::string conflictText(const Cluster &c, FaultKind kind, const Conflict &f, uint32_t address) {
  std::string other = actorText(c, f.who, f.lanes);
  std::string at = formatText("0x%x", address);
  const char *place = f.site >= 0 ? " at site " : "";
  std::string site = f.site >= 0 ? place + std::to_string(f.site) : "";
  switch (kind) {
  case FaultKind::Uninitialized:
    return "byte " + at + " was never written, or not yet: nothing makes this thread wait for it";
  case FaultKind::Mbarrier:
    return "address " + at + " holds an mbarrier";
  case FaultKind::MissingWait:
    if (c.clocks.isThread(f.who))
      return "the cp.async of " + other + site + " into " + at + " has not been waited for";
    return other + site + " into " + at + " has not been waited for by this thread, nor by one it synchronized with";
  case FaultKind::MissingProxyFence:
    return other + " wrote " + at + site + " without a fence.proxy.async before synchronizing";
  case FaultKind::AsyncReadOverwritten:
    return other + site + " still reads " + at;
  default:
    return other + (f.otherWrote ? " wrote " : " read ") + at + site + " and nothing orders the two";
  }
}

void failAccess(Thread *t, Cta &target, int32_t site, const char *verb, uint32_t bytes, const Conflict &f) {
  uint32_t address = (target.rank << 24) | (f.offset + sharedBase);
  char why[320];
  std::snprintf(why, sizeof why, "%s", conflictText(*t->cluster, f.kind, f, address).c_str());
  fail(t, f.kind, site, f.site, "%s (%u bytes) at site %d: %s", verb, bytes, site, why);
}

std::string namePlaces(const std::string &text, const std::function<std::string(int32_t site)> &place) {
  static constexpr std::string_view word = "site ";
  std::string out;
  for (size_t at = 0;;) {
    size_t found = text.find(word, at);
    size_t digits = found == std::string::npos ? found : found + word.size();
    if (digits == std::string::npos)
      return out + text.substr(at);
    bool unknown = text.compare(digits, 2, "-1") == 0;
    size_t end = unknown ? digits + 2 : digits;
    int64_t site = unknown ? -1 : 0;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9')
      site = std::min<int64_t>(site * 10 + (text[end++] - '0'), INT32_MAX);
    out += end == digits ? text.substr(at, digits - at) : text.substr(at, found - at) + place(int32_t(site));
    at = end;
  }
}

} // namespace tegula::sim
