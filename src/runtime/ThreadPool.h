// Threads that share the programs of a grid.
//
// run() splits [0, total) into chunks, which threads take in order, lowest first. So no thread starts program i after a
// program j > i, and the lowest unfinished program is always running: kernels that wait for an earlier program (spin
// locks, chained scans) make progress with any number of threads. Chunks shrink toward the end of the work; those
// longer than sixteen are multiples of sixteen. Any number of threads may call run() at once; they share the workers.
#pragma once
#include "support/Gate.h"
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace tegula::runtime {

/// A range of work. `run` is called with begin < end, from several threads at once; false stops the job: no further
/// chunks are handed out.
struct RangeTask {
  virtual bool run(int64_t begin, int64_t end) = 0;
  /// Called about every 50 ms by the thread in run() while it waits.
  virtual void poll() {}

protected:
  ~RangeTask() = default;
};

class ThreadPool final : ForkReset {
public:
  ThreadPool() = default;
  /// Joins the workers; no run() may be in progress.
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;

  /// Runs `task` over [0, total) with up to `threads` threads (fewer if the system provides no more). Returns when all
  /// chunks that were handed out are done. With `callerWorks` the calling thread is one of them, otherwise it only
  /// waits (but works if not a single worker can be started). Workers are started when first needed.
  void run(RangeTask &task, int64_t total, unsigned threads, bool callerWorks);

  /// Threads of the caller instead of the pool's own: `run` calls task(data, i) once for each i below count and returns
  /// when all calls have returned. Set it before the first run().
  struct Executor {
    void *user = nullptr;
    void (*run)(void *user, uint32_t count, void (*task)(void *data, uint32_t index), void *data) = nullptr;

    /// Calls each(i) once for each i below `items`, on up to `threads` threads, each of which takes the next index when
    /// it is done with one; returns when all calls have returned. Several threads call `each` at once. Requires a
    /// function.
    template <class Each> void share(size_t items, unsigned threads, const Each &each) const {
      struct Shared {
        const Each &each;
        size_t items;
        std::atomic<size_t> next{0};
      } shared{each, items};
      auto some = [](void *data, uint32_t) {
        Shared &s = *static_cast<Shared *>(data);
        for (size_t i; (i = s.next++) < s.items;) s.each(i);
      };
      run(user, static_cast<uint32_t>(std::min<size_t>(threads, items)), some, &shared);
    }
  };
  void runOn(Executor executor) { executor_ = executor; }
  const Executor &executor() const { return executor_; }

  /// Does work that starts now follow the previous work closely? Then workers are still awake, or, once woken, stay
  /// awake for the next one. For an executor's threads: always true.
  bool isInRow() const;
  /// Notes the end of work that was worth sharing, but was not shared.
  void noteEnd();

  /// Cores this process may use: affinity mask, cut down by a cgroup v2 CPU quota. At least 1.
  static unsigned availableCores();
  static constexpr unsigned maxThreads = 1024;

private:
  struct Job;
  void work(const std::stop_token &stop);
  void runElsewhere(Job &job, RangeTask &task, unsigned threads, bool callerWorks);
  unsigned ensureWorkers(unsigned n);
  void finish(Job &job, RangeTask &task, bool worked);
  void unlink(Job &job);
  void afterFork() override;

  std::mutex mutex_;
  std::condition_variable_any wake_;
  Job *first_ = nullptr; // jobs that still want workers, oldest first
  std::atomic<unsigned> jobs_{0}; // their number, for workers that check without the lock
  uint64_t runs_ = 0;              // that wanted workers, ever; guarded by mutex_
  std::vector<std::jthread> workers_;
  std::atomic<uint64_t> rowUntil_{0}; // steady clock, ns: until then workers look for work before they sleep
  Executor executor_;
};

} // namespace tegula::runtime
