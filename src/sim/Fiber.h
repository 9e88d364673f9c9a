// Fibers: stacks with guard pages and a context switch that stays in user space.
//
// A fiber starts in the function given to Context::prepare and must never return from it. Sanitizers are told about
// every switch, so that code on fibers can be checked like any other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tegula::sim {

/// A suspended flow of control: a fiber, or the host thread's own stack.
struct Context {
  void *sp = nullptr;
  const void *stackBottom = nullptr; // lowest address; null: the host thread's stack, filled in when it is first left
  size_t stackBytes = 0;
  void *fakeStack = nullptr; // AddressSanitizer
  void *tsanFiber = nullptr; // ThreadSanitizer

  /// Makes a fiber that runs `start(arg)` on the stack [bottom, bottom + bytes), its first frame `skew` bytes below the
  /// top (so that equal frames of different fibers do not conflict in one cache set).
  void prepare(void *bottom, size_t bytes, size_t skew, void (*start)(void *), void *arg);
  /// The fiber will not run again.
  void dispose();
};

/// Saves the running context in `from` and resumes `to`. `forGood`: `from` will never be resumed.
void switchContext(Context &from, Context &to, bool forGood = false);

/// An array of stacks of equal size, each above a guard page. Pages are committed when first touched.
class StackSlab {
public:
  StackSlab(size_t count, size_t stackBytes);
  ~StackSlab();
  StackSlab(const StackSlab &) = delete;
  bool ok() const { return base_ != nullptr; }
  size_t stackBytes() const { return stackBytes_; }
  void *bottom(size_t i) const { return base_ + i * (stackBytes_ + guardBytes_) + guardBytes_; }
  size_t count() const { return count_; }

private:
  char *base_ = nullptr;
  size_t count_, stackBytes_, guardBytes_;
};

} // namespace tegula::sim
