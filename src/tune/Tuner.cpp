#include "tune/Tuner.h"
#include "tune/CompileAhead.h"
#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace tegula::tune {

using runtime::Status;
using SteadyClock = std::chrono::steady_clock;

static double secondsSince(SteadyClock::time_point t) { return std::chrono::duration<double>(SteadyClock::now() - t).count(); }

/// For Record::kind: what Python's exception of that error is called.
static const char *kindOf(TegulaStatus code) {
  switch (code) {
  case TEGULA_OUT_OF_RESOURCES: return "OutOfResources";
  case TEGULA_ASSEMBLER_ERROR: return "PTXASError";
  case TEGULA_COMPILE_ERROR: return "CompileTimeAssertionFailure"; // of compile errors, those alone are skipped
  case TEGULA_FAULT: return "fault";
  default: return "error";
  }
}

/// By a number, equal ones by index.
template <typename Number> static void sortBy(std::vector<size_t> &list, Number number) {
  std::sort(list.begin(), list.end(), [&](size_t a, size_t b) { return std::pair(number(a), a) < std::pair(number(b), b); });
}

namespace {
class Tuning {
public:
  Tuning(const std::shared_ptr<Subject> &subject, runtime::Device &device, void *stream, const Request &request, Result &out)
      : subject_(subject), request_(request), out_(out), outcomes_(out.outcomes), memory_(device, stream, request.copyLimit, request.validate),
        clock_(device, stream), device_(device), stream_(stream) {}

  Status run() {
    outcomes_ = request_.known;
    outcomes_.resize(subject_->count());
    if (Status s = compile(); !s) return s;
    if (request_.deterministic) return chooseByModel();
    Status s = measure();
    Status back = memory_.restore();
    out_.blind = memory_.blind();
    out_.compared = memory_.compares();
    if (!s || !back) return s ? back : s;
    return choose();
  }

private:
  Status compile() {
    std::vector<size_t> wanted;
    for (size_t i = 0; i < outcomes_.size(); ++i)
      // What is known is not compiled: only the chosen one will be, by the launch. The model judges code.
      if (!outcomes_[i].record || (request_.deterministic && outcomes_[i].is(State::Ok))) wanted.push_back(i);
    if (!wanted.empty()) subject_->prepare(wanted);
    compiled_ = compileAhead(subject_, wanted, request_.threads, request_.compileTimeoutNs);
    for (size_t i : wanted) {
      Compiled &c = compiled_[i];
      if (c.status) {
        outcomes_[i].estimateNs = c.estimateNs;
        if (request_.deterministic) continue;
        if (Status s = memory_.add(c.buffers); !s) return s;
        order_.push_back(i);
        continue;
      }
      if (!c.skip) return named(i, c.status);
      outcomes_[i].record = bad(State::Failed, c.status);
      if (first_) first_ = c.status;
    }
    return Status::ok();
  }

  static Record bad(State state, const Status &s) { return Record::bad(state, kindOf(s.code), s.text, now()); }
  double medianOf(size_t i) const { return outcomes_[i].record->medianNs; }

  Status named(size_t i, Status s) const {
    s.text = "configuration (" + subject_->name(i) + "): " + s.text;
    return s;
  }

  /// The most promising ones first, so that a budget that ends has tried them.
  void sortByEstimate() {
    bool all = std::all_of(order_.begin(), order_.end(), [&](size_t i) { return outcomes_[i].estimateNs > 0; });
    if (!all) return;
    sortBy(order_, [&](size_t i) { return outcomes_[i].estimateNs; });
    if (request_.topK && order_.size() > request_.topK) order_.resize(request_.topK);
  }

