// The launch path. Its overhead is small: an empty kernel with one program costs two clock reads, one exchange and the
// call.
#include "runtime/Cancel.h"
#include "runtime/Device.h"
#include "runtime/Print.h"
#include "runtime/Scratch.h"
#include "runtime/Stack.h"
#include "runtime/Turns.h"
#include "support/Clock.h"
#include <algorithm>
#include <mutex>
#include <thread>
#include <tuple>

namespace tegula::runtime {

/// Below this, sharing the work costs more than it saves; the second value applies if threads would have to be woken
/// (see ThreadPool.cpp).
static constexpr uint64_t inlineNs = 10'000, inlineAsleepNs = 80'000;
/// Launches expected to be shorter than this (in time of all threads) are not handed to workers only to stay
/// interruptible: the calling thread works, and polls between its chunks. It runs no part of longer ones and of new
/// kernels, as a program may never end. A launch of one program is one chunk, so shortChunkNs is its limit; a launch on
/// one thread that takes no longer is one chunk, too.
static constexpr uint64_t shortNs = 20'000'000, shortChunkNs = 200'000;
static constexpr uint64_t pollNs = 50'000'000;

void CancelTable::cancelAll() {
  for (Slot &s : slots_) {
    int32_t running = 0;
    s.word.compare_exchange_strong(running, 1, std::memory_order_relaxed);
  }
}

namespace {
/// Launches with atomics: any number of them, or one that is alone and updates memory by plain reads and writes. There
/// is one lock for the launches by this copy of the runtime in the process: another copy (tegula.h) cannot be found
/// reliably, as it may be loaded with its symbols hidden or linked statically.
class AtomicsLock final : ForkReset {
public:
  bool tryAlone() {
    int32_t none = 0;
    return waiting_.load() == 0 && holders_.compare_exchange_strong(none, -1);
  }
  void leaveAlone() {
    holders_.store(0);
    holders_.notify_all();
  }
  /// Waits for a launch that is alone, which is short and waits for no other.
  void share() {
    ++waiting_;
    for (int32_t n = holders_.load();;) {
      if (n < 0) holders_.wait(n), n = holders_.load();
      else if (holders_.compare_exchange_weak(n, n + 1)) break;
    }
    --waiting_;
  }
  void unshare() { --holders_; }

private:
  void afterFork() override { holders_ = waiting_ = 0; }
  std::atomic<int32_t> holders_{0}; // -1: one alone
  std::atomic<int32_t> waiting_{0};
};
AtomicsLock &atomicsLock() {
  static AtomicsLock lock;
  return lock;
}

struct State final : RangeTask, TurnWork {
  const LaunchRequest &request;
  LaunchHooks &hooks;
  LaunchOutcome &outcome;
  CancelWord cancel;
  TegulaCpuLaunch record{};
  std::atomic<int32_t> code{TEGULA_FAULT_NONE};
  std::atomic<bool> noMemory{false};
  bool shared = false; // by several threads: sums up the time in programs, without the time to wake them
  std::atomic<uint64_t> busyNs{0};
  const std::thread::id caller = std::this_thread::get_id();
  uint64_t polledAt = 0; // the caller's own
  // Kernels that wait run programs one at a time, in small pieces if there is a watchdog.
  std::atomic<int64_t> next{0}, over{0};
  std::atomic<int64_t> started{0}, inFlight{0};
  std::atomic<bool> refused{false};
  // The watchdog; poll() runs it.
  std::atomic<uint64_t> moved{0};
  uint64_t movedThen = 0, movedAt = 0; // of the thread in poll()
  std::atomic<bool> hung{false};
  std::mutex hungMutex;
  std::vector<HungProgram> hungPrograms;
  static thread_local int64_t pieceEnd; // of the programs that the thread runs
  // Atomics. A launch on one thread may be alone in each call of the entry; other launches share the memory from their
  // first atomics on.
  bool mayBeAlone = false, isAlone = false, wasAlone = false;
  int64_t aloneAtOnce = 0; // programs that together take no longer than other launches may have to wait; 0: unlimited
  std::mutex sharesMutex;
  std::atomic<bool> shares{false};
  unsigned sharedIn = 0; // forkGeneration()

