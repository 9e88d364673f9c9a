#include "tune/Tuner.h"
#include "tune/CompileAhead.h"
#include "tune/Search.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unordered_map>

namespace tegula::tune {

using runtime::Status;
using SteadyClock = std::chrono::steady_clock;

static double secondsSince(SteadyClock::time_point t) {
  return std::chrono::duration<double>(SteadyClock::now() - t).count();
}

/// For Record::kind: the name of Python's exception for that error.
static const char *kindOf(TegulaStatus code) {
  switch (code) {
  case TEGULA_OUT_OF_RESOURCES: return "OutOfResources";
  case TEGULA_ASSEMBLER_ERROR: return "PTXASError";
  case TEGULA_COMPILE_ERROR: return "CompileTimeAssertionFailure"; // of compile errors, only these are skipped
  case TEGULA_FAULT: return "fault";
  default: return "error";
  }
}

/// Sorts by a number, and equal ones by index.
template <typename Number> static void sortBy(std::vector<size_t> &list, Number number) {
  std::sort(list.begin(), list.end(),
            [&](size_t a, size_t b) { return std::pair(number(a), a) < std::pair(number(b), b); });
}

namespace {
class Tuning {
public:
  Tuning(const std::shared_ptr<Subject> &subject, runtime::Device &device, void *stream, const Request &request,
         Result &out)
      : subject_(subject), request_(request), out_(out), outcomes_(out.outcomes),
        memory_(device, stream, request.copyLimit, request.validate), clock_(device, stream, request.inGraphs),
        device_(device), stream_(stream) {}

  Status run() {
    if (request_.compareThere) memory_.compareThere(request_.compareThere, request_.leastThere);
    outcomes_ = request_.known;
    outcomes_.resize(subject_->count());
    compiled_.resize(outcomes_.size());
    if (request_.deterministic && chooseGuess()) return Status::ok();
    const bool searches = !request_.points.empty();
    if (Status s = searches ? Status::ok() : compile(); !s) return s;
    if (request_.deterministic) return searches ? searchByModel() : chooseByModel();
    Status s = searches ? search() : measure();
    Status back = memory_.restore();
    out_.blind = memory_.blind();
    out_.compared = memory_.compares();
    out_.divided = memory_.isDivided();
    out_.whyNoGraphs = clock_.whyNoGraphs();
    if (!s || !back) return s ? back : s;
    return choose();
  }

private:
  Status compile() {
    std::vector<size_t> wanted;
    for (size_t i = 0; i < outcomes_.size(); ++i)
      // Known configurations are not compiled: the launch compiles only the chosen one. The model needs code.
      if (!outcomes_[i].record ||
          (outcomes_[i].is(State::Ok) && (request_.deterministic || outcomes_[i].isProvisional)))
        wanted.push_back(i);
    return compile(request_.deterministic ? wanted : hopeful(wanted));
  }

  Status compile(const std::vector<size_t> &wanted) {
    if (!wanted.empty()) subject_->prepare(wanted);
    std::vector<Compiled> made =
        compileAhead(subject_, wanted, request_.threads, request_.compileTimeoutNs, request_.executor);
    for (size_t i : wanted) {
      Compiled &c = compiled_[i] = std::move(made[i]);
      if (c.status) {
        outcomes_[i].estimateNs = c.estimateNs;
        if (request_.deterministic) continue;
        if (Status s = memory_.add(c.buffers); !s) return s;
        order_.push_back(i);
        continue;
      }
      if (!c.skip) return named(i, c.status);
      outcomes_[i].record = bad(c.status.code == TEGULA_FAULT ? State::Faulted : State::Failed, c.status);
      outcomes_[i].isProvisional = false;
      if (first_) first_ = c.status;
      tell(i);
    }
    return Status::ok();
  }

  /// Configurations with an estimate above that multiple of the least one wait until another is measured. Estimates
  /// without code lack registers and spills; over the configurations of docs/autotuning.md the fastest one was at 2.3
  /// times the least at most.
  static constexpr double hopelessTimes = 4;

