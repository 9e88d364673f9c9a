// A launch: checks the configuration, spreads clusters over host threads, adds up what they counted.
#include "sim/Machine.h"
#include "sim/AsyncState.h"
#include "sim/Banks.h"
#include "sim/Mbarrier.h"
#include "sim/StackPool.h"
#include "sim/State.h"
#include "support/Clock.h"
#include <algorithm>
#include <pthread.h>

namespace tegula::sim {

/// CTAs that are under way at the same time at most, so that a grid of this size can wait for one another (as on 132
/// SMs).
static constexpr unsigned residentCtas = 132;

Cta::Cta() = default;
Cta::~Cta() = default;
Cluster::~Cluster() {
  threads.clear();
  if (launch && launch->config.stacks)
    launch->config.stacks->give(std::move(stacks));
}

static std::string refusal(const LaunchConfig &c) {
  if (!c.entry)
    return "no entry point";
  for (int i = 0; i < 3; ++i)
    if (c.grid[size_t(i)] < 1)
      return formatText("grid extent %d is %d", i, c.grid[size_t(i)]);
  if (c.threads == 0 || c.threads % 32 || c.threads > maxThreads)
    return formatText("%u threads per CTA; it must be a multiple of 32 up to %u", c.threads, maxThreads);
  if (c.clusterCtas == 0 || c.clusterCtas > maxClusterCtas)
    return formatText("clusters of %u CTAs; at most %u are possible", c.clusterCtas, maxClusterCtas);
  if (c.sharedBytes > sharedLimit)
    return formatText("%u bytes of shared memory; a CTA gets at most %u", c.sharedBytes, sharedLimit);
  if (c.stackBytes < 32 * 1024)
    return formatText("%u bytes of local memory per thread; at least 32768 are needed", c.stackBytes);
  return {};
}

/// One host thread's part of a launch.
struct Worker {
  LaunchState &launch;
  unsigned maxResident = 1;
  std::deque<std::unique_ptr<Cluster>> resident; // the first one runs
  std::vector<std::unique_ptr<Cluster>> spare;
  Counters counters;

  bool startOne() {
    uint64_t linear = launch.nextCluster.load(std::memory_order_relaxed);
    if (linear >= launch.clusters)
      return false;
    linear = launch.nextCluster.fetch_add(1, std::memory_order_relaxed);
    if (linear >= launch.clusters)
      return false;
    std::unique_ptr<Cluster> c;
    if (spare.empty())
      c = std::make_unique<Cluster>();
    else
      c = std::move(spare.back()), spare.pop_back();
    if (!startCluster(*c, launch, linear)) {
      Fault f;
      f.kind = FaultKind::Config;
      f.text = formatText("impossible launch: no memory for %u stacks of %u bytes",
                          launch.config.threads * launch.config.clusterCtas, launch.config.stackBytes);
      record(launch, std::move(f));
      return false;
    }
    resident.push_front(std::move(c));
    return true;
  }

  void finish(Cluster &c) {
    for (auto &cta : c.ctas)
      if (cta->banks)
        cta->banks->flush(c.counters);
    add(counters, c.counters);
    c.counters = {};
  }

  static void add(Counters &to, const Counters &from) {
    for (size_t i = 0; i < to.instructions.size(); ++i)
      to.instructions[i] += from.instructions[i];
    for (size_t i = 0; i < to.banks.size(); ++i) {
      to.banks[i].instructions += from.banks[i].instructions;
      to.banks[i].wavefronts += from.banks[i].wavefronts;
      to.banks[i].conflicts += from.banks[i].conflicts;
    }
    to.switches += from.switches;
  }

  static Unfinished unfinished(const Cluster &c) {
    Unfinished u;
    std::copy_n(c.index, 3, u.pid);
    // Those that wait for others are not what holds the program up.
    for (const Thread &t : c.threads)
      if (t.loopSite >= 0 && (t.wait.kind == Wait::Running || t.wait.kind == Wait::Ready)) {
        u.site = t.loopSite;
        break;
      }
    return u;
  }

