// How long one launch takes on a device.
//
// On a GPU a run lies between two events of its stream, many runs are queued before the first is waited for, and the L2 cache is flushed in
// front of each, as a kernel in a program finds it. On the CPU and the simulator the steady clock is read around the call.
#pragma once
#include "runtime/Device.h"
#include <functional>

namespace tegula::tune {

/// Nanoseconds of one launch: the median, and the 20 % and 80 % quantiles.
struct Timing {
  double medianNs = 0, lowNs = 0, highNs = 0;
  uint32_t runs = 0;
};

/// How much is measured.
struct Effort {
  double ns = 5e6; // of running, at least as far as the numbers of runs allow
  uint32_t minRuns = 5, maxRuns = 400;
  double hopelessNs = 0; // the fastest of the first three runs took more: these three are the result; 0: never
};

/// The clock of one device and stream; used by one thread.
class Clock {
public:
  Clock(runtime::Device &device, void *stream) : device_(device), stream_(stream) {}
  ~Clock();
  Clock(const Clock &) = delete;

  using Step = std::function<runtime::Status()>;
  /// Times `run`, which makes one launch on the stream. `before` comes in front of each and is not timed. The first error ends it.
  runtime::Status measure(const Step &before, const Step &run, const Effort &effort, Timing &out);

private:
  static constexpr unsigned batch = 64; // runs that are queued together
  runtime::Status open();
  runtime::Status runBatch(const Step &before, const Step &run, unsigned count);

  runtime::Device &device_;
  void *stream_;
  std::unique_ptr<runtime::Stopwatch> watch_;
  void *flush_ = nullptr; // GPU: memory whose filling flushes the L2 cache
  uint64_t flushBytes_ = 0;
  std::vector<double> times_;
};

} // namespace tegula::tune
