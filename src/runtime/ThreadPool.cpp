// One mutex guards the list of jobs; taking a chunk is one atomic exchange without a lock.
//
// Compiled with exceptions, unlike the rest of the layer: std::thread throws if the system has no more threads, and
// that must not end the process. Nothing else here throws except for lack of memory.
#include "runtime/ThreadPool.h"
#include "support/Clock.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <new>
#include <sched.h>
#include <system_error>
#include <unistd.h>

namespace tegula::runtime {

/// How long a thread spins for work before it sleeps. Waking it costs its caller about 15 us and takes effect 30-50 us
/// later (measured on a virtual machine with two cores), and launches of a program in Python are often 100 us apart.
/// Measured by the clock, as one `pause` takes between 10 and 140 cycles.
static constexpr uint64_t lookNs = 200'000;

static void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins until `isOver`, or until `lookNs` have passed.
template <typename F> static void look(F isOver) {
  for (uint64_t end = steadyNs() + lookNs; !isOver() && steadyNs() < end;)
    for (int i = 0; i < 8 && !isOver(); ++i) pause();
}

/// A worker that was woken on the core of the busy caller would wait for its turn there, often for milliseconds, with
/// other cores idle: the system balances more slowly than short launches run. Moves the calling thread off `cpu` if it
/// is there, and restores its affinity mask.
static void leaveCpu(int cpu) {
#if defined(__linux__)
  cpu_set_t allowed, others;
  if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getcpu() != cpu || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return;
  others = allowed;
  CPU_CLR(cpu, &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
  sched_setaffinity(0, sizeof allowed, &allowed);
#else
  (void)cpu;
#endif
}

/// Lives on the stack of the thread in run(); a worker touches it only between taking a slot and leaving (under the
/// mutex).
struct ThreadPool::Job {
  RangeTask *task;
  std::atomic<int64_t> next{0};
  int64_t total;
  unsigned threads;
  int callerCpu = -1;  // the caller's core; -1: it does not work
  unsigned wanted;     // slots for workers not yet taken; guarded by mutex_
  std::atomic<unsigned> inside{0}; // workers in the job; changed under mutex_
  bool done = false;   // all chunks handed out; guarded by mutex_
  std::condition_variable left;
  Job *following = nullptr;

  /// Takes chunks until none is left.
  void drain() {
    int64_t begin = next.load(std::memory_order_relaxed);
    while (begin < total) {
      constexpr int64_t together = 16; // CPU code may run that many tasks as one; larger chunks rarely split them
      int64_t chunk = std::max<int64_t>(1, (total - begin) / (4 * int64_t(threads)));
      if (chunk > together) chunk -= chunk % together;
      if (!next.compare_exchange_weak(begin, begin + chunk, std::memory_order_relaxed)) continue;
      if (!task->run(begin, begin + chunk)) next.store(total, std::memory_order_relaxed);
      begin = next.load(std::memory_order_relaxed);
    }
  }
};

ThreadPool::~ThreadPool() {
  for (std::jthread &t : workers_) t.request_stop();
  wake_.notify_all();
}

void ThreadPool::unlink(Job &job) {
  for (Job **p = &first_; *p; p = &(*p)->following)
    if (*p == &job) {
      *p = job.following;
      jobs_.fetch_sub(1, std::memory_order_relaxed);
      return;
    }
}

void ThreadPool::work(const std::stop_token &stop) {
  std::unique_lock lock(mutex_);
  for (uint64_t seen = 0;;) {
    if (!first_) {
      // Launches come in sequences: the next one may arrive sooner than this thread could wake again. So it spins also
      // when the job that it was woken for is over.
      lock.unlock();
      look([&] { return jobs_.load(std::memory_order_relaxed) != 0 || stop.stop_requested(); });
      lock.lock();
      if (!first_ && !wake_.wait(lock, stop, [&] { return runs_ != seen; })) return;
      seen = runs_;
      if (!first_) continue;
    }
    Job &job = *first_;
    ++job.inside;
    if (--job.wanted == 0) unlink(job);
    lock.unlock();
    leaveCpu(job.callerCpu);
    job.drain();
    lock.lock();
    if (--job.inside == 0) job.left.notify_one();
  }
}

unsigned ThreadPool::ensureWorkers(unsigned n) {
  n = std::min(n, maxThreads);
  while (workers_.size() < n) {
    try {
      workers_.emplace_back([this](const std::stop_token &stop) { work(stop); });
    } catch (const std::system_error &) {
      break;
    }
  }
  return static_cast<unsigned>(std::min<size_t>(workers_.size(), n));
}

void ThreadPool::finish(Job &job, RangeTask &task, bool worked) {
  // Chunks are small at the end: a thread that worked waits less than sleeping and waking would take.
  if (worked) look([&] { return job.inside.load(std::memory_order_acquire) == 0; });
  std::unique_lock lock(mutex_);
  auto idleAndDone = [&] { return job.inside == 0 && job.next.load(std::memory_order_relaxed) >= job.total; };
  while (!idleAndDone()) {
    if (job.left.wait_for(lock, std::chrono::milliseconds(50), idleAndDone)) break;
    lock.unlock();
    task.poll();
    lock.lock();
  }
  // A worker may still find the job in the list: remove it before it is destroyed.
  if (job.wanted) unlink(job);
  noteEnd();
}

bool ThreadPool::isInRow() const { return executor_.run || steadyNs() < rowUntil_.load(std::memory_order_relaxed); }
void ThreadPool::noteEnd() { rowUntil_.store(steadyNs() + lookNs, std::memory_order_relaxed); }

/// The child has the objects but not the threads, and the lock in any state: starts afresh. The vector may be in the
/// middle of growing; it is not accessed again.
void ThreadPool::afterFork() {
  (void)new std::vector<std::jthread>(std::move(workers_));
  new (&mutex_) std::mutex;
  new (&wake_) std::condition_variable_any;
  first_ = nullptr;
  jobs_ = 0;
}

/// The executor's threads drain the job; those that start late find it done. A caller that only waits does so here,
/// while another thread calls the executor.
void ThreadPool::runElsewhere(Job &job, RangeTask &task, unsigned threads, bool callerWorks) {
  auto drain = [](void *data, uint32_t) { static_cast<Job *>(data)->drain(); };
  if (callerWorks) return executor_.run(executor_.user, threads, drain, &job);
  std::mutex mutex;
  std::condition_variable ended;
  bool isOver = false;
  try {
    std::jthread caller([&] {
      executor_.run(executor_.user, threads, drain, &job);
      std::lock_guard lock(mutex);
      isOver = true;
      ended.notify_one();
    });
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, std::chrono::milliseconds(50), [&] { return isOver; })) {
      lock.unlock();
      task.poll();
      lock.lock();
    }
  } catch (const std::system_error &) {
    executor_.run(executor_.user, threads, drain, &job);
  }
}

