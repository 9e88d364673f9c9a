#include "tune/CompileAhead.h"
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <pthread.h>

namespace tegula::tune {

using SteadyClock = std::chrono::steady_clock;

namespace {
/// State shared by the threads and the thread that waits for them; the last one frees it.
struct Work {
  std::shared_ptr<Subject> subject;
  std::vector<size_t> wanted;
  std::mutex mutex;
  std::condition_variable changed;
  size_t next = 0; // of wanted
  struct Item {
    SteadyClock::time_point begun{};
    bool started = false, done = false, late = false;
    Compiled result;
  };
  std::vector<Item> items; // one for each of wanted

  void compileSome() {
    std::unique_lock lock(mutex);
    while (next < wanted.size()) {
      size_t at = next++;
      items[at].started = true;
      items[at].begun = SteadyClock::now();
      lock.unlock();
      Compiled c = subject->compile(wanted[at]);
      lock.lock();
      // No thread waits for this one any more: another one replaced it.
      if (items[at].late) return;
      items[at].result = std::move(c);
      items[at].done = true;
      changed.notify_all();
    }
  }
};

extern "C" void *compileEntry(void *p) {
  std::unique_ptr<std::shared_ptr<Work>> work(static_cast<std::shared_ptr<Work> *>(p));
  (*work)->compileSome();
  return nullptr;
}
} // namespace

/// False: no further thread could be started.
static bool startThread(const std::shared_ptr<Work> &work) {
  auto own = std::make_unique<std::shared_ptr<Work>>(work);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, compileEntry, own.get()) != 0) return false;
  own.release();
  pthread_detach(thread);
  return true;
}

static Compiled tooLate(double timeoutNs) {
  Compiled c;
  c.status = runtime::Status::error(TEGULA_OUT_OF_RESOURCES, "took more than " +
                                                                 std::to_string(static_cast<int64_t>(timeoutNs / 1e9)) +
                                                                 " s to compile");
  c.skip = true;
  return c;
}

/// Compiles on the threads of an executor; they end when everything is compiled.
static std::vector<Compiled> compileElsewhere(Subject &subject, const std::vector<size_t> &wanted, unsigned threads,
                                              double timeoutNs, const runtime::ThreadPool::Executor &executor) {
  std::vector<Compiled> out(subject.count());
  executor.share(wanted.size(), threads, [&](size_t at) {
    auto begun = SteadyClock::now();
    Compiled c = subject.compile(wanted[at]);
    bool isLate = std::chrono::duration<double, std::nano>(SteadyClock::now() - begun).count() > timeoutNs;
    out[wanted[at]] = isLate ? tooLate(timeoutNs) : std::move(c);
  });
  return out;
}

std::vector<Compiled> compileAhead(const std::shared_ptr<Subject> &subject, const std::vector<size_t> &wanted,
                                   unsigned threads, double timeoutNs, const runtime::ThreadPool::Executor &executor) {
  std::vector<Compiled> out(subject->count());
  if (wanted.size() < 2 || !threads) { // a single configuration has no alternative, however long it takes
    for (size_t i : wanted) out[i] = subject->compile(i);
    return out;
  }
  if (executor.run) return compileElsewhere(*subject, wanted, threads, timeoutNs, executor);
  auto work = std::make_shared<Work>();
  work->subject = subject;
  work->wanted = wanted;
  work->items.resize(wanted.size());
  unsigned started = 0;
  while (started < threads && started < wanted.size() && startThread(work)) ++started;
  if (!started) work->compileSome();
  auto timeout = std::chrono::nanoseconds(static_cast<int64_t>(timeoutNs));
  std::unique_lock lock(work->mutex);
  for (size_t at = 0; at < wanted.size(); ++at) {
    Work::Item &item = work->items[at];
    while (!item.done && !item.late) {
      auto deadline = item.started ? item.begun + timeout : SteadyClock::now() + timeout;
      work->changed.wait_until(lock, deadline);
      for (Work::Item &other : work->items) {
        if (!other.started || other.done || other.late || SteadyClock::now() < other.begun + timeout) continue;
        other.late = true;
        lock.unlock();
        bool more = startThread(work); // replaces the stuck one
        lock.lock();
        if (!more) work->next = wanted.size();
      }
      if (!item.started && work->next >= wanted.size()) break;
    }
    if (item.done) {
      out[wanted[at]] = std::move(item.result);
      continue;
    }
    out[wanted[at]] = tooLate(timeoutNs);
  }
  return out;
}

} // namespace tegula::tune
