// Launching: coverage of the grid, order, faults, cancelling, printing, scratch, waiting, hanging, stacks.
#include "TestObjects.h"
#include "runtime/Launch.h"
#include "runtime/Stack.h"
#include "tegula/runtime.h"
#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <pthread.h>
#include <unistd.h>

using namespace tegula::runtime;

namespace {
struct Hooks final : LaunchHooks {
  std::mutex mutex;
  std::string text;
  std::atomic<int> asked{0};
  int stopAfter = -1; // pollable if not negative
  void print(const std::string &t) override {
    std::lock_guard lock(mutex);
    text += t;
  }
  bool interrupted() override { return ++asked > stopAfter; }
  bool pollable() const override { return stopAfter >= 0; }
};

struct Launcher {
  ThreadPool pool;
  CancelTable cancel;
  Hooks hooks;
  LaunchOutcome outcome;
  uint64_t hangNs = 0;
  Status operator()(const CpuKernel &k, std::array<int64_t, 3> grid, const void *args, unsigned threads = 2) {
    LaunchRequest r;
    if (Status s = checkGrid(grid.data(), r.grid, r.programs); !s) return s;
    r.kernel = &k;
    r.args = args;
    r.threads = threads;
    r.hangNs = hangNs;
    return launch(r, pool, cancel, hooks, outcome);
  }
};
} // namespace

TEST(Launch, EveryProgramOnce) {
  Launcher run;
  auto k = testKernel("count");
  for (std::array<int64_t, 3> grid : {std::array<int64_t, 3>{1, 1, 1}, {100, 1, 1}, {7, 11, 13}, {1, 1, 50000}})
    for (unsigned threads : {1u, 2u, 5u}) {
      std::vector<int32_t> counts(grid[0] * grid[1] * grid[2]);
      int32_t *args = counts.data();
      EXPECT_TRUE(run(*k, grid, &args, threads));
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), static_cast<int>(counts.size()));
      EXPECT_EQ(*std::max_element(counts.begin(), counts.end()), 1);
    }
}

// The first launch says that there is a plain form, the second tries it on one thread.
TEST(Launch, AtomicsArePlainInShortLaunchesThatAreAlone) {
  Launcher run;
  auto k = testKernel("updates");
  int64_t counter = 0, calls = 0, *args[2] = {&counter, &calls};
  EXPECT_TRUE(run(*k, {1000, 1, 1}, args));
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(k->hasPlainAtomics);
  EXPECT_TRUE(run(*k, {1000, 1, 1}, args));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(counter, 2000);
  EXPECT_NE(k->aloneNs, 0u);
  k->aloneNs = 1000'000'000; // long: others would have to wait for it
  EXPECT_TRUE(run(*k, {1000, 1, 1}, args, 1));
  EXPECT_EQ(calls, 1);
  k->aloneNs = 100'000, k->programNs = 1000'000; // a long launch of short programs: in calls of 20 ms
  EXPECT_TRUE(run(*k, {1000, 1, 1}, args, 1));
  EXPECT_EQ(calls, 6);
  k->aloneNs = 0, k->programNs = 1000'000; // not known yet
  EXPECT_TRUE(run(*k, {1000, 1, 1}, args, 1));
  EXPECT_EQ(calls, 56);
  k->aloneNs = 0, k->programNs = 1000'000; // two threads may be faster
  EXPECT_TRUE(run(*k, {1000, 1, 1}, args, 2));
  EXPECT_EQ(calls, 56);
  k->aloneNs = 60, k->programNs = 100; // two threads are faster
  EXPECT_TRUE(run(*k, {1000, 1, 1}, args, 2));
  EXPECT_EQ(calls, 56);
  EXPECT_EQ(counter, 7000);
  // Interrupted when it was alone: tried again after some launches with locks.
  k->aloneNs = 2000'000;
  const int64_t before = calls;
  for (int i = 0; i < 3000 && calls == before; ++i)
    EXPECT_TRUE(run(*k, {1000, 1, 1}, args, 1));
  EXPECT_GT(calls, before);
}

