#include "api/TuneRun.h"
#include "api/CompareThere.h"
#include "api/Compile.h"
#include "runtime/Cancel.h"
#include "support/Hash.h"
#include <cmath>
#include <cstdio>
#include <unistd.h>

namespace tegula::api {

using runtime::Status;

void readOptions(const TegulaTunerOptions &o, const TegulaContext &c, TuneJob &job) {
  tune::Request &r = job.request;
  r.deterministic = o.deterministic >= 0 ? o.deterministic : c.tuning.deterministic;
  r.validate = o.validate != 0;
  r.copyLimit = o.copy_bytes ? o.copy_bytes : c.tuning.copyBytes;
  r.budgetNs = o.budget_ms * 1e6;
  r.topK = o.top_k;
  if (o.compile_timeout_s > 0) r.compileTimeoutNs = o.compile_timeout_s * 1e9;
  r.threads = runtime::ThreadPool::availableCores();
  r.executor = c.pool.executor();
  r.inGraphs = o.cuda_graph != 0;
  job.persist = o.persist != 0;
  job.showProgress = o.progress >= 0 ? o.progress : isatty(2);
}

void searchIf(const TegulaTunerOptions &o, std::vector<tune::Point> points, TuneJob &job) {
  constexpr size_t sweptWhole = 32;
  if (o.search >= 0 ? !o.search : points.size() <= sweptWhole) return;
  // A list has no axes: its configurations are the values of a single one.
  for (uint32_t i = 0; points.size() < job.subject->count(); ++i) points.push_back({i});
  job.request.points = std::move(points);
}

/// A choice for the same arguments from an entry of another version or device.
struct UsedGuess {
  std::string config, device, version;
  const char *used = "first";
};

static std::string makeReport(const TuneJob &job, const std::string &device, const char *by, const tune::Result &r,
                              const TuneReport &report, const std::optional<UsedGuess> &guess) {
  auto number = [](double v) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", v);
    return std::string(text);
  };
  std::string j = "{\"function\":" + jsonString(job.name) + ",\"key\":" + jsonString(job.arguments) +
                  ",\"device\":" + jsonString(device) +
                  ",\"chosen\":" + (report.found ? std::to_string(r.best) : "null") + ",\"by\":\"" + by +
                  "\",\"seconds\":" + number(r.seconds) + ",\"clock\":\"" + r.clock +
                  "\",\"compared\":" + (r.compared ? "true" : "false") + ",\"blind\":[";
  for (size_t i = 0; i < r.blind.size(); ++i) j += (i ? "," : "") + jsonString(r.blind[i]);
  j += "],";
  if (guess)
    j += "\"guess\":{\"config\":" + jsonString(guess->config) + ",\"device\":" + jsonString(guess->device) +
         ",\"version\":" + jsonString(guess->version) + ",\"used\":\"" + guess->used + "\"},";
  if (!job.recipe.empty()) j += "\"recipe\":" + job.recipe + ",";
  j += "\"warnings\":[";
  for (size_t i = 0; i < report.warnings.size(); ++i) j += (i ? "," : "") + jsonString(report.warnings[i]);
  j += "],\"remarks\":[";
  if (r.divided)
    j += jsonString(
        job.name +
        ": no more than half of the configurations leave the same values in what they write (workspaces that depend on the configuration do so), so none is "
        "refused for that");
  j += "],\"configs\":[";
  for (size_t i = 0; i < r.outcomes.size(); ++i) {
    const tune::Outcome &o = r.outcomes[i];
    j += (i ? ",{" : "{") + std::string("\"config\":") + jsonString(job.subject->name(i)) + ",\"state\":\"" +
         (o.record ? nameOf(o.record->state) : "untried") + "\"";
    if (o.is(tune::State::Ok))
      j += ",\"median_ns\":" + number(o.record->medianNs) + ",\"low_ns\":" + number(o.record->lowNs) +
           ",\"high_ns\":" + number(o.record->highNs) + ",\"runs\":" + std::to_string(o.record->runs);
    if (o.estimateNs > 0) j += ",\"estimate_ns\":" + number(o.estimateNs);
    if (o.record && !o.record->kind.empty()) j += ",\"kind\":" + jsonString(o.record->kind);
    if (o.record && !o.record->reason.empty()) j += ",\"reason\":" + jsonString(o.record->reason);
    j += "}";
  }
  return j + "]}";
}