  Status measure() {
    sortByEstimate();
    auto start = SteadyClock::now();
    for (const Outcome &o : outcomes_)
      if (o.is(State::Ok)) bestNs_ = std::min(bestNs_, o.record->medianNs);
    std::vector<size_t> tried;
    for (size_t k = 0; k < order_.size(); ++k) {
      size_t i = order_[k];
      if (request_.budgetNs > 0 && k > 0 && secondsSince(start) * 1e9 > request_.budgetNs) break;
      if (Status s = tryOne(i); !s) return s;
      if (outcomes_[i].is(State::Ok)) tried.push_back(i);
      if (request_.progress) request_.progress(k + 1, order_.size(), best_, bestNs_);
    }
    for (const Memory::Apart &a : memory_.outvoted()) reject(a);
    return refine(tried, start);
  }

  /// The first look at a configuration: its results, and a short time.
  Status tryOne(size_t i) {
    const std::string &code = compiled_[i].code;
    auto same = code.empty() ? sameCode_.end() : sameCode_.find(code);
    if (same != sameCode_.end()) {
      outcomes_[i].record = outcomes_[same->second].record;
      return Status::ok();
    }
    if (request_.running) request_.running(i, false);
    Status s = memory_.restoreAll();
    if (s) s = subject_->run(i);
    if (s) s = settle();
    if (s) s = memory_.note(i);
    Outcome &o = outcomes_[i];
    double hopeless = std::isfinite(bestNs_) ? 2 * bestNs_ : 0;
    Timing t;
    if (s) s = time(i, {3e6, 3, 50, hopeless}, t);
    if (request_.running && (s || s.code != TEGULA_FAULT)) request_.running(i, true);
    if (s) {
      o.record = recordOf(t);
      if (t.medianNs < bestNs_) bestNs_ = t.medianNs, best_ = i;
      if (!code.empty()) sameCode_.emplace(code, i);
      return s;
    }
    // A kernel that does not fit is found when it is launched first; what hooks change is compiled then.
    if (s.code == TEGULA_OUT_OF_RESOURCES || s.code == TEGULA_ASSEMBLER_ERROR || s.code == TEGULA_COMPILE_ERROR) {
      o.record = bad(State::Failed, s);
      if (first_) first_ = s;
      return Status::ok();
    }
    if (s.code == TEGULA_FAULT) o.record = bad(State::Faulted, s);
    return named(i, s);
  }

  Status time(size_t i, const Effort &effort, Timing &t) {
    if (request_.measure) return request_.measure(i, [this] { return memory_.restore(); }, t);
    return clock_.measure([this] { return memory_.restore(); }, [&] { return subject_->run(i); }, effort, t);
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
        outcomes_[i].record = Record::bad(State::Rejected, a.argument, "leaves other values in `" + a.argument + "` than most configurations do", now());
      }
  }

  /// Those within a quarter of the best are timed once more, longer and in turns, so that a change of clocks hits all of them.
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
        if (Status s = time(i, {4e6, 5, 100, 0}, all[i].emplace_back()); !s) return named(i, s);
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

  Status none() const {
    if (!first_) return {first_.code, "no configuration can be used; the first one failed with: " + first_.text, first_.shortage};
    return Status::error(TEGULA_INVALID_ARGUMENT, "no configuration can be used");
  }

  Status choose() {
    double best = INFINITY;
    for (size_t i = 0; i < outcomes_.size(); ++i)
      if (outcomes_[i].is(State::Ok) && medianOf(i) < best) best = medianOf(i), out_.best = i;
    return std::isfinite(best) ? Status::ok() : none();
  }

  /// The least estimate; without a model the first that can be used. The same wherever the same code is compiled for the same device.
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
  std::unordered_map<std::string, size_t> sameCode_;
  size_t best_ = SIZE_MAX;
  double bestNs_ = INFINITY;
  Status first_; // failure
};
} // namespace

Status tune(const std::shared_ptr<Subject> &subject, runtime::Device &device, void *stream, const Request &request, Result &out) {
  auto start = SteadyClock::now();
  out = {};
  Status s = Tuning(subject, device, stream, request, out).run();
  out.seconds = secondsSince(start);
  return s;
}

} // namespace tegula::tune