TEST(Launch, AtomicsOfKernelsThatWaitOrPrintAreNeverPlain) {
  KernelInfo waits, prints;
  waits.waits = true;
  prints.sites.emplace_back().kind = SiteInfo::Kind::Print;
  for (const KernelInfo &info : {waits, prints}) {
    Launcher run;
    auto k = testKernel("updates", info);
    int64_t counter = 0, calls = 0, *args[2] = {&counter, &calls};
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(run(*k, {100, 1, 1}, args, 1));
    EXPECT_EQ(calls, 0);
    EXPECT_EQ(counter, 400);
  }
}

TEST(Launch, AtomicsOfLaunchesAtOnceAllCount) {
  auto k = testKernel("updates");
  int64_t counter = 0, calls = 0, *args[2] = {&counter, &calls};
  Launcher launchers[3];
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 400; ++i) EXPECT_TRUE(launchers[t](*k, {500, 1, 1}, args, 1 + t % 2));
      });
  }
  EXPECT_EQ(counter, 3 * 400 * 500);
  EXPECT_GT(calls, 0);
}

TEST(Launch, GridLimits) {
  int32_t out[3];
  int64_t n;
  auto check = [&](int64_t x, int64_t y, int64_t z) {
    int64_t g[3] = {x, y, z};
    return checkGrid(g, out, n);
  };
  EXPECT_TRUE(check(0, 5, 5));
  EXPECT_EQ(n, 0);
  EXPECT_TRUE(check(INT32_MAX, 1, 1));
  EXPECT_EQ(n, INT32_MAX);
  EXPECT_EQ(check(-1, 1, 1).code, TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(check(1, int64_t(1) << 31, 1).code, TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(check(INT32_MAX, INT32_MAX, INT32_MAX).code, TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(check(0, -1, 1).code, TEGULA_INVALID_ARGUMENT);
}

TEST(Launch, WaitingForEarlierProgramsMakesProgress) {
  Launcher run;
  auto k = testKernel("chain");
  for (unsigned threads : {1u, 2u, 4u}) {
    std::vector<int32_t> done(300);
    int32_t *args = done.data();
    EXPECT_TRUE(run(*k, {300, 1, 1}, &args, threads));
  }
}

TEST(Launch, ProgramsThatWaitForOneAnotherAllRun) {
  KernelInfo info;
  info.waits = true;
  info.scratchBytes = 4096;
  auto k = testKernel("meet", info);
  for (unsigned threads : {1u, 2u, 4u})
    for (int64_t programs : {1, 2, 100, 400}) {
      Launcher run;
      int64_t arrived = 0, *args = &arrived;
      Status s = run(*k, {programs, 1, 1}, &args, threads);
      EXPECT_TRUE(s) << s.text;
      EXPECT_EQ(arrived, programs);
    }
}

TEST(Launch, MoreWaitingProgramsThanThereMayBeAreRefused) {
  KernelInfo info;
  info.waits = true;
  info.scratchBytes = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGE_SIZE)) / 8;
  auto k = testKernel("meet", info);
  ASSERT_LE(k->inFlightLimit(), 4u);
  for (unsigned threads : {1u, 2u}) {
    Launcher run;
    int64_t arrived = 0, *args = &arrived;
    Status s = run(*k, {20, 1, 1}, &args, threads);
    EXPECT_EQ(s.code, TEGULA_OUT_OF_RESOURCES) << s.text;
    EXPECT_EQ(s.shortage.required, 20u);
    EXPECT_EQ(s.shortage.limit, k->inFlightLimit());
    EXPECT_NE(s.text.find("`meet`: programs wait in a loop for programs that have not started"), std::string::npos)
        << s.text;
  }
}

TEST(Launch, WaitingProgramsCanBeCancelled) {
  KernelInfo info;
  info.waits = true;
  auto k = testKernel("meet", info);
  for (unsigned threads : {1u, 2u}) {
    Launcher run;
    run.hooks.stopAfter = 1;
    int64_t arrived = -1000, *args = &arrived;
    EXPECT_EQ(run(*k, {50, 1, 1}, &args, threads).code, TEGULA_CANCELLED);
  }
}

TEST(Launch, AHangEndsAndNamesTheLoopAndThePrograms) {
  for (bool waits : {false, true})
    for (unsigned threads : {1u, 2u}) {
      KernelInfo info;
      info.waits = waits;
      info.sites = {{SiteInfo::Kind::Other, "k.py", "stuck", "", 9, 5, -1, false, {}}};
      auto k = testKernel("stuck", info);
      Launcher run;
      run.hangNs = 100'000'000;
      // Those that take turns begin one after the other; else each thread is in its first program.
      struct {
        int64_t begun, least;
      } begun{0, waits ? 30 : threads}, *args = &begun;
      Status s = run(*k, {30, 1, 1}, &args, threads);
      EXPECT_EQ(s.code, TEGULA_FAULT);
      EXPECT_EQ(run.outcome.fault.code, TEGULA_FAULT_HANG);
      EXPECT_EQ(run.outcome.fault.site, 0);
      EXPECT_TRUE(s.text.starts_with(
          "k.py:9:5: error: `stuck` made no progress for 0.1 s; program (0, 0, 0) does not leave this loop"))
          << s.text;
      if (!waits) {
        EXPECT_NE(s.text.find("; " + std::to_string(30 - threads) + " programs have not started"), std::string::npos)
            << s.text;
      }
    }
}

TEST(Launch, TheWatchdogLetsAQuietLaunchEnd) {
  Launcher run;
  run.hangNs = 1'000'000'000'000;
  std::vector<int32_t> counts(1000);
  int32_t *args = counts.data();
  EXPECT_TRUE(run(*testKernel("count"), {1000, 1, 1}, &args));
  EXPECT_EQ(std::count(counts.begin(), counts.end(), 1), 1000);
}

TEST(Launch, HangTextIsShort) {
  KernelInfo info;
  info.name = "k";
  std::vector<HungProgram> programs(12);
  for (int i = 0; i < 12; ++i) programs[i].pid[0] = i;
  LaunchOutcome outcome;
  Status s = hangStatus(info, 2'500'000'000, programs, 3, " on sim", outcome);
  EXPECT_EQ(s.text, "error: `k` made no progress for 2.5 s; program (0, 0, 0) does not leave this loop, nor do (1, 0, "
                    "0), (2, 0, 0), (3, 0, 0), "
                    "(4, 0, 0), (5, 0, 0), (6, 0, 0), (7, 0, 0) and 4 others; 3 programs have not started on sim");
}

namespace {
/// Runs f on a thread with a stack of `bytes`.
template <typename F> void onThread(size_t bytes, F f) {
  pthread_attr_t attr;
  ASSERT_EQ(pthread_attr_init(&attr), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attr, bytes), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attr, [](void *p) -> void * { return (*static_cast<F *>(p))(), nullptr; }, &f), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attr);
}
} // namespace

