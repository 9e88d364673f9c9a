// Measures the time of one launch on a device.
//
// On a GPU each run lies between two events of its stream, many runs are queued before the first wait, and the L2 cache
// is flushed before each run, as for a kernel in a program. On the CPU and the simulator the steady clock is read
// around the call.
//
// With CUDA graphs, if asked for: rows of runs are recorded on a stream of the clock's own, and each row lies between
// two events. The time excludes the host's cost of a launch and the pause between launches, and the caches are warm.
// The steps before each run are recorded, too, and once more alone; their time is subtracted.
#pragma once
#include "runtime/Device.h"
#include <functional>

namespace tegula::tune {

/// Nanoseconds of one launch: the median, and the 20 % and 80 % quantiles.
struct Timing {
  double medianNs = 0, lowNs = 0, highNs = 0;
  uint32_t runs = 0;
};

/// How much to measure.
struct Effort {
  double ns = 5e6; // of running, as far as the numbers of runs allow
  uint32_t minRuns = 5, maxRuns = 400;
  double hopelessNs = 0; // if the fastest of the first three runs took more, these three are the result; 0: never
};

/// The clock of one device and stream; used by one thread.
class Clock {
public:
  Clock(runtime::Device &device, void *stream, bool inGraphs = false)
      : device_(device), stream_(stream), inGraphs_(inGraphs) {}
  ~Clock();
  Clock(const Clock &) = delete;

  /// Queues work on that stream: the clock's, or the one that is being recorded.
  using Step = std::function<runtime::Status(void *stream)>;
  /// Times `run`, which makes one launch. `before` runs before each launch and is not timed. The first error ends it.
  runtime::Status measure(const Step &before, const Step &run, const Effort &effort, Timing &out);
  /// Nanoseconds of one run of `work` in each of `rows` rows (1 to 20) in CUDA graphs, which take about `ns` together.
  runtime::Status graphTimes(const Step &work, double ns, unsigned rows, std::vector<double> &out);
  /// Are runs timed in CUDA graphs? If a run cannot be recorded, it and all later ones are timed launch by launch;
  /// times from before and after that are not comparable.
  bool inGraphs() const { return inGraphs_; }
  /// The reason, if graphs were asked for and are not used; "" otherwise.
  const std::string &whyNoGraphs() const { return whyNoGraphs_; }

private:
  static constexpr unsigned batch = 64; // runs queued together
  runtime::Status open();
  runtime::Status runBatch(const Step &before, const Step &run, unsigned count);
  void summarize(uint32_t runs, Timing &out);
  runtime::Status record(const Step &before, const Step &run, unsigned count);
  runtime::Status timeGraphs(unsigned launches, unsigned runs);
  struct Rows {
    double ns;                // of running, about
    unsigned rows, mostRuns;  // in a row
    double hopelessNs = 0;    // if one run took more, that is the result; 0: never
    unsigned runs = 0;        // filled in: of all rows
  };
  /// Leaves the times in times_. `recorded` is the status of recording; if it is not OK, there are no times.
  runtime::Status timeRows(const Step &before, const Step &run, Rows &rows, runtime::Status &recorded);

  runtime::Device &device_;
  void *stream_;
  bool inGraphs_;
  std::string whyNoGraphs_;
  std::unique_ptr<runtime::Stopwatch> watch_;
  std::unique_ptr<runtime::Recorder> recorder_;
  void *flush_ = nullptr; // GPU: filling this memory flushes the L2 cache
  uint64_t flushBytes_ = 0;
  std::vector<double> times_;
};

} // namespace tegula::tune