void ThreadPool::run(RangeTask &task, int64_t total, unsigned threads, bool callerWorks) {
  if (total <= 0) return;
  threads = static_cast<unsigned>(std::clamp<int64_t>(threads, 1, std::min<int64_t>(total, maxThreads)));
  Job job;
  job.task = &task;
  job.total = total;
  job.threads = threads;
  if (threads == 1 && callerWorks) return job.drain();
  if (executor_.run) return runElsewhere(job, task, threads, callerWorks);
  unsigned workers;
  {
    std::lock_guard lock(mutex_);
    workers = ensureWorkers(callerWorks ? threads - 1 : threads);
    if (workers == 0) callerWorks = true;
    job.wanted = workers;
    job.callerCpu = callerWorks ? sched_getcpu() : -1;
    if (workers) {
      Job **last = &first_;
      while (*last) last = &(*last)->following;
      *last = &job;
      jobs_.fetch_add(1, std::memory_order_relaxed);
      ++runs_;
    }
  }
  for (unsigned i = 0; i < workers; ++i) wake_.notify_one();
  if (callerWorks) job.drain();
  finish(job, task, callerWorks);
}

static unsigned cgroupQuota() {
  FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
  if (!f) return 0;
  long long quota = 0, period = 0;
  int n = fscanf(f, "%lld %lld", &quota, &period);
  fclose(f);
  return n == 2 && quota > 0 && period > 0 ? static_cast<unsigned>((quota + period - 1) / period) : 0;
}

unsigned ThreadPool::availableCores() {
  cpu_set_t set;
  unsigned n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : std::thread::hardware_concurrency();
  if (unsigned quota = cgroupQuota()) n = std::min(n, quota);
  return std::max(1u, n);
}

} // namespace tegula::runtime
