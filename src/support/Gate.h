// What fork() and exit() wait for.
//
// A thread that compiles holds locks of ours and of LLVM, and is half-way through their data. A fork() at that moment
// would leave the child with locks that nobody releases; an exit() would destroy static objects under the thread. So
// code that takes locks or compiles runs in a GateSection, and fork() and exit() start only when no other thread is in
// one. After fork() the gate is open again in parent and child; after exit() began no thread gets in any more: it
// sleeps until the process is gone.
//
// Rules, without which fork() could wait for ever:
//  - nobody waits in a section for what a thread outside of all sections does (another thread's compilation, a
//    callback);
//  - calls of the user's functions, which may wait for a lock that the thread in fork() holds (Python's GIL), are in a
//    GatePause;
//  - locks that are held across such a call are not taken in sections.
//
// Locks of launches, which may take any time, are outside; their owners start afresh in the child (ForkReset).
#pragma once

namespace tegula {

/// Inside until the end of the scope. Nests. Waits while a fork() is under way.
class GateSection {
public:
  GateSection();
  ~GateSection();
  GateSection(const GateSection &) = delete;
};

/// Outside of all sections of this thread until the end of the scope; nothing if it is in none.
class GatePause {
public:
  GatePause();
  ~GatePause();
  GatePause(const GatePause &) = delete;

private:
  unsigned depth_;
};

/// As at the beginning of exit(), for programs that know earlier that the process ends: waits until no other thread is
/// in a section, and lets none in any more but the calling one. `beforeSleep`, unless null: called by each thread that
/// comes later, before it sleeps, to give up locks of the caller's that the end of the process needs (Python's GIL).
void closeGateForExit(void (*beforeSleep)());
/// Has exit() do that before it destroys static objects that exist by now.
void closeGateAtExit();

/// An object whose locks may be held by threads that fork() leaves behind.
class ForkReset {
public:
  /// Called in the child before fork() returns there; the calling thread is the only one.
  virtual void afterFork() = 0;

protected:
  ForkReset();
  ~ForkReset();
  ForkReset(const ForkReset &) = delete;

private:
  friend struct GateState;
  ForkReset *previous_ = nullptr, *next_ = nullptr;
};

/// How often fork() was called on the way from the first process to this one: what other threads had begun under a
/// smaller number will not be finished.
unsigned forkGeneration();

} // namespace tegula
