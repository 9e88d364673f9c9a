// Separate stacks: for work that needs more than the calling thread has left, and for programs that take turns
// (Turns.h).
//
// A user's thread may have 64 KiB, and a user's coroutine runs on memory that the system does not know as a stack. The
// work stays on the calling thread, so that thread-local state (its last error, an interpreter's lock) stays valid.
#pragma once
#include "sim/Fiber.h"
#include <memory>

namespace tegula::runtime {

/// True if the calling thread is on its own stack with at least `bytes` left. False on any other stack.
bool stackHolds(size_t bytes);

/// Runs f(user) on the calling thread, on a new stack of `bytes`, and returns when it has returned. False: the system
/// has no memory for it, and nothing ran. `f` must not throw.
bool runOnOwnStack(size_t bytes, void (*f)(void *), void *user);

/// Runs `f` with at least `needed` bytes of stack: on the caller's, or on a new one of `fresh` (>= needed) bytes. False
/// as for runOnOwnStack.
template <typename F> bool withStack(size_t needed, size_t fresh, F &&f) {
  if (stackHolds(needed)) [[likely]] {
    f();
    return true;
  }
  return runOnOwnStack(fresh, [](void *p) { (*static_cast<std::remove_reference_t<F> *>(p))(); }, &f);
}

} // namespace tegula::runtime