  /// Defers configurations that may not be worth compiling; if there are few, sketching them costs more than it saves.
  std::vector<size_t> hopeful(const std::vector<size_t> &wanted) {
    constexpr size_t few = 4;
    if (wanted.size() < few) return wanted;
    std::vector<Sketch> sketches = subject_->sketch(wanted, request_.threads);
    double least = INFINITY;
    for (const Sketch &s : sketches)
      if (s.status && s.estimateNs > 0) least = std::min(least, s.estimateNs);
    std::vector<size_t> now;
    for (size_t k = 0; k < wanted.size(); ++k) {
      sketched_[wanted[k]] = sketches[k].status ? sketches[k].estimateNs : 0;
      bool isLate = sketched_[wanted[k]] > hopelessTimes * least && !outcomes_[wanted[k]].record;
      (isLate ? putOff_ : now).push_back(wanted[k]);
    }
    return now;
  }

  /// Deferred configurations that are as slow compared with the best measured one stay without code; the others are
  /// compiled.
  Status compilePutOff() {
    // The estimate of the fastest configuration with an estimate.
    double reference = 0, fastest = INFINITY;
    for (auto &[i, ns] : sketched_)
      if (ns > 0 && outcomes_[i].is(State::Ok) && medianOf(i) < fastest) fastest = medianOf(i), reference = ns;
    std::vector<size_t> wanted;
    for (size_t i : std::exchange(putOff_, {})) {
      double times = reference > 0 ? sketched_[i] / reference : 0;
      if (times <= hopelessTimes) {
        wanted.push_back(i);
        continue;
      }
      char text[128];
      std::snprintf(text, sizeof text, "not compiled: estimated to take %.1f times as long as the best", times);
      outcomes_[i].record = Record::bad(State::Failed, "hopeless", text, now());
      outcomes_[i].estimateNs = sketched_[i];
      tell(i);
    }
    if (wanted.empty()) return Status::ok();
    // Memory that the new ones write may need restoring, too.
    if (Status s = memory_.restoreAll(); !s) return s;
    return compile(wanted);
  }

  void tell(size_t i) const {
    if (request_.learnt && !request_.deterministic) request_.learnt(i, outcomes_[i]);
  }
  static Record bad(State state, const Status &s) { return Record::bad(state, kindOf(s.code), s.text, now()); }
  double medianOf(size_t i) const { return outcomes_[i].record->medianNs; }

  Status named(size_t i, Status s) const {
    s.text = "configuration (" + subject_->name(i) + "): " + s.text;
    return s;
  }

  /// Handles a failed run. A fault is recorded: the next tuning skips the configuration.
  Status failed(size_t i, Status s) {
    if (s.code == TEGULA_FAULT) {
      if (!request_.given.empty()) s.text += ", given " + request_.given;
      outcomes_[i].record = bad(State::Faulted, s);
      outcomes_[i].isProvisional = false;
      tell(i);
    }
    return named(i, s);
  }

  /// Best estimates first, so that they are tried before a budget ends.
  void sortByEstimate() {
    bool all = std::all_of(order_.begin(), order_.end(), [&](size_t i) { return outcomes_[i].estimateNs > 0; });
    if (!all) return guessesFirst();
    sortBy(order_, [&](size_t i) { return outcomes_[i].estimateNs; });
    guessesFirst();
    if (request_.topK && order_.size() > request_.topK) order_.resize(request_.topK);
  }
  void guessesFirst() {
    for (size_t k = request_.guesses.size(); k-- > 0;)
      if (auto at = std::find(order_.begin(), order_.end(), request_.guesses[k]); at != order_.end())
        std::rotate(order_.begin(), at, at + 1);
  }

