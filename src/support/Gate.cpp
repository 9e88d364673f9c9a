// One mutex, held across fork(), a count of the threads inside, and the list of objects that start afresh in the child.
#include "support/Gate.h"
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <pthread.h>
#include <unistd.h>

namespace tegula {

/// The nesting depth of this thread's sections.
static thread_local unsigned depth = 0;
/// This thread called exit(): its destructors and exit handlers are not blocked.
static thread_local bool exiting = false;
static std::atomic<unsigned> generation{0};

struct GateState {
  std::mutex mutex;
  std::condition_variable changed;
  unsigned inside = 0; // threads
  bool closed = false; // for fork() or, in the end, exit()
  bool forGood = false; // for exit()
  void (*beforeSleep)() = nullptr; // called by threads that arrive after it is closed for good
  ForkReset *first = nullptr;

  GateState();

  void enter() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !closed || exiting || forGood; });
    if (forGood && !exiting) sleepForGood(lock);
    ++inside;
  }
  [[noreturn]] void sleepForGood(std::unique_lock<std::mutex> &lock) {
    auto *f = beforeSleep;
    lock.unlock();
    if (f) f();
    for (;;) pause();
  }
  void leave() {
    std::lock_guard lock(mutex);
    if (--inside <= 1 && closed) changed.notify_all();
  }
  /// Waits until no other thread is inside, and admits none. The calling thread may be inside.
  void close(std::unique_lock<std::mutex> &lock) {
    if (exiting) return;
    changed.wait(lock, [&] { return !closed; });
    closed = true;
    unsigned mine = depth ? 1 : 0;
    changed.wait(lock, [&] { return inside == mine; });
  }
  void open() {
    closed = exiting;
    changed.notify_all();
  }

  void add(ForkReset &r) {
    std::lock_guard lock(mutex);
    r.next_ = first;
    if (first) first->previous_ = &r;
    first = &r;
  }
  void remove(ForkReset &r) {
    std::lock_guard lock(mutex);
    (r.previous_ ? r.previous_->next_ : first) = r.next_;
    if (r.next_) r.next_->previous_ = r.previous_;
  }
  void resetAll() {
    for (ForkReset *r = first; r; r = r->next_) r->afterFork();
  }
};

/// Never destroyed: threads may be about to enter when the process ends.
static GateState &gate() {
  static auto *state = new GateState;
  return *state;
}

static void beforeFork() {
  std::unique_lock lock(gate().mutex);
  gate().close(lock);
  (void)lock.release(); // the handlers below unlock it
}

static void inParent() {
  gate().open();
  gate().mutex.unlock();
}

static void inChild() {
  GateState &g = gate();
  new (&g.changed) std::condition_variable; // threads that waited for the old one do not exist in the child
  generation.fetch_add(1, std::memory_order_relaxed);
  g.closed = exiting;
  g.inside = depth ? 1 : 0;
  g.mutex.unlock();
  g.resetAll();
}

void closeGateForExit(void (*beforeSleep)()) {
  GateState &g = gate();
  std::unique_lock lock(g.mutex);
  if (exiting) return;
  g.forGood = true;
  if (beforeSleep) g.beforeSleep = beforeSleep;
  g.changed.notify_all(); // threads that wait for the end of a fork() recheck
  g.close(lock);
  exiting = true;
}

void closeGateAtExit() {
  std::atexit([] { closeGateForExit(nullptr); });
}

GateState::GateState() {
  pthread_atfork(beforeFork, inParent, inChild);
  closeGateAtExit();
}

GateSection::GateSection() {
  if (depth == 0) gate().enter();
  ++depth;
}

GateSection::~GateSection() {
  if (--depth == 0) gate().leave();
}

GatePause::GatePause() : depth_(depth) {
  if (depth_ == 0) return;
  depth = 0;
  gate().leave();
}

GatePause::~GatePause() {
  if (depth_ == 0) return;
  gate().enter();
  depth = depth_;
}

ForkReset::ForkReset() { gate().add(*this); }
ForkReset::~ForkReset() { gate().remove(*this); }

unsigned forkGeneration() { return generation.load(std::memory_order_relaxed); }

} // namespace tegula
