// Runs programs of one launch in turns on one thread, so that programs that wait for one another all make progress.
//
// Programs run one after the other on the thread's own stack until one waits (TegulaCpuLaunch::wait). Then the next
// program is started on a stack of its own, and from then on a waiting program yields the thread: to the program that
// has waited longest, or, if all of them have had several turns in vain, to new ones. So every started program gets its
// turn, and every program is started if those before it do nothing but wait: no order among them can hang the launch.
// The limit is the number of programs in flight (TurnWork::admit).
#pragma once
#include "sim/Fiber.h"
#include <deque>
#include <memory>
#include <vector>

namespace tegula::runtime {

/// The programs of a launch, for all threads that work on it. Thread-safe.
struct TurnWork {
  /// Takes the next program and runs it. False: there is none, or the launch has to stop.
  virtual bool runOne(void *scratch) = 0;
  /// There are programs that no thread has taken, and the launch continues.
  virtual bool pending() const = 0;
  virtual bool stopped() const = 0;
  /// The number of finished programs.
  virtual int64_t finished() const = 0;
  /// Admits one more program in flight; false at the limit. dismiss(): one less.
  virtual bool admit() = 0;
  virtual void dismiss() = 0;
  /// Programs in flight wait for others that may not start: ends the launch.
  virtual void refuse() = 0;
  /// There is no scratch memory: ends the launch.
  virtual void noScratch() = 0;

protected:
  ~TurnWork() = default;
};

class Turns {
public:
  /// `stackBytes`: of each program that does not run on the thread's own stack. `scratchBytes`: of each program.
  Turns(TurnWork &work, size_t stackBytes, size_t scratchBytes)
      : work_(work), stackBytes_(stackBytes), scratchBytes_(scratchBytes) {}
  ~Turns();
  Turns(const Turns &) = delete;

  /// Runs programs until none is left for this thread and those it took are finished.
  void run();
  /// Called by a program that waits: `*current()` on its thread.
  void wait();
  /// The Turns of the innermost run() of the calling thread; null: none.
  static Turns *current();

private:
  struct Runner {
    sim::Context context;
    std::unique_ptr<sim::StackSlab> stack; // null: the thread's own
  };
  void takePrograms();
  static void runnerMain(void *self);
  Runner *fresh();
  bool startAnother();
  void switchTo(Runner *next, bool forGood = false);

  TurnWork &work_;
  size_t stackBytes_, scratchBytes_;
  Runner host_;
  Runner *running_ = &host_;
  std::deque<Runner *> waiting_; // longest first
  std::vector<std::unique_ptr<Runner>> all_;
  std::vector<Runner *> free_; // finished; their stacks can be reused
  size_t waits_ = 0;           // since a program of this thread ended, or as many as were in flight were started
  size_t starts_ = 0; // that are due: twice as many in flight each time, so that starting n takes time of n only
  size_t refused_ = 0;         // starts that were not admitted since a program of the launch ended
  int64_t finishedThen_ = 0;
};

} // namespace tegula::runtime