  Status measure() {
    sortByEstimate();
    auto start = SteadyClock::now();
    for (const Outcome &o : outcomes_)
      if (o.is(State::Ok)) bestNs_ = std::min(bestNs_, o.record->medianNs);
    std::vector<size_t> tried;
    for (size_t k = 0;; ++k) {
      if (k == order_.size() && (!request_.topK || k < request_.topK))
        if (Status s = compilePutOff(); !s) return s;
      if (k == order_.size()) break;
      size_t i = order_[k];
      if (request_.budgetNs > 0 && k > 0 && secondsSince(start) * 1e9 > request_.budgetNs) break;
      Status s = tryOne(i);
      if (outcomes_[i].record) tell(i);
      if (!s) return s;
      if (outcomes_[i].is(State::Ok)) tried.push_back(i);
      if (request_.progress) request_.progress(k + 1, order_.size(), best_, bestNs_);
    }
    for (const Memory::Apart &a : memory_.outvoted()) reject(a);
    return refine(tried, start);
  }

  /// The first trial of a configuration: its results, and a short measurement.
  Status tryOne(size_t i, double ns = 3e6) {
    const std::string &code = compiled_[i].code;
    auto same = code.empty() ? sameCode_.end() : sameCode_.find(code);
    if (same != sameCode_.end()) {
      outcomes_[i].record = outcomes_[same->second].record;
      return Status::ok();
    }
    if (request_.running) request_.running(i, false);
    Status s = memory_.restoreAll();
    if (s) s = subject_->run(i, stream_);
    if (s) s = settle();
    if (s) s = memory_.note(i);
    Outcome &o = outcomes_[i];
    if (s && o.isProvisional) {
      if (request_.running) request_.running(i, true);
      if (medianOf(i) <= bestNs_) best_ = i;
      if (!code.empty()) sameCode_.emplace(code, i);
      return s;
    }
    double hopeless = std::isfinite(bestNs_) ? 2 * bestNs_ : 0;
    Timing t;
    if (s) s = time(i, {ns, 3, 50, hopeless}, t);
    if (request_.running && (s || s.code != TEGULA_FAULT)) request_.running(i, true);
    if (s) {
      o.record = recordOf(t);
      if (t.medianNs < bestNs_) bestNs_ = t.medianNs, best_ = i;
      if (!code.empty()) sameCode_.emplace(code, i);
      return s;
    }
    // A kernel that does not fit fails at its first launch; changes by hooks are compiled then.
    if (s.code == TEGULA_OUT_OF_RESOURCES || s.code == TEGULA_ASSEMBLER_ERROR || s.code == TEGULA_COMPILE_ERROR) {
      o.record = bad(State::Failed, s);
      if (first_) first_ = s;
      return Status::ok();
    }
    return failed(i, s);
  }

  Status time(size_t i, const Effort &effort, Timing &t) {
    const Clock::Step restore = [this](void *stream) { return memory_.restore(stream); };
    out_.clock = "given";
    if (request_.measure) return request_.measure(i, restore, t);
    const bool inGraphs = clock_.inGraphs();
    Status s = clock_.measure(restore, [&](void *stream) { return subject_->run(i, stream); }, effort, t);
    out_.clock = clock_.inGraphs()                                                    ? "graphs"
                 : device_.properties().kind == runtime::DeviceProperties::Kind::Cuda ? "events"
                                                                                      : "steady";
    if (s && inGraphs && clock_.inGraphs()) inGraphs_.push_back(i);
    return s && inGraphs && !clock_.inGraphs() ? timeAgain() : s;
  }

