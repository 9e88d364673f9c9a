// fork() and exit() wait for sections, and for nothing else.
#include "support/Gate.h"
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <mutex>
#include <new>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace tegula;

namespace {
/// Runs `body` in a forked child; its exit status.
template <typename Body> int inChild(Body &&body) {
  pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    _exit(body());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
}
} // namespace

TEST(Gate, ForkWaitsForWhoIsInside) {
  std::mutex guarded;
  std::atomic<bool> stop{false};
  std::atomic<int> rounds{0};
  std::jthread worker([&] {
    while (!stop) {
      GateSection section;
      GateSection nested;
      std::lock_guard lock(guarded);
      ++rounds;
    }
  });
  while (rounds == 0) std::this_thread::yield();
  for (int i = 0; i < 200; ++i)
    ASSERT_EQ(inChild([&] { return guarded.try_lock() ? 7 : 1; }), 7) << i;
  stop = true;
}

TEST(Gate, APauseLetsForkPass) {
  std::atomic<int> step{0};
  std::jthread worker([&] {
    GateSection section;
    GatePause pause;
    step = 1;
    while (step != 2) std::this_thread::yield();
  });
  while (step != 1) std::this_thread::yield();
  EXPECT_EQ(inChild([] {
    GateSection section; // open in the child
    return 7;
  }), 7);
  step = 2;
}

TEST(Gate, AThreadInsideMayForkAndExit) {
  GateSection section;
  EXPECT_EQ(inChild([] {
    GateSection nested;
    exit(7);
    return 1;
  }), 7);
}

TEST(Gate, ObjectsStartAfreshInTheChild) {
  struct Reset final : ForkReset {
    int count = 0;
    void afterFork() override { ++count; }
  };
  Reset first;
  {
    Reset gone;
  }
  Reset second;
  unsigned before = forkGeneration();
  EXPECT_EQ(inChild([&] { return first.count * 10 + second.count + (forkGeneration() == before + 1 ? 100 : 0); }), 111);
  EXPECT_EQ(first.count, 0);
  EXPECT_EQ(forkGeneration(), before);
}

/// exit() with a thread inside: it is let finish, and does not come in again.
TEST(Gate, ExitWaitsForWhoIsInside) {
  EXPECT_EQ(inChild([] {
    static std::atomic<int> step{0};
    std::thread([] {
      for (;;) {
        GateSection section;
        if (step == 0) step = 1;
        std::this_thread::yield();
      }
    }).detach();
    while (step == 0) std::this_thread::yield();
    // Runs after the gate's own handler, which was registered later.
    exit(7);
    return 1;
  }), 7);
}

/// A thread that comes with a lock which the end of the process needs gives it up.
TEST(Gate, WhoComesAfterTheEndGivesUpItsLocks) {
  EXPECT_EQ(inChild([] {
    static std::mutex needed;
    static std::atomic<bool> begun{false};
    std::thread([] {
      for (;;) {
        std::lock_guard lock(needed);
        GateSection section;
        begun = true;
      }
    }).detach();
    while (!begun) std::this_thread::yield();
    closeGateForExit([] { needed.unlock(); });
    for (int i = 0; i < 20; ++i) { // the thread must have been there
      needed.lock();
      needed.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return 7;
  }), 7);
}
