#include "tune/Clock.h"
#include <algorithm>
#include <numeric>

namespace tegula::tune {

using runtime::DeviceProperties;
using runtime::Status;

Clock::~Clock() {
  runtime::LaunchOutcome outcome;
  if (flush_) (void)device_.synchronize(stream_, outcome);
  device_.free(flush_);
}

Status Clock::open() {
  if (watch_) return Status::ok();
  const DeviceProperties &p = device_.properties();
  if (p.kind == DeviceProperties::Kind::Cuda) {
    // Twice the cache: writing exactly its size does not evict everything.
    flushBytes_ = 2 * p.l2Bytes;
    // then timed with a warm cache
    if (Status s = device_.allocate(flushBytes_, &flush_); !s) flush_ = nullptr, flushBytes_ = 0;
  }
  Status status;
  watch_ = device_.stopwatch(2 * batch, status);
  return watch_ ? Status::ok() : status;
}

Status Clock::runBatch(const Step &before, const Step &run, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    if (Status s = before(stream_); !s) return s;
    if (flush_)
      if (Status s = device_.fill(flush_, 0, flushBytes_, stream_); !s) return s;
    if (Status s = watch_->mark(2 * i, stream_); !s) return s;
    if (Status s = run(stream_); !s) return s;
    if (Status s = watch_->mark(2 * i + 1, stream_); !s) return s;
  }
  for (unsigned i = 0; i < count; ++i) {
    double ns = 0;
    if (Status s = watch_->between(2 * i, 2 * i + 1, ns); !s) return s;
    times_.push_back(ns);
  }
  return Status::ok();
}

static double quantile(const std::vector<double> &sorted, double q) {
  double at = q * static_cast<double>(sorted.size() - 1);
  auto i = static_cast<size_t>(at);
  double next = sorted[std::min(i + 1, sorted.size() - 1)];
  return sorted[i] + (at - static_cast<double>(i)) * (next - sorted[i]);
}

void Clock::summarize(uint32_t runs, Timing &out) {
  std::sort(times_.begin(), times_.end());
  out = {quantile(times_, 0.5), quantile(times_, 0.2), quantile(times_, 0.8), runs};
}

/// Slot 0: rows of `before` and `run`; slot 1: of `before` alone, if that does anything.
Status Clock::record(const Step &before, const Step &run, unsigned count) {
  size_t all = 0, others = 0;
  auto row = [&](bool runs) {
    return [&, runs]() -> Status {
      for (unsigned i = 0; i < count; ++i) {
        if (Status s = before(recorder_->stream()); !s) return s;
        if (!runs) continue;
        if (Status s = run(recorder_->stream()); !s) return s;
      }
      return Status::ok();
    };
  };
  if (Status s = recorder_->record(0, row(true), all); !s) return s;
  if (Status s = recorder_->record(1, row(false), others); !s) return s;
  return all > others ? Status::ok()
                      : Status::error(TEGULA_UNSUPPORTED, "nothing was launched on the stream that is recorded");
}

/// Launches both graphs that many times, all queued before the first wait: after the first launch, which does not
/// count, the device does not wait for the host.
Status Clock::timeGraphs(unsigned launches, unsigned runs) {
  void *own = recorder_->stream();
  for (unsigned i = 0; i < launches; ++i) {
    if (Status s = watch_->mark(3 * i, own); !s) return s;
    if (Status s = recorder_->launch(0); !s) return s;
    if (Status s = watch_->mark(3 * i + 1, own); !s) return s;
    if (Status s = recorder_->launch(1); !s) return s;
    if (Status s = watch_->mark(3 * i + 2, own); !s) return s;
  }
  times_.clear();
  for (unsigned i = 0; i < launches; ++i) {
    double all = 0, others = 0;
    if (Status s = watch_->between(3 * i, 3 * i + 1, all); !s) return s;
    if (Status s = watch_->between(3 * i + 1, 3 * i + 2, others); !s) return s;
    // A difference lost in noise is not a time.
    if (i) times_.push_back(std::max(all - others, 0.01 * all) / runs);
  }
  return Status::ok();
}

Status Clock::timeRows(const Step &before, const Step &run, Rows &rows, Status &recorded) {
  if (!recorder_) recorder_ = device_.recorder(recorded);
  if (!recorder_) return Status::ok();
  // The recorder's stream does not wait for work queued on the clock's.
  runtime::LaunchOutcome outcome;
  if (Status s = device_.synchronize(stream_, outcome); !s) return s;
  if (recorded = record(before, run, 1); !recorded) return Status::ok();
  rows.runs = 4;
  if (Status s = timeGraphs(1 + rows.runs, 1); !s) return s;
  double fastest = *std::min_element(times_.begin(), times_.end());
  if (rows.hopelessNs > 0 && fastest > rows.hopelessNs) return Status::ok();
  auto each =
      static_cast<unsigned>(std::clamp(rows.ns / rows.rows / std::max(fastest, 1.0), 1.0, double(rows.mostRuns)));
  if (each > 1)
    if (recorded = record(before, run, each); !recorded) return Status::ok();
  rows.runs = rows.rows * each;
  return timeGraphs(1 + rows.rows, each);
}

Status Clock::graphTimes(const Step &work, double ns, unsigned rows, std::vector<double> &out) {
  if (Status s = open(); !s) return s;
  Rows r{ns, std::min(rows, 20u), 1000};
  Status recorded;
  if (Status s = timeRows([](void *) { return Status::ok(); }, work, r, recorded); !s || !recorded)
    return s ? recorded : s;
  return out = times_, Status::ok();
}

Status Clock::measure(const Step &before, const Step &run, const Effort &effort, Timing &out) {
  if (Status s = open(); !s) return s;
  if (inGraphs_) {
    constexpr double startNs = 20e3; // the longest start of a graph
    Rows rows{effort.ns, 5, 200, effort.hopelessNs > 0 ? effort.hopelessNs + startNs : 0};
    Status recorded;
    if (Status s = timeRows(before, run, rows, recorded); !s) return s;
    if (recorded) return summarize(rows.runs, out), Status::ok();
    if (recorded.code == TEGULA_FAULT || recorded.code == TEGULA_CANCELLED) return recorded;
    inGraphs_ = false;
    whyNoGraphs_ = recorded.text;
  }
  times_.clear();
  constexpr unsigned first = 3;
  if (Status s = runBatch(before, run, first); !s) return s;
  double fastest = *std::min_element(times_.begin(), times_.end());
  if (effort.hopelessNs <= 0 || fastest <= effort.hopelessNs) {
    double wanted = std::clamp(effort.ns / std::max(fastest, 1.0), double(effort.minRuns), double(effort.maxRuns));
    for (auto more = static_cast<unsigned>(wanted); times_.size() < more;)
      if (Status s = runBatch(before, run, std::min<unsigned>(batch, more - static_cast<unsigned>(times_.size()))); !s)
        return s;
  }
  return summarize(static_cast<uint32_t>(times_.size()), out), Status::ok();
}

} // namespace tegula::tune
