// The launch path. Kept lean: an empty kernel with one program costs two clock reads, one exchange and the call.
#include "runtime/Cancel.h"
#include "runtime/Print.h"
#include "runtime/Scratch.h"
#include <algorithm>
#include <chrono>
#include <thread>

namespace tegula::runtime {

/// Below this, waking a worker costs more than it brings.
static constexpr uint64_t inlineNs = 10'000;
/// Launches expected to be shorter than this (in time of all threads) are not handed to workers just to stay interruptible: the
/// calling thread works, and polls between its chunks. Of longer ones, and of new kernels, it runs nothing, as a program
/// may never end. Alone it has one chunk only, so that it gives away more.
static constexpr uint64_t shortNs = 20'000'000, shortAloneNs = 200'000;
static constexpr uint64_t pollNs = 50'000'000;

void CancelTable::cancelAll() {
  for (Slot &s : slots_) {
    int32_t running = 0;
    s.word.compare_exchange_strong(running, 1, std::memory_order_relaxed);
  }
}

static uint64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

namespace {
struct State final : RangeTask {
  const LaunchRequest &request;
  LaunchHooks &hooks;
  LaunchOutcome &outcome;
  CancelWord cancel;
  TegulaCpuLaunch record{};
  std::atomic<int32_t> code{TEGULA_FAULT_NONE};
  std::atomic<bool> noMemory{false};
  bool shared = false; // by several threads: time spent in programs is summed up, without what waking them took
  std::atomic<uint64_t> busyNs{0};
  const std::thread::id caller = std::this_thread::get_id();
  uint64_t polledAt = 0; // the caller's own

  State(const LaunchRequest &r, CancelTable &table, LaunchHooks &h, LaunchOutcome &o)
      : request(r), hooks(h), outcome(o), cancel(table) {
    for (int i = 0; i < 3; ++i) record.grid[i] = r.grid[i];
    record.cancel = cancel.address();
    record.fault = &o.fault;
    record.extents = r.extents;
    record.print = &State::print;
    record.user = this;
    record.clock = [] { return static_cast<int64_t>(now()); };
  }

  static void print(const TegulaCpuLaunch *launch, int32_t site, int32_t operand, const int32_t pid[3], const void *data,
                    int64_t count) {
    auto *self = static_cast<State *>(launch->user);
    const auto &sites = self->request.kernel->info().sites;
    if (site >= 0 && static_cast<size_t>(site) < sites.size())
      self->hooks.print(printText(sites[site], operand, pid, data, count));
  }

  bool run(int64_t begin, int64_t end) override {
    ScratchLease scratch(request.kernel->info().scratchBytes);
    if (scratch.failed()) {
      noMemory = true;
      return false;
    }
    uint64_t start = shared ? now() : 0;
    int32_t c = request.kernel->entry()(request.args, &record, begin, end, scratch.data());
    if (shared) {
      uint64_t end = now();
      busyNs.fetch_add(end - start, std::memory_order_relaxed);
      if (hooks.pollable() && std::this_thread::get_id() == caller) pollNow(start, end);
    }
    if (c == TEGULA_FAULT_NONE) return true;
    // A fault outranks the cancellation that follows from it.
    int32_t none = TEGULA_FAULT_NONE;
    if (!code.compare_exchange_strong(none, c) && none == TEGULA_FAULT_CANCELLED) code = c;
    // Programs still running on other threads need not go on.
    cancel.cancel();
    return false;
  }

  void poll() override {
    if (hooks.pollable() && hooks.interrupted()) cancel.cancel();
  }

