// Streams and events of devices whose kernels run in this process: the CPU and the simulator.
//
// A stream is a thread that does one piece of work after the other. As on a GPU, a launch that fails says so when
// somebody waits for the stream, and what was queued after it does not run: it would read what the failed one did not
// write. Marks (events) are passed all the same, so that nobody waits for ever.
#pragma once
#include "runtime/Launch.h"
#include "support/Gate.h"
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

namespace tegula::runtime {

class HostStream final : ForkReset {
public:
  using Work = std::function<Status(LaunchOutcome &)>;
  HostStream() = default;
  /// Does what is queued.
  ~HostStream();
  HostStream(const HostStream &) = delete;

  /// Queues work, which nobody runs after a failure until wait() has told of it. Where the system gives no thread it is
  /// done at once. Thread-safe.
  void add(Work work);
  /// Queues what is done in any case.
  void addMark(std::function<void()> mark);
  /// From now on what is added is kept for endRecording() and not done; marks are passed as before. False: it records
  /// already.
  bool beginRecording();
  /// What was added since. Nothing if it does not record.
  std::optional<std::vector<Work>> endRecording();
  bool isRecording() const;
  /// Waits until all that was queued is done. The first failure since the last call.
  Status wait(LaunchOutcome &outcome);
  /// The same, and leaves the failure to who asks for it.
  void settle();

private:
  struct Item {
    Work work;
    std::function<void()> mark;
  };
  void push(Item item);
  void serve(const std::stop_token &stop);
  void run(Item &item);
  void afterFork() override;

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::condition_variable idle_;
  std::deque<Item> queue_;
  bool busy_ = false;
  Status failure_;
  LaunchOutcome outcome_;
  std::optional<std::vector<Work>> recording_;
  std::unique_ptr<std::jthread> thread_; // started by the first work
};

/// A point in a stream, recorded as often as one likes; the last counts. Thread-safe.
class HostEvent {
public:
  /// At the end of what is queued now; now if `stream` is null.
  void record(HostStream *stream);
  bool isPast() const;
  void wait() const;
  /// What `stream` does from now on waits for the point recorded last; the calling thread does if `stream` is null.
  void holdBack(HostStream *stream) const;
  /// When it was passed; waits for that. False: never recorded.
  bool time(std::chrono::steady_clock::time_point &out) const;

private:
  /// One recording.
  struct Point {
    std::mutex mutex;
    std::condition_variable passed;
    bool isPast = false;
    std::chrono::steady_clock::time_point time;
    void pass();
    void wait();
  };
  std::shared_ptr<Point> point() const {
    std::lock_guard lock(mutex_);
    return point_;
  }
  mutable std::mutex mutex_;
  std::shared_ptr<Point> point_; // null: never recorded
};

} // namespace tegula::runtime