  /// Once a configuration cannot be recorded in a graph, all are timed launch by launch, earlier ones again.
  Status timeAgain() {
    bestNs_ = INFINITY;
    for (size_t i : std::exchange(inGraphs_, {})) {
      if (!outcomes_[i].is(State::Ok)) continue;
      Timing t;
      if (Status s = time(i, {3e6, 3, 50, 0}, t); !s) return failed(i, s);
      const std::string &code = compiled_[i].code;
      for (size_t k = 0; k < outcomes_.size(); ++k)
        if (k == i || (!code.empty() && compiled_[k].code == code && outcomes_[k].is(State::Ok)))
          outcomes_[k].record = recordOf(t), tell(k);
      if (t.medianNs < bestNs_) bestNs_ = t.medianNs, best_ = i;
    }
    return Status::ok();
  }
  static Record recordOf(const Timing &t) { return Record::ok(t.medianNs, t.lowNs, t.highNs, t.runs, now()); }
  Status settle() {
    runtime::LaunchOutcome outcome;
    return device_.synchronize(stream_, outcome);
  }

  void reject(const Memory::Apart &a) {
    std::string code = compiled_[a.who].code;
    for (size_t i : order_)
      if (i == a.who || (!code.empty() && compiled_[i].code == code)) {
        outcomes_[i].record =
            Record::bad(State::Rejected, a.argument,
                        "leaves other values in `" + a.argument + "` than most configurations do", now());
      }
  }

  /// Times those within a quarter of the best once more, longer and in turns, so that a change of clocks affects all of
  /// them.
  Status refine(const std::vector<size_t> &tried, SteadyClock::time_point start) {
    double best = INFINITY;
    for (size_t i : tried)
      if (outcomes_[i].is(State::Ok)) best = std::min(best, medianOf(i));
    std::vector<size_t> close;
    std::vector<std::string> codes;
    for (size_t i : tried) {
      const std::string &code = compiled_[i].code;
      bool twin = !code.empty() && std::find(codes.begin(), codes.end(), code) != codes.end();
      if (outcomes_[i].is(State::Ok) && medianOf(i) <= 1.25 * best && !twin) close.push_back(i), codes.push_back(code);
    }
    sortBy(close, [&](size_t i) { return medianOf(i); });
    if (close.size() > 8) close.resize(8);
    if (close.size() < 2 || request_.measure) return Status::ok();
    constexpr unsigned rounds = 3;
    std::unordered_map<size_t, std::vector<Timing>> all;
    for (unsigned r = 0; r < rounds; ++r)
      for (size_t i : close) {
        if (request_.budgetNs > 0 && secondsSince(start) * 1e9 > 2 * request_.budgetNs) return Status::ok();
        const bool inGraphs = clock_.inGraphs();
        if (Status s = time(i, {4e6, 5, 100, 0}, all[i].emplace_back()); !s) return failed(i, s);
        // All have new times already, which are not comparable with those of earlier turns.
        if (inGraphs != clock_.inGraphs()) return Status::ok();
      }
    for (size_t i : close) {
      std::vector<Timing> &t = all[i];
      std::sort(t.begin(), t.end(), [](const Timing &a, const Timing &b) { return a.medianNs < b.medianNs; });
      uint32_t runs = 0;
      for (const Timing &one : t) runs += one.runs;
      Timing middle = t[t.size() / 2];
      middle.runs = runs;
      const std::string &code = compiled_[i].code;
      for (size_t k : tried)
        if (k == i || (!code.empty() && compiled_[k].code == code)) outcomes_[k].record = recordOf(middle);
    }
    return Status::ok();
  }

  // ---- a search

  /// Sketches the points that are worth it. With a budget it takes at most a third of it.
  Status sketchAll(Search &search, SteadyClock::time_point start) {
    constexpr size_t chunk = 64;
    while (true) {
      std::vector<size_t> wanted = search.toSketch();
      if (wanted.empty()) return Status::ok();
      for (size_t begin = 0; begin < wanted.size(); begin += chunk) {
        if (!request_.deterministic && request_.budgetNs > 0 && secondsSince(start) * 3e9 > request_.budgetNs)
          return Status::ok();
        std::vector<size_t> some(wanted.begin() + static_cast<ptrdiff_t>(begin),
                                 wanted.begin() + static_cast<ptrdiff_t>(std::min(begin + chunk, wanted.size())));
        std::vector<Sketch> sketches = subject_->sketch(some, request_.threads);
        for (size_t k = 0; k < some.size(); ++k) {
          const Sketch &s = sketches[k];
          if (!s.status && !s.skip) return named(some[k], s.status);
          search.sketched(some[k], s.status ? s.estimateNs : -1);
          outcomes_[some[k]].estimateNs = s.estimateNs;
          if (s.status || outcomes_[some[k]].record) continue;
          outcomes_[some[k]].record = bad(State::Failed, s.status);
          if (first_) first_ = s.status;
        }
      }
    }
  }