/// A progress line that is overwritten in place. `begun`: when the first configuration was done.
static void showProgress(const TuneJob &job, std::chrono::steady_clock::time_point begun, size_t done, size_t count,
                         size_t best, double ns) {
  constexpr size_t width = 20;
  std::string bar(done * width / count, '#');
  bar.resize(width, '.');
  std::fprintf(stderr, "\r\033[Ktuning %s [%s] %zu of %zu", job.name.c_str(), bar.c_str(), done, count);
  if (best < job.subject->count())
    std::fprintf(stderr, ", best %.2f us (%s)", ns / 1e3, job.subject->name(best).c_str());
  double each = done > 1 ? std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count() /
                               static_cast<double>(done - 1)
                         : 0;
  if (each > 0 && done < count)
    std::fprintf(stderr, ", %.0f s left", std::ceil(each * static_cast<double>(count - done)));
  if (done == count) std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

static void addWarnings(const TuneJob &job, const tune::Result &r, std::vector<std::string> &out) {
  for (size_t i = 0; i < r.outcomes.size(); ++i)
    if (const tune::Outcome &o = r.outcomes[i]; o.is(tune::State::Rejected))
      out.push_back(job.name + ": configuration (" + job.subject->name(i) + ") " + o.record->reason +
                    ", and is not used");
  for (size_t i = 0; i < r.outcomes.size() && i < job.request.known.size(); ++i)
    if (const std::optional<tune::Record> &known = job.request.known[i].record;
        known && known->state == tune::State::Faulted)
      out.push_back(job.name + ": configuration (" + job.subject->name(i) +
                    ") failed in an earlier run and is not used: " + known->reason);
  for (size_t i = 0; i < r.outcomes.size(); ++i)
    if (const tune::Outcome &o = r.outcomes[i];
        o.is(tune::State::Faulted) && (i >= job.request.known.size() || !job.request.known[i].record))
      out.push_back(job.name + ": configuration (" + job.subject->name(i) + ") is not used; " + o.record->reason);
  if (!r.whyNoGraphs.empty())
    out.push_back(job.name +
                  ": launches are timed one by one, as they cannot be recorded in CUDA graphs: " + r.whyNoGraphs);
  std::string names;
  for (const std::string &b : r.blind) names += (names.empty() ? "`" : ", `") + b + "`";
  if (!names.empty())
    out.push_back(
        job.name + ": " + names + (r.blind.size() == 1 ? " is" : " are") +
        " read and written by the kernel and cannot be set back between trials (more than TEGULA_TUNE_BYTES = " +
        std::to_string(job.request.copyLimit) +
        " bytes, or of unknown extent); in Python `restore_value` or `reset_to_zero` can, elsewhere more of these bytes");
}

std::string TuneJob::storedName(size_t i) const {
  return i < texts.size() && !texts[i].empty() ? subject->name(i) + " (" + texts[i] + ")" : subject->name(i);
}

tune::KernelKey kernelKeyOf(TegulaFunction &f, bool isFamily) {
  if (isFamily) {
    Hasher h;
    for (const Param &p : f.params()) h.field(p.name);
    return tune::KernelKey::of(f.fn->name, "written down for each configuration" + h.hex());
  }

  f.params(); // ends set-up
  return tune::KernelKey::of(f.fn->name, f.fn->sourceHash());
}

/// Times of a CPU hold for that number of threads.
static std::string deviceText(const TegulaContext &context, const DeviceEntry &device) {
  return device.index == DeviceIndex::cpu ? device.description + ", threads: " + std::to_string(context.threads)
                                          : device.description;
}

/// "0.1.0+9f3c21d0a4b7": results of another build are only guesses.
static std::string buildText() {
  std::string version = tegula_version();
  return version + "+" + Hasher().field(compilerId()).hex().substr(0, 12);
}

namespace {
/// The stored results of a job's configurations, and the lease for measuring the rest.
class Kept {
public:
  Kept(TegulaContext &context, const TuneJob &job, const DeviceEntry &device)
      : context_(context), store_(context.tuning.results()), job_(job),
        kernel_(kernelKeyOf(*job.function, !job.texts.empty())), key_{deviceText(context, device),
                                                                      device.target.name +
                                                                          (context.debug ? ", debug" : "") +
                                                                          (context.checked ? ", checked" : ""),
                                                                      job.arguments, buildText()} {}

  /// Fills in known results. True: nothing is left to do, and the choice is `out.best`.
  bool look(tune::Request &request, tune::Result &out, const char *&by, Status &status) {
    tune::Found found = store_.find(kernel_, key_);
    if (request.deterministic && chosen(found, out, by)) return true;
    guessFrom(found, request);
    if (request.deterministic) return false;
    // Configurations that a budget left untried stay untried, also for later processes, so that all make the same
    // choice.
    among_ = amongOf(request);
    auto isDone = [&](const tune::Found &f) { return !among_.empty() && f.choice && f.choice->among == among_; };
    // Without a choice, the results come from a tuning that did not end.
    auto isProvisional = [](const tune::Record &r, const tune::Found &f) {
      return r.state == tune::State::Ok && !f.choice;
    };
    auto enough = [&](const tune::Found &f) {
      for (size_t i = 0; i < job_.subject->count(); ++i)
        if (auto it = f.configs.find(job_.storedName(i)); it == f.configs.end() || isProvisional(it->second, f))
          return false;
      return true;
    };
    if (!isDone(found) && !enough(found)) {
      auto satisfies = [&](const tune::Found &f) { return isDone(f) || enough(f); };
      // Waits no longer than this for another process that measures.
      tune::Waited w =
          store_.waitForResult(kernel_, key_, satisfies, std::chrono::steady_clock::now() + std::chrono::minutes(10),
                               [&] { return isInterrupted(); });
      if (w.stopped) {
        status = Status::error(TEGULA_CANCELLED, "interrupted while another process measures the same");
        return true;
      }
      found = std::move(w.found);
      lease_ = std::move(w.lease);
    }
    if (!lease_ && isDone(found) && chosen(found, out, by)) return true;
    bool all = enough(found);
    request.known.assign(job_.subject->count(), {});
    for (size_t i = 0; i < request.known.size(); ++i)
      if (auto it = found.configs.find(job_.storedName(i)); it != found.configs.end()) {
        request.known[i].record = it->second;
        request.known[i].isProvisional = isProvisional(it->second, found);
      }
    if (all) by = "file";
    if (lease_)
      request.running = [this](size_t i, bool ended) {
        ended ? lease_->clear() : lease_->mark(job_.storedName(i), job_.arguments);
      };
    // Stores results immediately, so that the next process has those of a tuning that is killed.
    request.learnt = [this](size_t i, const tune::Outcome &o) {
      tune::Entry entry;
      entry.configs.emplace(job_.storedName(i), *o.record);
      (void)store_.record(kernel_, key_, entry); // keep() reports errors
    };
    return false;
  }

  void keep(const tune::Result &r, bool ok, std::vector<std::string> &warnings) {
    tune::Entry entry;
    for (size_t i = 0; i < r.outcomes.size(); ++i)
      if (r.outcomes[i].record) entry.configs.emplace(job_.storedName(i), *r.outcomes[i].record);
    // A choice by the model has no date and no times, so that its bytes are the same everywhere.
    if (ok)
      entry.choice = {job_.storedName(r.best), r.byModel ? tune::How::Model : tune::How::Measured,
                      r.byModel ? 0 : tune::now(), r.byModel ? "" : among_};
    if (r.byModel)
      for (auto &[name, record] : entry.configs) record.date = 0;
    if (Status s = store_.record(kernel_, key_, entry); !s) warnings.push_back(job_.name + ": " + s.text);
    lease_.reset();
  }

  std::vector<std::string> takeWarnings() { return store_.takeWarnings(); }
  /// The configuration that was tried first because of another entry.
  const std::optional<UsedGuess> &guess() const { return guess_; }

private:
  /// The set of configurations, and the requested limit of their number or time; "" if all are tried.
  std::string amongOf(const tune::Request &request) const {
    if (request.budgetNs <= 0 && !request.topK && request.points.empty()) return "";
    Hasher h;
    if (!request.points.empty()) h.field("search");
    for (size_t i = 0; i < job_.subject->count(); ++i) h.field(job_.storedName(i));
    return h.field(static_cast<uint64_t>(std::max(request.budgetNs, 0.0))).field(request.topK).hex().substr(0, 16);
  }

  /// CPU results are no guesses for GPUs.
  static std::optional<targets::Machine> machineOf(std::string_view target) {
    std::optional<Target> t = parseTarget(target.substr(0, target.find(',')));
    return t ? std::optional(t->what->machine()) : std::nullopt;
  }

  /// Takes a guess from the nearest entry of another version or device whose measured choice is one of these
  /// configurations.
  void guessFrom(const tune::Found &found, tune::Request &request) {
    for (const tune::Guess &g : found.guesses) {
      std::optional<tune::Choice> c = g.entry.chosen();
      if (!c || c->how != tune::How::Measured || found.configs.contains(c->config) ||
          machineOf(g.key.target) != machineOf(key_.target))
        continue;
      for (size_t i = 0; i < job_.subject->count(); ++i) {
        if (job_.storedName(i) != c->config) continue;
        request.guesses = {i};
        guess_ = UsedGuess{c->config, g.key.device, g.key.version};
        return;
      }
    }
  }

  bool chosen(const tune::Found &found, tune::Result &out, const char *&by) const {
    if (!found.choice) return false;
    for (size_t i = 0; i < job_.subject->count(); ++i)
      if (job_.storedName(i) == found.choice->config) {
        out.best = i;
        out.outcomes.resize(job_.subject->count());
        for (size_t k = 0; k < out.outcomes.size(); ++k)
          if (auto it = found.configs.find(job_.storedName(k)); it != found.configs.end())
            out.outcomes[k].record = it->second;
        by = "file";
        return true;
      }
    return false;
  }

  bool isInterrupted() {
    return word_.word().load(std::memory_order_relaxed) == 1 ||
           (context_.interrupt && context_.interrupt(context_.interruptUser) != 0);
  }

  TegulaContext &context_;
  runtime::CancelWord word_{context_.cancel};
  tune::Store &store_;
  const TuneJob &job_;
  tune::KernelKey kernel_;
  tune::EntryKey key_;
  std::string among_;
  std::optional<UsedGuess> guess_;
  std::optional<tune::Lease> lease_;
};
} // namespace

Status runTuning(TegulaContext &context, TuneJob &job, TuneReport &out) {
  Status status;
  DeviceEntry *entry = context.device(job.device, status);
  if (!entry) return status;
  tune::Request &request = job.request;
  std::optional<std::chrono::steady_clock::time_point> begun;
  if (job.showProgress)
    request.progress = [&](size_t done, size_t count, size_t best, double ns) {
      if (!begun) begun = std::chrono::steady_clock::now();
      showProgress(job, *begun, done, count, best, ns);
    };
  request.given = job.arguments;
  // On other devices the clock is the same, and so are the results.
  request.inGraphs = request.inGraphs && entry->device->properties().kind == runtime::DeviceProperties::Kind::Cuda;
  if (request.inGraphs) job.arguments += job.arguments.empty() ? "in CUDA graphs" : ", in CUDA graphs";
  // A copy to the host takes many times as long as reading the memory on the device; but kernels for comparing there
  // must be compiled first.
  std::optional<CompareThere> there;
  if (entry->device->properties().kind == runtime::DeviceProperties::Kind::Cuda) {
    there.emplace(context, job.device, job.stream);
    request.compareThere = std::ref(*there);
  }
  std::optional<Kept> kept;
  if (job.persist && job.function) kept.emplace(context, job, *entry);
  tune::Result result;
  const char *by = request.deterministic ? "model" : "measured";
  Status s;
  const bool isKnown = kept && kept->look(request, result, by, s);
  if (!s) return s.text = "tuning `" + job.name + "`: " + s.text, s;
  if (!isKnown) {
    s = tune::tune(job.subject, *entry->device, job.stream, request, result);
    if (kept && std::string_view(by) != "file") kept->keep(result, bool(s), out.warnings);
  }
  if (kept)
    for (std::string &w : kept->takeWarnings()) out.warnings.push_back(std::move(w));
  out.found = bool(s);
  out.best = result.best;
  if (s) addWarnings(job, result, out.warnings);
  else s.text = "tuning `" + job.name + "`: " + s.text;
  std::optional<UsedGuess> guess = kept ? kept->guess() : std::nullopt;
  if (guess && std::string_view(by) == "file") guess.reset();
  if (guess && request.deterministic) result.byGuess ? void(guess->used = "chosen") : guess.reset();
  out.json = makeReport(job, entry->device->properties().name, by, result, out, guess);
  return s;
}

} // namespace tegula::api
