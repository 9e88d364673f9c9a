// Stacks of our own: for work that needs more than the calling thread has left, and for programs that take turns
// (Turns.h).
//
// A thread of the user's may have 64 KiB, and a coroutine of his runs on memory that the system does not know as a
// stack. The work stays on the calling thread, so that whatever belongs to the thread (its last error, an interpreter's
// lock) stays valid.
#pragma once
#include "sim/Fiber.h"
#include <memory>

namespace tegula::runtime {

/// The calling thread is on its own stack and has at least `bytes` of it left. False on stacks that are not the
/// thread's.
bool stackHolds(size_t bytes);

/// Runs f(user) on a stack of its own with `bytes` on the calling thread, and returns when it has returned. False: the
/// system has no memory for it, nothing ran. `f` must not throw.
bool runOnOwnStack(size_t bytes, void (*f)(void *), void *user);

/// Runs `f` where it has at least `needed` bytes of stack: on the caller's, or on one of its own with `fresh` (>=
/// needed) bytes. False as runOnOwnStack.
template <typename F> bool withStack(size_t needed, size_t fresh, F &&f) {
  if (stackHolds(needed)) [[likely]] {
    f();
    return true;
  }
  return runOnOwnStack(fresh, [](void *p) { (*static_cast<std::remove_reference_t<F> *>(p))(); }, &f);
}

} // namespace tegula::runtime