TEST(Launch, AKernelThatNeedsMoreStackThanTheCallerHas) {
  KernelInfo info;
  info.stackBytes = 260 << 10;
  auto k = testKernel("deep", info);
  onThread(128 << 10, [&] {
    for (unsigned threads : {1u, 2u}) {
      Launcher run;
      std::vector<int32_t> counts(100);
      int32_t *args = counts.data();
      EXPECT_TRUE(run(*k, {100, 1, 1}, &args, threads));
      EXPECT_EQ(std::count(counts.begin(), counts.end(), 1), 100);
    }
  });
}

TEST(Launch, AKernelThatNeedsMoreStackThanAWorkerHas) {
  KernelInfo info;
  info.stackBytes = 64 << 20;
  auto k = testKernel("deep", info);
  Launcher run;
  run.hooks.stopAfter = 1 << 30; // so that workers run it
  std::vector<int32_t> counts(100);
  int32_t *args = counts.data();
  EXPECT_TRUE(run(*k, {100, 1, 1}, &args, 2));
  EXPECT_EQ(std::count(counts.begin(), counts.end(), 1), 100);
}

TEST(Stack, OwnStacksNestAndAreKnown) {
  size_t outer = 0, inner = 0;
  EXPECT_FALSE(stackHolds(size_t(1) << 40));
  ASSERT_TRUE(withStack(size_t(64) << 20, size_t(64) << 20, [&] {
    outer = stackHolds(size_t(32) << 20);
    ASSERT_TRUE(withStack(size_t(64) << 20, size_t(64) << 20, [&] { inner = stackHolds(size_t(32) << 20); }));
    outer += stackHolds(size_t(32) << 20);
  }));
  EXPECT_EQ(outer, 2u);
  EXPECT_EQ(inner, 1u);
  EXPECT_TRUE(stackHolds(1024));
}

