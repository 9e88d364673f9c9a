// Which configuration of a kernel is fastest: compiles them on all cores, runs each on the caller's memory, compares
// what they leave, times them.
//
// The tuner knows nothing of languages, files and functions: who wants to tune describes the configurations as a
// Subject. The order of work:
//   compile all; run and compare each once; time each a little; time those near the best again, in turns; choose.
// Of a space that is searched (Search.h) only some are compiled and run, in rounds.
#pragma once
#include "runtime/ThreadPool.h"
#include "tune/Clock.h"
#include "tune/Memory.h"
#include "tune/Results.h"
#include "tune/Space.h"

namespace tegula::tune {

/// What compiling one configuration came to.
struct Compiled {
  runtime::Status status;      // not OK: it cannot be used
  // of a status that is not OK: too few resources, a static_assert, the assembler, a fault where it was rehearsed: the
  // others are tuned without it
  bool skip = false;
  std::vector<Buffer> buffers; // of its kernel, for these arguments
  std::string code;            // machine code or its hash: equal means equally fast; "" if that is not so
  double estimateNs = 0;       // by the cost model; 0: there is none
};

/// What the cost model says of a configuration before code is made of it.
struct Sketch {
  runtime::Status status; // not OK: it cannot be used, as of Compiled
  bool skip = false;
  double estimateNs = 0; // 0: there is none
};

/// What is tuned: the configurations of one kernel, called with the arguments of one launch.
class Subject {
public:
  virtual ~Subject() = default;
  virtual size_t count() const = 0;
  /// Canonical text, "BLOCK: 64, num_warps: 4".
  virtual std::string name(size_t i) const = 0;
  /// The configurations that will be compiled, before the first of them is.
  virtual void prepare(const std::vector<size_t> &) {}
  /// Of these configurations, in their order. Called on the tuning thread, may use up to `threads`; only where a space
  /// is searched.
  virtual std::vector<Sketch> sketch(const std::vector<size_t> &wanted, unsigned) {
    return std::vector<Sketch>(wanted.size());
  }
  /// Called from several threads at once, for different configurations, and perhaps still running when tune() has
  /// returned because it took too long.
  virtual Compiled compile(size_t i) = 0;
  /// Makes one launch on that stream: the tuning's, or (Request::inGraphs) one whose work is recorded. On the tuning
  /// thread.
  virtual runtime::Status run(size_t i, void *stream) = 0;
};

/// What is known about a configuration.
struct Outcome {
  /// Measured here or earlier; failed (cannot be compiled or launched), faulted, rejected (leaves other values than
  /// most). Nullopt: not tried, as the budget ended before its turn or the choice needed no run of it.
  std::optional<Record> record;
  double estimateNs = 0; // of the cost model; 0: none
  /// Of a tuning that did not end: what it left was not compared with others' results. The time counts; it runs once
  /// more for the comparison.
  bool isProvisional = false;
  bool is(State s) const { return record && record->state == s; }
};

struct Request {
  bool deterministic = false; // the cost model chooses, no clock is read, nothing is run
  bool validate = true;       // compare results
  uint64_t copyLimit = uint64_t(4) << 30; // bytes, Memory's
  // after so long no further configuration is timed; 0: all are. Of a search: of all that it does
  double budgetNs = 0;
  std::vector<Point> points;  // one for each configuration, which are searched; none: all are tried
  /// Tried before all others, and kept by topK; if `deterministic`, the first of them that can be compiled is chosen.
  std::vector<size_t> guesses;
  std::string given;          // the class of the arguments, for what is said of a configuration that faults
  size_t topK = 0;            // only so many are timed, those that the model estimates best; 0: all
  double compileTimeoutNs = 30e9;
  unsigned threads = 1;       // that compile; 0: the tuning thread does, without a limit of time
  runtime::ThreadPool::Executor executor; // whose threads those are; without a function: the tuner's own
  std::vector<Outcome> known; // one for each configuration, or none: those with a record are not tried again
  /// Compares results of `leastThere` bytes and more on the device (Memory::compareThere).
  Memory::Compare compareThere;
  uint64_t leastThere = 8 << 20;
  bool inGraphs = false;      // rows of launches are timed in CUDA graphs, where they can be recorded (Clock.h)
  /// Times configuration `i` in place of the Clock; `restore` is to be called before each of its runs.
  std::function<runtime::Status(size_t i, const Clock::Step &restore, Timing &out)> measure;
  /// Called on the tuning thread: `done` of `count` are timed; `best` is the best so far, count if there is none.
  std::function<void(size_t done, size_t count, size_t best, double bestNs)> progress;
  /// Called when something is known of a configuration that was tried: a time (that may become a better one), a
  /// failure, a fault.
  std::function<void(size_t i, const Outcome &outcome)> learnt;
  /// Called before the first run of a configuration, and (`ended`) after its last.
  std::function<void(size_t i, bool ended)> running;
};

struct Result {
  size_t best = 0;
  bool byModel = false;           // no run decided
  bool byGuess = false;           // nor did the model
  std::vector<Outcome> outcomes;  // one for each configuration
  std::vector<std::string> blind; // arguments that could not be set back
  bool compared = false;          // results were
  bool divided = false;           // and no more than half of the configurations left the same
  double seconds = 0;
  // what the last time is of: "graphs", "events", "steady" (CPU, simulator), "given" (Request::measure); "": nothing
  // was timed
  const char *clock = "";
  std::string whyNoGraphs; // why it is not of graphs, where these were asked for
};

/// Tunes. OK: `out.best` is a configuration that can be used. Else: what a configuration's compilation or run failed
/// with that no other can mend (the text names the configuration), or that none can be used. Whatever comes, the memory
/// that configurations read and write is as before. `subject` is shared with compilations that take too long.
runtime::Status tune(const std::shared_ptr<Subject> &subject, runtime::Device &device, void *stream,
                     const Request &request, Result &out);

} // namespace tegula::tune
