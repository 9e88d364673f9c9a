// The pool: every item once, from any number of threads, also after a fork.
#include "runtime/ThreadPool.h"
#include <atomic>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tegula::runtime;

namespace {
struct Count final : RangeTask {
  std::vector<std::atomic<int>> hits;
  explicit Count(size_t n) : hits(n) {}
  bool run(int64_t begin, int64_t end) override {
    for (int64_t i = begin; i < end; ++i) ++hits[i];
    return true;
  }
  bool allOnce() const {
    for (auto &h : hits)
      if (h != 1) return false;
    return true;
  }
};
} // namespace

TEST(ThreadPool, EveryItemOnce) {
  ThreadPool pool;
  for (unsigned threads : {1u, 2u, 3u, 8u, 5000u})
    for (int64_t total : {0, 1, 2, 7, 1000, 100003})
      for (bool callerWorks : {true, false}) {
        Count c(total);
        pool.run(c, total, threads, callerWorks);
        EXPECT_TRUE(c.allOnce()) << threads << " threads, " << total << " items";
      }
}

// CPU code runs up to sixteen programs in a row as one (targets/cpu/rewrite/ProgramsAsLanes.h).
TEST(ThreadPool, LongChunksBeginAtMultiplesOfSixteen) {
  ThreadPool pool;
  struct Chunks final : RangeTask {
    std::atomic<int> longOnes{0}, cut{0};
    bool run(int64_t begin, int64_t end) override {
      if (end - begin > 16) ++longOnes, cut += begin % 16 != 0 || (end - begin) % 16 != 0;
      return true;
    }
  };
  for (unsigned threads : {1u, 3u}) {
    Chunks c;
    pool.run(c, 1003, threads, true);
    EXPECT_GT(c.longOnes, 0);
    EXPECT_EQ(c.cut, 0) << threads << " threads";
  }
}

TEST(ThreadPool, ManyCallersShareIt) {
  ThreadPool pool;
  std::atomic<int> bad{0};
  {
    std::vector<std::jthread> callers;
    for (int t = 0; t < 8; ++t)
      callers.emplace_back([&, t] {
        for (int i = 0; i < 100; ++i) {
          Count c(17 * t + i + 1);
          pool.run(c, static_cast<int64_t>(c.hits.size()), 1 + (t + i) % 4, i % 3 != 0);
          bad += !c.allOnce();
        }
      });
  }
  EXPECT_EQ(bad, 0);
}

TEST(ThreadPool, FalseStopsTheJob) {
  ThreadPool pool;
  struct Stops final : RangeTask {
    std::atomic<bool> stopped{false};
    std::thread::id stopper; // set before `stopped`
    std::atomic<int> more{0};
    bool run(int64_t begin, int64_t) override {
      if (begin == 0) {
        stopper = std::this_thread::get_id();
        stopped = true;
        return false;
      }
      // Nothing says when the pool has heard of it; the thread that it heard it from gets no further chunk.
      while (!stopped) usleep(1000);
      more += stopper == std::this_thread::get_id();
      return true;
    }
  } task;
  pool.run(task, 1'000'000, 2, true);
  EXPECT_EQ(task.more, 0);
}

TEST(ThreadPool, RunsInsideARun) {
  ThreadPool pool;
  struct Outer final : RangeTask {
    ThreadPool &pool;
    std::atomic<int> good{0};
    explicit Outer(ThreadPool &p) : pool(p) {}
    bool run(int64_t begin, int64_t end) override {
      for (int64_t i = begin; i < end; ++i) {
        Count c(50);
        pool.run(c, 50, 3, true);
        good += c.allOnce();
      }
      return true;
    }
  } outer(pool);
  pool.run(outer, 20, 4, true);
  EXPECT_EQ(outer.good, 20);
}

TEST(ThreadPool, WaitingCallerPolls) {
  ThreadPool pool;
  struct Slow final : RangeTask {
    std::atomic<int> polls{0};
    bool run(int64_t, int64_t) override {
      while (polls == 0) usleep(1000);
      return true;
    }
    void poll() override { ++polls; }
  } slow;
  pool.run(slow, 1, 1, false);
  EXPECT_GE(slow.polls, 1);
}

TEST(ThreadPool, WorkingCallerPollsWhileItWaits) {
  ThreadPool pool;
  struct Slow final : RangeTask {
    std::thread::id caller = std::this_thread::get_id();
    std::atomic<bool> workerIsIn{false};
    std::atomic<int> polls{0};
    bool run(int64_t, int64_t) override {
      if (std::this_thread::get_id() == caller) {
        while (!workerIsIn) usleep(1000);
      } else {
        workerIsIn = true;
        while (polls == 0) usleep(1000);
      }
      return true;
    }
    void poll() override { ++polls; }
  } slow;
  pool.run(slow, 2, 2, true);
  EXPECT_GE(slow.polls, 1);
}

#if !defined(__SANITIZE_THREAD__) && !(defined(__has_feature) && __has_feature(thread_sanitizer))
TEST(ThreadPool, WorksInAForkedChild) {
  ThreadPool pool;
  Count before(1000);
  pool.run(before, 1000, 4, true);
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    Count c(1000);
    pool.run(c, 1000, 4, false);
    _exit(c.allOnce() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}
#endif