  State(const LaunchRequest &r, CancelTable &table, LaunchHooks &h, LaunchOutcome &o)
      : request(r), hooks(h), outcome(o), cancel(table) {
    for (int i = 0; i < 3; ++i) record.grid[i] = r.grid[i];
    record.cancel = cancel.address();
    record.fault = &o.fault;
    record.extents = r.extents;
    record.print = &State::print;
    record.user = this;
    record.clock = [] { return static_cast<int64_t>(steadyNs()); };
    record.wait = &State::waitHere;
    record.stopped = &State::stoppedHere;
    record.flags = TEGULA_LAUNCH_ATOMICS;
    record.atomics = &State::atomicsHere;
    static std::atomic<uint64_t> launches{0};
    record.number = launches.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  ~State() {
    if (shares && sharedIn == forkGeneration()) atomicsLock().unshare();
  }

  static State &of(const TegulaCpuLaunch *launch) { return *static_cast<State *>(launch->user); }

  static void print(const TegulaCpuLaunch *launch, int32_t site, int32_t operand, const int32_t pid[3],
                    const void *data, int64_t count) {
    const auto &sites = of(launch).request.kernel->info().sites;
    if (site >= 0 && static_cast<size_t>(site) < sites.size())
      of(launch).hooks.print(printText(sites[site], operand, pid, data, count));
  }

  static void waitHere(const TegulaCpuLaunch *launch, int64_t turn) {
    State &s = of(launch);
    if (turn == 1) s.moved.fetch_add(1, std::memory_order_relaxed);
    if (Turns *turns = Turns::current()) turns->wait();
  }

  static void stoppedHere(const TegulaCpuLaunch *launch, int32_t site, int32_t x, int32_t y, int32_t z) {
    State &s = of(launch);
    if (!s.hung) return;
    std::lock_guard lock(s.hungMutex);
    s.hungPrograms.push_back({site, {x, y, z}});
    // Later programs of its piece were not started. Programs that take turns are pieces of one.
    int64_t linear = x + s.record.grid[0] * (y + int64_t(s.record.grid[1]) * z);
    if (!s.request.kernel->info().waits) s.started.fetch_sub(pieceEnd - linear - 1, std::memory_order_relaxed);
  }

  static void atomicsHere(const TegulaCpuLaunch *launch, int32_t plain) {
    State &s = of(launch);
    std::atomic<bool> &known = s.request.kernel->hasPlainAtomics;
    if (plain && !known.load(std::memory_order_relaxed)) known.store(true, std::memory_order_relaxed);
    if (s.shares.load(std::memory_order_acquire)) return;
    if (plain && s.mayBeAlone && atomicsLock().tryAlone()) {
      s.isAlone = s.wasAlone = true;
      s.record.flags |= TEGULA_LAUNCH_ALONE;
      return;
    }
    std::lock_guard lock(s.sharesMutex);
    if (s.shares) return;
    atomicsLock().share();
    s.sharedIn = forkGeneration();
    s.shares.store(true, std::memory_order_release);
  }

  int32_t enter(int64_t begin, int64_t end, void *scratch) {
    int32_t c = request.kernel->entry()(request.args, &record, begin, end, scratch);
    if (isAlone) {
      isAlone = false;
      record.flags &= ~TEGULA_LAUNCH_ALONE;
      atomicsLock().leaveAlone();
    }
    return c;
  }

  bool run(int64_t begin, int64_t end) override {
    const CpuKernel &k = *request.kernel;
    uint64_t start = shared ? steadyNs() : 0;
    bool ran = withStack(k.stackNeed(), k.stackNeed(), [&] {
      if (k.info().waits) Turns(*this, k.stackNeed(), k.info().scratchBytes).run();
      else runRange(begin, end);
    });
    if (!ran) noScratch();
    if (shared) {
      uint64_t end = steadyNs();
      busyNs.fetch_add(end - start, std::memory_order_relaxed);
      if (hooks.pollable() && std::this_thread::get_id() == caller) pollNow(end);
    }
    return code.load(std::memory_order_relaxed) == TEGULA_FAULT_NONE && !noMemory;
  }

  void runRange(int64_t begin, int64_t end) {
    ScratchLease scratch(request.kernel->info().scratchBytes, record.number);
    if (scratch.failed()) return noScratch();
    if (request.hangNs == 0) {
      for (const int64_t piece = aloneAtOnce ? aloneAtOnce : end - begin; begin < end; begin += piece)
        if (!note(enter(begin, std::min(end, begin + piece), scratch.data()))) return;
      return;
    }
    // Small enough for the watchdog to see progress.
    constexpr int64_t piece = 16;
    for (; begin < end; begin += piece)
      if (!runPrograms(begin, std::min(end, begin + piece), scratch.data())) return;
  }

  bool runPrograms(int64_t begin, int64_t end, void *scratch) {
    started.fetch_add(end - begin, std::memory_order_relaxed);
    pieceEnd = end;
    bool good = note(enter(begin, end, scratch));
    over.fetch_add(end - begin, std::memory_order_relaxed);
    moved.fetch_add(1, std::memory_order_relaxed);
    return good;
  }

  /// Records the return code of programs; true if they may continue.
  bool note(int32_t c) {
    if (c == TEGULA_FAULT_NONE) return true;
    // A fault outranks the cancellation that follows from it.
    int32_t none = TEGULA_FAULT_NONE;
    if (!code.compare_exchange_strong(none, c) && none == TEGULA_FAULT_CANCELLED) code = c;
    // Programs still running on other threads need not continue.
    cancel.cancel();
    return false;
  }

  // TurnWork
  bool runOne(void *scratch) override {
    int64_t program = next.fetch_add(1, std::memory_order_relaxed);
    if (program >= request.programs) return false;
    return stopped() ? note(TEGULA_FAULT_CANCELLED) : runPrograms(program, program + 1, scratch);
  }
  bool pending() const override { return !stopped() && next.load(std::memory_order_relaxed) < request.programs; }
  bool stopped() const override { return cancel.word().load(std::memory_order_relaxed) != 0; }
  int64_t finished() const override { return over.load(std::memory_order_relaxed); }
  bool admit() override {
    if (inFlight.fetch_add(1, std::memory_order_relaxed) < static_cast<int64_t>(request.kernel->inFlightLimit()))
      return true;
    dismiss();
    return false;
  }
  void dismiss() override { inFlight.fetch_sub(1, std::memory_order_relaxed); }
  void refuse() override {
    refused = true;
    cancel.cancel();
  }
  void noScratch() override {
    noMemory = true;
    cancel.cancel();
  }

  void poll() override {
    if (stopped()) return;
    if (hooks.pollable() && hooks.interrupted()) cancel.cancel();
    if (request.hangNs) watch();
  }

  /// The time before the first program starts does not count: other launches may have the threads.
  void watch() {
    uint64_t m = moved.load(std::memory_order_relaxed), at = steadyNs();
    if (m != movedThen || movedAt == 0 || started.load(std::memory_order_relaxed) == 0) movedThen = m, movedAt = at;
    else if (at - movedAt >= request.hangNs) {
      hung = true;
      cancel.cancel();
    }
  }

  void pollNow(uint64_t at) {
    if (polledAt == 0) polledAt = at;
    if (at - polledAt < pollNs) return;
    polledAt = at;
    poll();
  }

  Status hangReport() {
    std::sort(hungPrograms.begin(), hungPrograms.end(), [](const HungProgram &a, const HungProgram &b) {
      return std::tie(a.pid[2], a.pid[1], a.pid[0]) < std::tie(b.pid[2], b.pid[1], b.pid[0]);
    });
    return hangStatus(request.kernel->info(), request.hangNs, hungPrograms, request.programs - started.load(), "",
                      outcome);
  }

  Status status() {
    const KernelInfo &info = request.kernel->info();
    int32_t c = code.load();
    if (c != TEGULA_FAULT_NONE && c != TEGULA_FAULT_CANCELLED)
      return Status::error(TEGULA_FAULT, faultText(info, outcome.fault));
    if (noMemory)
      return Status::error(TEGULA_OUT_OF_RESOURCES,
                           "no memory for " + std::to_string(info.scratchBytes) + " bytes of scratch per thread");
    if (refused) {
      uint64_t limit = request.kernel->inFlightLimit();
      return Status::exhausted(
          "programs in flight", static_cast<uint64_t>(request.programs), limit,
          "`" + info.name + "`: programs wait in a loop for programs that have not started; the CPU keeps at most " +
              std::to_string(limit) + " waiting programs of a launch. Launch a smaller grid");
    }
    if (hung && c == TEGULA_FAULT_CANCELLED) return hangReport();
    if (c == TEGULA_FAULT_CANCELLED)
      return Status::error(TEGULA_CANCELLED, "the launch of `" + info.name + "` was cancelled");
    return Status::ok();
  }
};
thread_local int64_t State::pieceEnd = 0;
} // namespace

/// The expected ns of a program in a launch that should try to be alone, on one thread; 0: it should not. `perProgram`:
/// the ns of a program in shared launches (0: not known). A launch is alone only if many threads would not finish
/// sooner at that rate. Other launches may have to wait for each of its calls of the entry, so these are short
/// (`aloneAtOnce`) and call no code that could wait for them. A launch that many threads may speed up tries only if it
/// is short.
static uint64_t nsAlone(const LaunchRequest &request, uint64_t perProgram) {
  const CpuKernel &k = *request.kernel;
  if (!k.hasPlainAtomics.load(std::memory_order_relaxed) || !perProgram || k.info().waits || request.hangNs) return 0;
  for (const SiteInfo &s : k.info().sites)
    if (s.kind == SiteInfo::Kind::Print) return 0;
  const uint64_t alone = k.aloneNs.load(std::memory_order_relaxed),
                 threads = std::max(1u, request.programs == 1 ? 1 : request.threads);
  const uint64_t each = alone ? alone : perProgram;
  const bool isTried = alone || threads == 1 || each * static_cast<uint64_t>(request.programs) < shortNs;
  return isTried && each < shortNs && alone <= perProgram / threads ? each : 0;
}

Status launch(const LaunchRequest &request, ThreadPool &pool, CancelTable &cancelTable, LaunchHooks &hooks,
              LaunchOutcome &outcome) {
  State state(request, cancelTable, hooks, outcome);
  const CpuKernel &k = *request.kernel;
  uint64_t perProgram = k.programNs.load(std::memory_order_relaxed);
  uint64_t expected = perProgram * static_cast<uint64_t>(request.programs);
  bool known = perProgram != 0;
  if (const uint64_t each = nsAlone(request, perProgram)) {
    state.mayBeAlone = true;
    expected = each * static_cast<uint64_t>(request.programs);
    state.aloneAtOnce = static_cast<int64_t>(shortNs / each);
  }
  bool isWorth = !known || expected >= inlineNs;
  unsigned threads =
      state.mayBeAlone || request.programs == 1 || !isWorth || (known && expected < inlineAsleepNs && !pool.isInRow())
          ? 1
          : request.threads;
  // A caller that must poll does not run long work: kernels that wait, whatever their recent time, and everything if it
  // is the watchdog.
  bool isShort = known && !k.info().waits && expected < (request.programs > 1 ? shortNs : shortChunkNs);
  bool callerWorks = request.hangNs == 0 && (!hooks.pollable() || isShort);
  bool inChunks = threads > 1 || !callerWorks || (hooks.pollable() && expected >= shortChunkNs);
  state.shared = inChunks;
  uint64_t start = state.shared ? 0 : steadyNs();
  // In kernels that wait, each thread takes programs one by one.
  int64_t total = k.info().waits ? std::min<int64_t>(threads, request.programs) : request.programs;
  if (inChunks) pool.run(state, total, threads, callerWorks);
  else if (total > 0) state.run(0, total);
  if (threads == 1 && isWorth && request.programs > 1) pool.noteEnd();
  uint64_t each = (state.shared ? state.busyNs.load() : steadyNs() - start) / static_cast<uint64_t>(request.programs);
  std::atomic<uint32_t> &estimate = state.wasAlone && !state.shares ? k.aloneNs : k.programNs;
  estimate.store(static_cast<uint32_t>(std::min<uint64_t>(each + 1, UINT32_MAX)), std::memory_order_relaxed);
  // The thread may have been interrupted when it was alone: tries again some dozens of launches later.
  if (uint32_t alone = k.aloneNs.load(std::memory_order_relaxed); alone && !state.mayBeAlone)
    k.aloneNs.store(alone - alone / 32, std::memory_order_relaxed);
  return state.status();
}

Status checkGrid(const int64_t grid[3], int32_t out[3], int64_t &programs) {
  programs = 1;
  for (int i = 0; i < 3; ++i) {
    if (grid[i] < 0)
      return Status::error(TEGULA_INVALID_ARGUMENT,
                           "grid dimension " + std::to_string(i) + " is negative (" + std::to_string(grid[i]) + ")");
    if (grid[i] > INT32_MAX)
      return Status::error(TEGULA_INVALID_ARGUMENT, "grid dimension " + std::to_string(i) + " is " +
                                                        std::to_string(grid[i]) +
                                                        "; at most 2147483647 programs fit in one dimension");
    out[i] = static_cast<int32_t>(grid[i]);
  }
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) {
    programs = 0;
    return Status::ok();
  }
  if (__builtin_mul_overflow(grid[0] * grid[1], grid[2], &programs) || programs > int64_t(1) << 62)
    return Status::error(TEGULA_INVALID_ARGUMENT, "the grid has more than 2^62 programs");
  return Status::ok();
}

Status gpuGridStatus(const KernelInfo &info, const LaunchCall &call) {
  return Status::error(TEGULA_INVALID_ARGUMENT, "`" + info.name + "`: the grid is " + std::to_string(call.grid[0]) +
                                                    " x " + std::to_string(call.grid[1]) + " x " +
                                                    std::to_string(call.grid[2]) + "; GPUs take at most " +
                                                    std::to_string(INT32_MAX / info.gpu.clusterCtas) +
                                                    " x 65535 x 65535");
}

} // namespace tegula::runtime