TEST(Launch, FaultNamesEverything) {
  KernelInfo info;
  info.args.push_back({"x", TEGULA_FP32, true, true, false, 0});
  info.sites.resize(2);
  info.sites[1] = {SiteInfo::Kind::Load, "k.py", "faulty", "", 12, 9, 0, false, {}};
  auto k = testKernel("faulty", info);
  for (unsigned threads : {1u, 3u}) {
    Launcher run;
    Status s = run(*k, {100, 1, 1}, nullptr, threads);
    EXPECT_EQ(s.code, TEGULA_FAULT);
    EXPECT_EQ(s.text, "k.py:12:9: error: out-of-bounds load through argument `x`: byte offset -4, buffer of 400 bytes"
                      " in program (37, 0, 0) of `faulty`");
    EXPECT_EQ(run.outcome.fault.pid[0], 37);
  }
}

TEST(Launch, FaultOfAnUnknownSiteIsStillText) {
  TegulaCpuFault f{1, TEGULA_FAULT_ASSERT, 99, {1, 2, 3}, 0, 0};
  KernelInfo info;
  info.name = "k";
  EXPECT_EQ(faultText(info, f), "error: device-side assertion failed in program (1, 2, 3) of `k`");
}

TEST(Launch, CancelFromAnotherThread) {
  auto k = testKernel("forever");
  for (unsigned threads : {1u, 2u}) {
    Launcher run;
    std::jthread canceller([&](std::stop_token stop) {
      while (!stop.stop_requested()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        run.cancel.cancelAll();
      }
    });
    EXPECT_EQ(run(*k, {4, 1, 1}, nullptr, threads).code, TEGULA_CANCELLED);
  }
}

TEST(Launch, CancelByPolling) {
  auto k = testKernel("forever");
  for (unsigned threads : {1u, 2u}) {
    Launcher run;
    run.hooks.stopAfter = 1;
    EXPECT_EQ(run(*k, {1, 1, 1}, nullptr, threads).code, TEGULA_CANCELLED);
    EXPECT_EQ(run.hooks.asked, 2);
  }
  // A cancelled launch leaves nothing after for the next one.
  Launcher run;
  EXPECT_TRUE(run(*testKernel("empty"), {4, 1, 1}, nullptr));
}

// A launch taken for a short one is worked on by the calling thread; if it turns out to be long it can be interrupted
// all the same.
TEST(Launch, WorkingCallerPollsBetweenChunks) {
  auto k = testKernel("busy");
  for (unsigned threads : {1u, 2u}) {
    k->programNs = 1000;
    Launcher run;
    run.hooks.stopAfter = 0;
    struct {
      pthread_t (*self)();
      pthread_t caller;
      int64_t given;
    } shared{pthread_self, pthread_self(), 0}, *args = &shared;
    EXPECT_EQ(run(*k, {4000, 1, 1}, &args, threads).code, TEGULA_CANCELLED);
    EXPECT_GE(run.hooks.asked, 1);
    EXPECT_LT(shared.given, 4000) << "it polled only when all was done";
  }
}

// On one thread, too: waking another one for it, and being woken by it, took 11 us.
TEST(Launch, ShortLaunchesOnOneThreadAreTheCallers) {
  auto k = testKernel("busy"); // never ends on another thread
  k->programNs = 100'000;
  Launcher run;
  run.hooks.stopAfter = 40;
  struct {
    pthread_t (*self)();
    pthread_t caller;
    int64_t given;
  } shared{pthread_self, pthread_self(), 0}, *args = &shared;
  EXPECT_TRUE(run(*k, {20, 1, 1}, &args, 1));
  EXPECT_EQ(shared.given, 20);
}

TEST(Launch, Printing) {
  KernelInfo info;
  info.sites.push_back({SiteInfo::Kind::Print, "k.py", "printer", "v", 1, 1, -1, false, {{TEGULA_INT32, false, {4}}}});
  Launcher run;
  EXPECT_TRUE(run(*testKernel("printer", info), {2, 1, 1}, nullptr, 1));
  EXPECT_EQ(run.hooks.text, "pid (0, 0, 0) idx (0) v: 0\npid (0, 0, 0) idx (1) v: -1\npid (0, 0, 0) idx (2) v: 2\n"
                            "pid (0, 0, 0) idx (3) v: 3\npid (1, 0, 0) idx (0) v: 1\npid (1, 0, 0) idx (1) v: -1\n"
                            "pid (1, 0, 0) idx (2) v: 2\npid (1, 0, 0) idx (3) v: 3\n");
}

