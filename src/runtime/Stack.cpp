// The thread's stack as the system reports it, and the switch to another one.
#include "runtime/Stack.h"
#include <cstdint>
#include <pthread.h>
#include <utility>

namespace tegula::runtime {

namespace {
struct Bounds {
  uintptr_t low = 0, high = UINTPTR_MAX;
};

/// The bounds of the calling thread's stack as the system reports them; all of memory if it does not.
Bounds boundsOfThread() {
  Bounds b;
  pthread_attr_t attr;
  if (pthread_getattr_np(pthread_self(), &attr) != 0) return b;
  void *base;
  size_t bytes;
  if (pthread_attr_getstack(&attr, &base, &bytes) == 0)
    b.low = reinterpret_cast<uintptr_t>(base), b.high = b.low + bytes;
  pthread_attr_destroy(&attr);
  return b;
}

/// The bounds of the current stack: the thread's own, or one of runOnOwnStack.
Bounds &bounds() {
  static thread_local Bounds b = boundsOfThread();
  return b;
}

/// Stacks up to this size are kept for the thread's next call.
constexpr size_t keepBytes = size_t(1) << 20;
thread_local std::unique_ptr<sim::StackSlab> kept;

struct Excursion {
  sim::Context caller, own;
  void (*f)(void *);
  void *user;

  static void main(void *self) {
    auto *e = static_cast<Excursion *>(self);
    e->f(e->user);
    sim::switchContext(e->own, e->caller, true);
  }
};
} // namespace

bool stackHolds(size_t bytes) {
  const Bounds &b = bounds();
  auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return here >= b.low && here < b.high && here - b.low >= bytes;
}

bool runOnOwnStack(size_t bytes, void (*f)(void *), void *user) {
  // A nested call finds no kept stack and makes one of its own.
  std::unique_ptr<sim::StackSlab> stack = std::move(kept);
  if (!stack || stack->stackBytes() < bytes) stack = std::make_unique<sim::StackSlab>(1, bytes);
  if (!stack->ok()) return false;
  Excursion e{{}, {}, f, user};
  e.own.prepare(stack->bottom(0), stack->stackBytes(), 0, &Excursion::main, &e);
  auto low = reinterpret_cast<uintptr_t>(stack->bottom(0));
  Bounds before = std::exchange(bounds(), {low, low + stack->stackBytes()});
  sim::switchContext(e.caller, e.own);
  bounds() = before;
  e.own.dispose();
  if (stack->stackBytes() <= keepBytes) kept = std::move(stack);
  return true;
}

} // namespace tegula::runtime
