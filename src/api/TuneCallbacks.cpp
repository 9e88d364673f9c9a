// tegula_tune: a tuning whose configurations are compiled and launched by callbacks.
#include "api/TuneRun.h"
#include "api/Sized.h"
#include "api/TuneSubject.h"
#include <algorithm>
#include <cstddef>
#include <cstring>

using namespace tegula;
using namespace tegula::api;
using runtime::Status;

struct TegulaTuning {
  const tune::Clock::Step *restore;
  void *stream;
};

namespace {
class CallbackSubject final : public tune::Subject {
public:
  explicit CallbackSubject(const TegulaTuneRequest &r) : r_(r) {}
  size_t count() const override { return r_.count; }
  std::string name(size_t i) const override { return r_.configs[i]; }
  void prepare(const std::vector<size_t> &wanted) override {
    if (r_.prepare) r_.prepare(r_.user, wanted.data(), wanted.size());
  }
  std::vector<tune::Sketch> sketch(const std::vector<size_t> &wanted, unsigned) override {
    std::vector<tune::Sketch> out(wanted.size());
    std::vector<double> ns(wanted.size(), 0.0);
    if (r_.sketch) r_.sketch(r_.user, wanted.data(), wanted.size(), ns.data());
    for (size_t k = 0; k < wanted.size(); ++k) out[k].estimateNs = std::max(ns[k], 0.0);
    return out;
  }
  tune::Compiled compile(size_t i) override {
    TegulaTuneCode code{};
    code.size = sizeof code;
    tune::Compiled out;
    if (TegulaStatus s = r_.compile(r_.user, i, &code); s != TEGULA_OK) {
      out.status = statusOf(s);
      if (s == TEGULA_FAULT && r_.arguments) out.status.text += std::string(", given ") + r_.arguments;
      out.skip =
          s == TEGULA_FAULT || s == TEGULA_OUT_OF_RESOURCES || s == TEGULA_ASSEMBLER_ERROR || s == TEGULA_COMPILE_ERROR;
      return out;
    }
    for (size_t k = 0; k < code.buffer_count; ++k) {
      const TegulaTuneBuffer &b = code.buffers[k];
      out.buffers.push_back(
          {b.name ? b.name : "", b.address, b.bytes, b.dtype, b.read != 0, b.written != 0, b.is_reset != 0});
    }
    if (code.code) out.code.assign(static_cast<const char *>(code.code), code.code_length);
    out.estimateNs = code.estimate_ns;
    return out;
  }
  Status run(size_t i, void *stream) override {
    if (stream == r_.stream) return statusOf(r_.run(r_.user, i));
    return r_.run_on ? statusOf(r_.run_on(r_.user, i, stream))
                     : Status::error(TEGULA_UNSUPPORTED, "launches go to one stream only");
  }
  Status measure(size_t i, const tune::Clock::Step &restore, tune::Timing &out) {
    TegulaTuning tuning{&restore, r_.stream};
    double ns[3] = {0, 0, 0};
    if (TegulaStatus s = r_.measure(r_.user, i, &tuning, ns); s != TEGULA_OK) return statusOf(s);
    out = {ns[0], ns[1], ns[2], 1};
    return Status::ok();
  }

private:
  static Status statusOf(TegulaStatus s) {
    if (s == TEGULA_OK) return Status::ok();
    Status last = lastStatus();
    // A callback that set no error of its own.
    return last.code == s ? last : Status::error(s, tegula_status_name(s));
  }
  const TegulaTuneRequest &r_;
};
} // namespace

TegulaStatus tegula_tune(TegulaContext *c, const TegulaTuneRequest *request, char **report) {
  TegulaTuneRequest r{};
  if (!c || !report || !takeSized(request, r) || !r.compile || !r.run || (!r.configs && r.count))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_tune: null argument or `size` not set");
  for (size_t i = 0; i < r.count; ++i)
    if (!r.configs[i]) return fail(TEGULA_INVALID_ARGUMENT, "tegula_tune: a configuration is null");
  if (!r.count) return fail(TEGULA_INVALID_ARGUMENT, "tegula_tune: there are no configurations");
  TegulaTunerOptions options = TEGULA_TUNER_OPTIONS_INIT;
  if (r.options && !takeSized(r.options, options))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_tune: `size` of the options is not set");
  auto subject = std::make_shared<CallbackSubject>(r);
  TuneJob job;
  job.subject = subject;
  job.name = r.name ? r.name : "";
  job.function = r.function;
  job.arguments = r.arguments ? r.arguments : "";
  job.device = r.device;
  job.stream = r.stream;
  readOptions(options, *c, job);
  std::vector<tune::Point> points;
  for (size_t i = 0; r.coordinates && i < r.count; ++i)
    points.emplace_back(r.coordinates + i * r.axis_count, r.coordinates + (i + 1) * r.axis_count);
  searchIf(options, std::move(points), job);
  job.request.threads = 0; // callbacks compile in their own way
  if (r.measure)
    job.request.measure = [&](size_t i, const tune::Clock::Step &restore, tune::Timing &t) {
      return subject->measure(i, restore, t);
    };
  TuneReport result;
  Status s = runTuning(*c, job, result);
  *report = nullptr;
  if (!result.json.empty()) {
    *report = static_cast<char *>(std::malloc(result.json.size() + 1));
    std::memcpy(*report, result.json.c_str(), result.json.size() + 1);
  }
  return s ? TEGULA_OK : fail(s);
}

TegulaStatus tegula_tuning_restore_on(TegulaTuning *t, void *stream) {
  if (!t) return fail(TEGULA_INVALID_ARGUMENT, "tegula_tuning_restore: null argument");
  Status s = (*t->restore)(stream);
  return s ? TEGULA_OK : fail(s);
}
TegulaStatus tegula_tuning_restore(TegulaTuning *t) { return tegula_tuning_restore_on(t, t ? t->stream : nullptr); }

TegulaStatus tegula_graph_times(TegulaContext *c, int32_t device, TegulaStatus (*work)(void *user, void *stream),
                                void *user, double ms, double *ns, size_t count) {
  if (!c || !work || !ns || !count) return fail(TEGULA_INVALID_ARGUMENT, "tegula_graph_times: null argument");
  Status status;
  DeviceEntry *entry = c->device(device, status);
  std::vector<double> times;
  if (entry)
    status =
        tune::Clock(*entry->device, nullptr, true)
            .graphTimes(
                [&](void *stream) -> Status { return work(user, stream) == TEGULA_OK ? Status::ok() : lastStatus(); },
                ms * 1e6, count, times);
  if (!status) return fail(status);
  std::copy(times.begin(), times.end(), ns);
  return TEGULA_OK;
}

TegulaStatus tegula_fail(TegulaStatus status, const char *text) { return fail(status, text ? text : ""); }