TEST(Launch, ScratchIsPrivateAndAligned) {
  KernelInfo info;
  info.scratchBytes = 8192;
  auto k = testKernel("scratchy", info);
  Launcher run;
  int32_t bad = 0, *args = &bad;
  EXPECT_TRUE(run(*k, {500, 1, 1}, &args, 4));
  EXPECT_EQ(bad, 0);
}

// Packed tiles stay in scratch for the calls of one launch (CpuAbi.h), and for those only.
TEST(Launch, ScratchIsAsTheLaunchLeftIt) {
  KernelInfo info;
  info.scratchBytes = 8192;
  auto keeper = testKernel("keeper", info), scratchy = testKernel("scratchy", info);
  Launcher run;
  run.hangNs = 3600'000'000'000; // several calls
  int64_t seen[4] = {}, *args = seen;
  for (int i = 1; i < 4; ++i) {
    EXPECT_TRUE(run(*keeper, {160, 1, 1}, &args, 1));
    EXPECT_GT(seen[3], i);
    EXPECT_EQ(seen[0], seen[3] - i); // all calls but the first
  }
  const int64_t found = seen[0];
  for (seen[2] = 1; seen[2] < 4; ++seen[2]) // what looks like the number of a launch to come is not
    EXPECT_TRUE(run(*keeper, {1, 1, 1}, &args, 1));
  EXPECT_EQ(seen[0], found);
  seen[2] = 0;
  {
    std::vector<std::jthread> callers;
    for (int t = 0; t < 4; ++t)
      callers.emplace_back([&] {
        LaunchOutcome outcome;
        int32_t bad = 0, *other = &bad;
        for (int i = 0; i < 50; ++i) {
          LaunchRequest r;
          const int64_t grid[3] = {200, 1, 1};
          EXPECT_TRUE(checkGrid(grid, r.grid, r.programs));
          r.kernel = (i % 3 ? keeper : scratchy).get(), r.args = i % 3 ? static_cast<const void *>(&args) : &other,
          r.threads = 3;
          EXPECT_TRUE(launch(r, run.pool, run.cancel, run.hooks, outcome));
        }
        EXPECT_EQ(bad, 0);
      });
  }
  EXPECT_EQ(seen[1], 0);
}

TEST(Launch, ImpossibleScratchIsAnError) {
  KernelInfo info;
  info.scratchBytes = ~uint64_t(0);
  Launcher run;
  EXPECT_EQ(run(*testKernel("empty", info), {4, 1, 1}, nullptr).code, TEGULA_OUT_OF_RESOURCES);
}

TEST(Launch, ManyThreadsAtOnce) {
  Launcher run;
  auto k = testKernel("count");
  std::atomic<int> bad{0};
  {
    std::vector<std::jthread> callers;
    for (int t = 0; t < 8; ++t)
      callers.emplace_back([&] {
        LaunchOutcome outcome;
        for (int i = 0; i < 200; ++i) {
          std::vector<int32_t> counts(64);
          int32_t *args = counts.data();
          LaunchRequest r;
          r.kernel = k.get(), r.args = &args, r.threads = 2, r.programs = 64, r.grid[0] = 64;
          bad += !launch(r, run.pool, run.cancel, run.hooks, outcome);
          for (int32_t c : counts) bad += c != 1;
        }
      });
  }
  EXPECT_EQ(bad, 0);
}

TEST(Launch, AheadOfTimeInterface) {
  auto k = testKernel("add");
  std::vector<float> x(1000, 1.5f), y(1000, 2.0f), out(1000);
  struct {
    float *x, *y, *out;
    int32_t n, block;
  } args = {x.data(), y.data(), out.data(), 1000, 64};
  TegulaRuntime *rt;
  ASSERT_EQ(tegula_runtime_create(2, &rt), TEGULA_OK);
  int64_t grid[3] = {16, 1, 1}, wrong[3] = {-1, 1, 1};
  EXPECT_EQ(tegula_runtime_run(rt, k->entry(), &args, 0, grid, 0, nullptr), TEGULA_OK);
  EXPECT_EQ(tegula_runtime_run(rt, k->entry(), &args, 0, wrong, 0, nullptr), TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(std::count(out.begin(), out.end(), 3.5f), 1000);
  tegula_runtime_destroy(rt);
}
