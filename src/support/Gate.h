// Makes fork() and exit() wait for compilations.
//
// A thread that compiles holds locks of tegula and LLVM, and their data is inconsistent meanwhile. A fork() at that
// moment would leave the child with locks that no thread releases; an exit() would destroy static objects that the
// thread uses. So code that takes locks or compiles runs in a GateSection, and fork() and exit() start only when no
// other thread is in one. After fork() the gate is open again in parent and child. Once exit() has begun, a thread that
// enters a section sleeps until the process ends.
//
// Rules without which fork() could wait forever:
//  - a thread in a section does not wait for a thread outside of all sections (another thread's compilation, a
//    callback);
//  - calls of the user's functions are in a GatePause, since they may wait for a lock that the thread in fork() holds
//    (Python's GIL);
//  - locks that are held across such a call are not taken in sections.
//
// Locks of launches are outside of sections, as launches may take any time; their owners start afresh in the child
// (ForkReset).
#pragma once

namespace tegula {

/// The thread is in a section until the end of the scope. Nests. The constructor waits while a fork() is in progress.
class GateSection {
public:
  GateSection();
  ~GateSection();
  GateSection(const GateSection &) = delete;
};

/// The thread is outside of all its sections until the end of the scope; no effect if it is in none.
class GatePause {
public:
  GatePause();
  ~GatePause();
  GatePause(const GatePause &) = delete;

private:
  unsigned depth_;
};

/// Closes the gate as exit() does, for programs that learn earlier that the process ends: waits until no other thread
/// is in a section, and then admits only the calling thread. `beforeSleep`, unless null: each thread that arrives later
/// calls it before it sleeps, to release locks of the caller that the end of the process needs (Python's GIL).
void closeGateForExit(void (*beforeSleep)());
/// Makes exit() do that before it destroys the static objects that exist by now.
void closeGateAtExit();

/// An object whose locks may be held by threads that do not exist in the child after fork().
class ForkReset {
public:
  /// Called in the child, by its only thread, before fork() returns there.
  virtual void afterFork() = 0;

protected:
  ForkReset();
  ~ForkReset();
  ForkReset(const ForkReset &) = delete;

private:
  friend struct GateState;
  ForkReset *previous_ = nullptr, *next_ = nullptr;
};

/// The number of calls of fork() between the first process and this one. Work that another thread began at a smaller
/// number will never finish.
unsigned forkGeneration();

} // namespace tegula
