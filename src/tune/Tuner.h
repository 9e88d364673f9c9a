// Finds the fastest configuration of a kernel: compiles configurations on all cores, runs each on the caller's memory,
// compares the results, and times them.
//
// The tuner is independent of languages, files and functions: the caller describes the configurations as a Subject. The
// order of work:
//   compile all; run and compare each once; time each briefly; time those near the best again, in turns; choose.
// Of a space that is searched (Search.h) only some are compiled and run, in rounds.
#pragma once
#include "runtime/ThreadPool.h"
#include "tune/Clock.h"
#include "tune/Memory.h"
#include "tune/Results.h"
#include "tune/Space.h"

namespace tegula::tune {

/// The result of compiling one configuration.
struct Compiled {
  runtime::Status status;      // not OK: it cannot be used
  // of a status that is not OK: too few resources, a static_assert, the assembler, or a fault in the rehearsal; tuning
  // continues without this configuration
  bool skip = false;
  std::vector<Buffer> buffers; // of its kernel, for these arguments
  std::string code;            // machine code or its hash: equal code is equally fast; "": not comparable
  double estimateNs = 0;       // by the cost model; 0: there is none
};

/// The cost model's estimate for a configuration before code generation.
struct Sketch {
  runtime::Status status; // not OK: it cannot be used, as in Compiled
  bool skip = false;
  double estimateNs = 0; // 0: there is none
};

/// The subject of tuning: the configurations of one kernel, called with the arguments of one launch.
class Subject {
public:
  virtual ~Subject() = default;
  virtual size_t count() const = 0;
  /// Canonical text, "BLOCK: 64, num_warps: 4".
  virtual std::string name(size_t i) const = 0;
  /// Receives the configurations that will be compiled, before the first of them is.
  virtual void prepare(const std::vector<size_t> &) {}
  /// Sketches these configurations, in their order. Called on the tuning thread, may use up to `threads` threads; only
  /// if a space is searched.
  virtual std::vector<Sketch> sketch(const std::vector<size_t> &wanted, unsigned) {
    return std::vector<Sketch>(wanted.size());
  }
  /// Called from several threads at once, for different configurations. May still be running when tune() has returned,
  /// if it exceeded its time limit.
  virtual Compiled compile(size_t i) = 0;
  /// Makes one launch on that stream: the tuning's, or (Request::inGraphs) one that is being recorded. Called on the
  /// tuning thread.
  virtual runtime::Status run(size_t i, void *stream) = 0;
};

/// The result of a configuration.
struct Outcome {
  /// Measured here or earlier; failed (cannot be compiled or launched), faulted, rejected (its results differ from
  /// most). Nullopt: not tried, as the budget ended before its turn or the choice needed no run of it.
  std::optional<Record> record;
  double estimateNs = 0; // of the cost model; 0: none
  /// From a tuning that was interrupted: its results were not compared with others. The time counts; it runs once more
  /// for the comparison.
  bool isProvisional = false;
  bool is(State s) const { return record && record->state == s; }
};

struct Request {
  bool deterministic = false; // the cost model chooses, no clock is read, nothing is run
  bool validate = true;       // compare results
  uint64_t copyLimit = uint64_t(4) << 30; // bytes, Memory's
  // after that long no further configuration is timed; 0: all are. With a search: limits the whole search
  double budgetNs = 0;
  std::vector<Point> points;  // one for each configuration, to search; empty: all are tried
  /// Tried before all others, and kept by topK. If `deterministic`, the first that can be compiled is chosen.
  std::vector<size_t> guesses;
  std::string given;          // the class of the arguments, for messages about a configuration that faults
  size_t topK = 0;            // only that many are timed, with the best estimates; 0: all
  double compileTimeoutNs = 30e9;
  unsigned threads = 1;       // for compiling; 0: the tuning thread compiles, without a time limit
  runtime::ThreadPool::Executor executor; // provides those threads; without a function: the tuner's own
  std::vector<Outcome> known; // one for each configuration, or empty: those with a record are not tried again
  /// Compares results of `leastThere` bytes and more on the device (Memory::compareThere).
  Memory::Compare compareThere;
  uint64_t leastThere = 8 << 20;
  bool inGraphs = false;      // time rows of launches in CUDA graphs, where they can be recorded (Clock.h)
  /// Times configuration `i` instead of the Clock; it must call `restore` before each run.
  std::function<runtime::Status(size_t i, const Clock::Step &restore, Timing &out)> measure;
  /// Called on the tuning thread: `done` of `count` are timed; `best` is the best so far, `count` if there is none.
  std::function<void(size_t done, size_t count, size_t best, double bestNs)> progress;
  /// Called when a tried configuration has a result: a time (which may improve later), a failure, a fault.
  std::function<void(size_t i, const Outcome &outcome)> learnt;
  /// Called before the first run of a configuration and, with `ended`, after its last.
  std::function<void(size_t i, bool ended)> running;
};

struct Result {
  size_t best = 0;
  bool byModel = false;           // chosen without a run
  bool byGuess = false;           // and without the model
  std::vector<Outcome> outcomes;  // one for each configuration
  std::vector<std::string> blind; // arguments that could not be restored
  bool compared = false;          // results were compared
  bool divided = false;           // and no more than half of the configurations agree
  double seconds = 0;
  // the source of the last time: "graphs", "events", "steady" (CPU, simulator), "given" (Request::measure); "": nothing
  // was timed
  const char *clock = "";
  std::string whyNoGraphs; // why graphs were not used, if they were asked for
};

/// Tunes. OK: `out.best` is a usable configuration. Otherwise: the error of a configuration's compilation or run that
/// affects all others (the text names the configuration), or that no configuration is usable. In every case the memory
/// that configurations read and write is as before. `subject` is shared with compilations that exceed their time limit.
runtime::Status tune(const std::shared_ptr<Subject> &subject, runtime::Device &device, void *stream,
                     const Request &request, Result &out);

} // namespace tegula::tune
