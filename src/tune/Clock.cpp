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
    // Twice the cache: what is written last is not all of what was there before.
    flushBytes_ = 2 * p.l2Bytes;
    if (Status s = device_.allocate(flushBytes_, &flush_); !s) flush_ = nullptr, flushBytes_ = 0; // timed with a warm cache then
  }
  Status status;
  watch_ = device_.stopwatch(2 * batch, status);
  return watch_ ? Status::ok() : status;
}

Status Clock::runBatch(const Step &before, const Step &run, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    if (Status s = before(); !s) return s;
    if (flush_)
      if (Status s = device_.fill(flush_, 0, flushBytes_, stream_); !s) return s;
    if (Status s = watch_->mark(2 * i, stream_); !s) return s;
    if (Status s = run(); !s) return s;
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

Status Clock::measure(const Step &before, const Step &run, const Effort &effort, Timing &out) {
  if (Status s = open(); !s) return s;
  times_.clear();
  constexpr unsigned first = 3;
  if (Status s = runBatch(before, run, first); !s) return s;
  double fastest = *std::min_element(times_.begin(), times_.end());
  if (effort.hopelessNs <= 0 || fastest <= effort.hopelessNs) {
    double wanted = std::clamp(effort.ns / std::max(fastest, 1.0), double(effort.minRuns), double(effort.maxRuns));
    for (auto more = static_cast<unsigned>(wanted); times_.size() < more;)
      if (Status s = runBatch(before, run, std::min<unsigned>(batch, more - static_cast<unsigned>(times_.size()))); !s) return s;
  }
  std::sort(times_.begin(), times_.end());
  out = {quantile(times_, 0.5), quantile(times_, 0.2), quantile(times_, 0.8), static_cast<uint32_t>(times_.size())};
  return Status::ok();
}

} // namespace tegula::tune