  /// Reports the result of a configuration to the search.
  void tell(Search &search, size_t i) const {
    if (outcomes_[i].is(State::Ok)) search.timed(i, medianOf(i));
    else if (outcomes_[i].record) search.dropped(i);
  }

  /// Rounds of configurations, each compiled, tried and halved; finally the best of all are timed again.
  Status search() {
    auto start = SteadyClock::now();
    Search search(request_.points);
    if (Status s = sketchAll(search, start); !s) return s;
    for (size_t i = 0; i < outcomes_.size(); ++i) {
      tell(search, i);
      if (outcomes_[i].is(State::Ok) && medianOf(i) < bestNs_) bestNs_ = medianOf(i), best_ = i;
    }
    for (size_t g : request_.guesses) search.prefer(g);
    std::vector<size_t> tried;
    for (size_t round = 8; round > 0;) {
      if (request_.topK) round = std::min(round, request_.topK - std::min(tried.size(), request_.topK));
      std::vector<size_t> batch = search.next(round);
      if (batch.empty()) break;
      auto begun = SteadyClock::now();
      if (Status s = memory_.restoreAll(); !s) return s;
      if (Status s = compile(batch); !s) return s;
      std::vector<size_t> left;
      for (size_t i : batch) {
        if (outcomes_[i].record) continue; // not compiled
        Status s = tryOne(i, 1e6);
        if (outcomes_[i].record) this->tell(i);
        if (!s) return s;
        if (outcomes_[i].is(State::Ok)) left.push_back(i), tried.push_back(i);
        if (request_.progress)
          request_.progress(tried.size(), std::max(tried.size() + 1, std::min(outcomes_.size(), Search::mostTried)),
                            best_, bestNs_);
      }
      if (Status s = halve(left); !s) return s;
      for (size_t i : batch) tell(search, i);
      for (const Memory::Apart &a : memory_.outvoted()) search.dropped(a.who);
      round = search.isSettled() ? 0 : nextRound(start, begun, batch.size());
    }
    if (request_.progress) request_.progress(1, 1, best_, bestNs_);
    for (const Memory::Apart &a : memory_.outvoted()) reject(a);
    return refine(tried, start);
  }

  /// As many as the rest of the budget allows, less the final measurement of the best; 0: the search ends.
  size_t nextRound(SteadyClock::time_point start, SteadyClock::time_point begun, size_t count) const {
    constexpr size_t most = 8;
    if (request_.budgetNs <= 0) return most;
    double left = 0.8 * request_.budgetNs - secondsSince(start) * 1e9,
           each = secondsSince(begun) * 1e9 / static_cast<double>(count);
    return left <= 0 ? 0 : static_cast<size_t>(std::clamp(left / each, 1.0, static_cast<double>(most)));
  }

  /// Successive halving: times the better half of the rest for twice as long each time.
  Status halve(std::vector<size_t> left) {
    if (request_.measure) return Status::ok();
    for (double ns = 2e6; left.size() > 1; ns *= 2) {
      sortBy(left, [&](size_t i) { return medianOf(i); });
      left.resize((left.size() + 1) / 2);
      for (size_t i : left) {
        if (medianOf(i) > 1.25 * bestNs_) continue;
        Timing t;
        if (Status s = time(i, {ns, 3, 100, 0}, t); !s) return failed(i, s);
        outcomes_[i].record = recordOf(t);
      }
      if (left.size() == 1) break;
    }
    bestNs_ = INFINITY;
    for (size_t i = 0; i < outcomes_.size(); ++i)
      if (outcomes_[i].is(State::Ok) && medianOf(i) < bestNs_) bestNs_ = medianOf(i), best_ = i;
    return Status::ok();
  }