  void pollNow(uint64_t start, uint64_t end) {
    if (polledAt == 0) polledAt = start;
    if (end - polledAt < pollNs) return;
    polledAt = end;
    poll();
  }
};
} // namespace

Status launch(const LaunchRequest &request, ThreadPool &pool, CancelTable &cancelTable, LaunchHooks &hooks,
              LaunchOutcome &outcome) {
  State state(request, cancelTable, hooks, outcome);
  const CpuKernel &k = *request.kernel;
  uint64_t perProgram = k.programNs.load(std::memory_order_relaxed);
  uint64_t expected = perProgram * static_cast<uint64_t>(request.programs);
  bool known = perProgram != 0;
  unsigned threads = request.programs == 1 || (known && expected < inlineNs) ? 1 : request.threads;
  bool callerWorks = !hooks.pollable() || (known && expected < (threads > 1 ? shortNs : shortAloneNs));
  state.shared = threads > 1 || !callerWorks;
  uint64_t start = state.shared ? 0 : now();
  pool.run(state, request.programs, threads, callerWorks);
  uint64_t each = (state.shared ? state.busyNs.load() : now() - start) / static_cast<uint64_t>(request.programs);
  k.programNs.store(static_cast<uint32_t>(std::min<uint64_t>(each + 1, UINT32_MAX)), std::memory_order_relaxed);

  if (state.noMemory)
    return Status::error(TEGULA_OUT_OF_RESOURCES, "no memory for " + std::to_string(k.info().scratchBytes) +
                                                      " bytes of scratch per thread");
  switch (state.code.load()) {
  case TEGULA_FAULT_NONE: break;
  case TEGULA_FAULT_CANCELLED: return Status::error(TEGULA_CANCELLED, "the launch of `" + k.info().name + "` was cancelled");
  default: return Status::error(TEGULA_FAULT, faultText(k.info(), outcome.fault));
  }
  return Status::ok();
}

Status checkGrid(const int64_t grid[3], int32_t out[3], int64_t &programs) {
  programs = 1;
  for (int i = 0; i < 3; ++i) {
    if (grid[i] < 0)
      return Status::error(TEGULA_INVALID_ARGUMENT,
                           "grid dimension " + std::to_string(i) + " is negative (" + std::to_string(grid[i]) + ")");
    if (grid[i] > INT32_MAX)
      return Status::error(TEGULA_INVALID_ARGUMENT, "grid dimension " + std::to_string(i) + " is " + std::to_string(grid[i]) +
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

static std::string pidText(const int32_t pid[3]) {
  return "(" + std::to_string(pid[0]) + ", " + std::to_string(pid[1]) + ", " + std::to_string(pid[2]) + ")";
}

static const SiteInfo &siteInfo(const KernelInfo &info, int32_t site) {
  static const SiteInfo unknown;
  return site >= 0 && static_cast<size_t>(site) < info.sites.size() ? info.sites[site] : unknown;
}

Status hangStatus(const KernelInfo &info, uint64_t hangNs, std::span<const HungProgram> programs, int64_t notStarted, const std::string &device,
                  LaunchOutcome &outcome) {
  constexpr size_t told = 8;
  HungProgram first = programs.empty() ? HungProgram() : programs.front();
  outcome.fault = {1, TEGULA_FAULT_HANG, first.site, {first.pid[0], first.pid[1], first.pid[2]}, 0, 0};
  char seconds[32];
  snprintf(seconds, sizeof seconds, "%g", static_cast<double>(hangNs) * 1e-9);
  std::string text = placeText(siteInfo(info, first.site)) + "error: `" + info.name + "` made no progress for " + seconds + " s";
  if (!programs.empty()) text += "; program " + pidText(first.pid) + " does not leave this loop";
  for (size_t i = 1; i < std::min(programs.size(), told); ++i) {
    std::string place = placeText(siteInfo(info, programs[i].site));
    text += (i == 1 ? ", nor do " : ", ") + pidText(programs[i].pid) + (place.empty() ? "" : " at " + place.substr(0, place.size() - 2));
  }
  if (programs.size() > told) text += " and " + std::to_string(programs.size() - told) + " others";
  if (notStarted > 0) text += "; " + std::to_string(notStarted) + " programs have not started";
  return Status::error(TEGULA_FAULT, text + device);
}

std::string placeText(const SiteInfo &s) {
  if (s.file.empty()) return "";
  return s.file + ":" + std::to_string(s.line) + ":" + std::to_string(s.column) + ": ";
}

std::string faultText(const KernelInfo &info, const TegulaCpuFault &f) {
  const SiteInfo &s = siteInfo(info, f.site);
  std::string where = " in program " + pidText(f.pid) + " of `" + info.name + "`";
  if (!s.function.empty() && s.function != info.name) where += ", function `" + s.function + "`";
  if (f.code == TEGULA_FAULT_ASSERT)
    return placeText(s) + "error: device assertion failed" + (s.text.empty() ? "" : ": " + s.text) + where;
  static constexpr const char *verbs[] = {"access", "load", "store", "atomic", "access", "access"};
  std::string what = verbs[static_cast<int>(s.kind)];
  std::string through =
      s.arg >= 0 && static_cast<size_t>(s.arg) < info.args.size() ? " through argument `" + info.args[s.arg].name + "`" : "";
  std::string numbers = ": byte offset " + std::to_string(f.index) + ", buffer of " + std::to_string(f.extent) + " bytes";
  if (f.extent < 0) {
    char address[32];
    snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(f.index));
    numbers = std::string(": address ") + address +
              " is in no buffer of this launch; the pointer was loaded from memory or made otherwise, not derived from one argument";
  }
  bool bounds = f.code == TEGULA_FAULT_BOUNDS;
  return placeText(s) + "error: " + (bounds ? "out-of-bounds " : "misaligned ") + what + through + numbers + where;
}

} // namespace tegula::runtime