  /// Runs one cluster after the other. One that spins at back edges may wait for a cluster that is not running: the
  /// next one then gets a turn, or a new one is started.
  void run() {
    while (!launch.stop.load(std::memory_order_relaxed) && (!resident.empty() || startOne())) {
      Cluster &c = *resident.front();
      Turn turn = runCluster(c);
      if (turn == Turn::Stopped)
        break;
      if (turn == Turn::Finished) {
        if (launch.config.hangNs)
          launch.lastFinish.store(steadyNs(), std::memory_order_relaxed);
        finish(c);
        spare.push_back(std::move(resident.front()));
        resident.pop_front();
        continue;
      }
      resident.push_back(std::move(resident.front()));
      resident.pop_front();
      if (resident.size() < maxResident)
        startOne();
    }
    for (auto &c : resident)
      finish(*c);
    std::lock_guard lock(launch.mutex);
    add(launch.report.counters, counters);
    for (auto &c : resident)
      launch.report.unfinished.push_back(unfinished(*c));
  }
};

static void *workerMain(void *arg) {
  static_cast<Worker *>(arg)->run();
  return nullptr;
}

static Fault configFault(std::string why) {
  Fault f;
  f.kind = FaultKind::Config;
  f.text = std::string(faultName(f.kind)) + ": " + why;
  return f;
}

/// Sorted, with overlapping ones (views of one array) made one. Neighbours that only touch stay apart.
static std::vector<Extent> unionOf(std::span<const Extent> buffers) {
  std::vector<Extent> sorted(buffers.begin(), buffers.end()), result;
  std::sort(sorted.begin(), sorted.end(), [](const Extent &a, const Extent &b) { return a.begin < b.begin; });
  for (Extent e : sorted) {
    e.bytes = std::min(e.bytes, UINT64_MAX - e.begin);
    if (e.bytes == 0)
      continue;
    Extent *last = result.empty() ? nullptr : &result.back();
    if (last && e.begin - last->begin < last->bytes)
      last->bytes = std::max(last->bytes, e.begin - last->begin + e.bytes);
    else
      result.push_back(e);
  }
  return result;
}

Report launch(const LaunchConfig &config) {
  LaunchState state{config};
  if (std::string why = refusal(config); !why.empty()) {
    state.report.fault = configFault(why);
    return std::move(state.report);
  }
  state.buffers = unionOf(config.buffers);
  state.clusters = uint64_t(config.grid[0]) * uint64_t(config.grid[1]) * uint64_t(config.grid[2]);
  if (config.programs)
    state.clusters = std::min(state.clusters, config.programs);
  state.lastFinish = steadyNs();
  auto workers = unsigned(std::clamp<uint64_t>(config.hostThreads, 1, state.clusters));
  unsigned maxResident = std::max(1u, (residentCtas / config.clusterCtas + workers - 1) / workers);
  std::deque<Worker> all;
  std::vector<pthread_t> threads;
  for (unsigned i = 0; i < workers; ++i)
    all.push_back({state, maxResident});
  const bool isElsewhere = config.executor && workers > 1;
  if (isElsewhere)
    config.executor(
        config.executorUser, workers,
        [](void *data, uint32_t i) { (*static_cast<std::deque<Worker> *>(data))[i].run(); }, &all);
  for (unsigned i = 1; i < workers && !isElsewhere; ++i) {
    pthread_t thread;
    // Fewer host threads than wanted only take longer.
    if (pthread_create(&thread, nullptr, workerMain, &all[i]) == 0)
      threads.push_back(thread);
  }
  if (!isElsewhere) all[0].run();
  for (pthread_t thread : threads)
    pthread_join(thread, nullptr);
  all.clear(); // clusters give their stacks back
  state.report.notStarted = state.clusters - std::min<uint64_t>(state.nextCluster, state.clusters);
  std::sort(
      state.report.unfinished.begin(), state.report.unfinished.end(), [](const Unfinished &a, const Unfinished &b) {
        return std::lexicographical_compare(std::rbegin(a.pid), std::rend(a.pid), std::rbegin(b.pid), std::rend(b.pid));
      });
  return std::move(state.report);
}

} // namespace tegula::sim