  /// Compiles the least estimates: the second estimate includes registers and other resources.
  Status searchByModel() {
    Search search(request_.points);
    if (Status s = sketchAll(search, SteadyClock::now()); !s) return s;
    for (size_t i = 0; i < outcomes_.size(); ++i)
      if (outcomes_[i].record && !outcomes_[i].is(State::Ok)) search.dropped(i);
    while (true) {
      std::vector<size_t> batch = search.next(8);
      if (batch.empty()) return none();
      if (Status s = compile(batch); !s) return s;
      double best = INFINITY;
      bool found = false;
      for (size_t i : batch) {
        if (!compiled_[i].status) continue;
        double e = outcomes_[i].estimateNs > 0 ? outcomes_[i].estimateNs : INFINITY;
        if (!found || e < best) best = e, out_.best = i;
        found = true;
      }
      out_.byModel = found;
      if (found) return Status::ok();
    }
  }

  /// The first guess that can be compiled.
  bool chooseGuess() {
    for (size_t g : request_.guesses) {
      if (outcomes_[g].record && !outcomes_[g].is(State::Ok)) continue;
      if (!compile({g}) || !compiled_[g].status) continue;
      out_.best = g;
      return out_.byModel = out_.byGuess = true;
    }
    return false;
  }

  Status none() const {
    if (!first_)
      return {first_.code, "no configuration can be used; the first one failed with: " + first_.text, first_.shortage};
    return Status::error(TEGULA_INVALID_ARGUMENT, "no configuration can be used");
  }

  Status choose() {
    double best = INFINITY;
    for (size_t i = 0; i < outcomes_.size(); ++i)
      if (outcomes_[i].is(State::Ok) && medianOf(i) < best) best = medianOf(i), out_.best = i;
    return std::isfinite(best) ? Status::ok() : none();
  }

  /// Chooses the least estimate; without a model the first usable configuration. Deterministic for the same code
  /// compiled for the same device.
  Status chooseByModel() {
    out_.byModel = true;
    double best = INFINITY;
    bool found = false;
    for (size_t i = 0; i < outcomes_.size(); ++i) {
      if (outcomes_[i].record && !outcomes_[i].is(State::Ok)) continue;
      double e = outcomes_[i].estimateNs > 0 ? outcomes_[i].estimateNs : INFINITY;
      if (!found || e < best) best = e, out_.best = i;
      found = true;
    }
    return found ? Status::ok() : none();
  }

  std::shared_ptr<Subject> subject_;
  const Request &request_;
  Result &out_;
  std::vector<Outcome> &outcomes_;
  Memory memory_;
  Clock clock_;
  runtime::Device &device_;
  void *stream_;
  std::vector<Compiled> compiled_;
  std::vector<size_t> order_; // to be timed
  std::vector<size_t> putOff_; // deferred, not compiled yet
  std::unordered_map<size_t, double> sketched_; // estimates before code generation; 0: none
  std::unordered_map<std::string, size_t> sameCode_;
  std::vector<size_t> inGraphs_; // timed in graphs, perhaps more than once
  size_t best_ = SIZE_MAX;
  double bestNs_ = INFINITY;
  Status first_; // the first failure
};
} // namespace

Status tune(const std::shared_ptr<Subject> &subject, runtime::Device &device, void *stream, const Request &request,
            Result &out) {
  auto start = SteadyClock::now();
  out = {};
  Status s = Tuning(subject, device, stream, request, out).run();
  out.seconds = secondsSince(start);
  return s;
}

} // namespace tegula::tune
