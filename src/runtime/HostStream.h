// Streams and events of devices whose kernels run in this process: the CPU and the simulator.
//
// A stream is a thread that runs pieces of work in order. As on a GPU, the error of a launch is reported when a thread
// waits for the stream, and work queued after it does not run: it would read what the failed launch did not write.
// Marks (events) are still passed, so that no thread waits forever.
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
  /// Finishes the queued work.
  ~HostStream();
  HostStream(const HostStream &) = delete;

  /// Queues work. After a failure no work runs until wait() has reported it. Runs the work at once if the system has no
  /// thread for it. Thread-safe.
  void add(Work work);
  /// Queues a mark, which is passed in any case.
  void addMark(std::function<void()> mark);
  /// From now on added work is kept for endRecording() and not run; marks are passed as before. False: it is recording
  /// already.
  bool beginRecording();
  /// The work added since beginRecording(). Nullopt if it is not recording.
  std::optional<std::vector<Work>> endRecording();
  bool isRecording() const;
  /// Waits until all queued work is done. Returns the first failure since the last call.
  Status wait(LaunchOutcome &outcome);
  /// Waits, too, but keeps the failure for the next wait().
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

/// A point in a stream; may be recorded any number of times, and the last one counts. Thread-safe.
class HostEvent {
public:
  /// Records the end of the work queued now; the present if `stream` is null.
  void record(HostStream *stream);
  bool isPast() const;
  void wait() const;
  /// Later work of `stream` waits for the point recorded last; if `stream` is null, the calling thread does.
  void holdBack(HostStream *stream) const;
  /// The time when it was passed; waits for that. False: never recorded.
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
