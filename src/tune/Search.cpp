#include "tune/Search.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tegula::tune {

namespace {
constexpr size_t sketchWhole = 2048, sketchSpread = 512, sketchMost = 4096, sketchFrom = 24;
} // namespace

Search::Search(std::vector<Point> points) : points_(std::move(points)), sorted_(points_.size()), all_(points_.size()) {
  std::iota(sorted_.begin(), sorted_.end(), size_t(0));
  std::sort(sorted_.begin(), sorted_.end(),
            [&](size_t a, size_t b) { return std::tie(points_[a], a) < std::tie(points_[b], b); });
  for (const Point &p : points_) {
    extents_.resize(std::max(extents_.size(), p.size()), 1);
    for (size_t a = 0; a < p.size(); ++a) extents_[a] = std::max(extents_[a], p[a] + 1);
  }
  for (uint32_t e : extents_) terms_.emplace_back(e, 0.0);
}

/// Visits the nearest existing point on either side along each axis, across points that the constraint excludes.
void Search::forEachNeighbour(size_t i, const std::function<void(size_t)> &f) const {
  Point p = points_[i];
  for (size_t a = 0; a < p.size(); ++a) {
    const uint32_t here = p[a];
    for (int way : {-1, 1})
      for (int64_t v = int64_t(here) + way; v >= 0 && v < extents_[a]; v += way) {
        p[a] = static_cast<uint32_t>(v);
        auto at = std::lower_bound(sorted_.begin(), sorted_.end(), p,
                                   [&](size_t k, const Point &q) { return points_[k] < q; });
        if (at == sorted_.end() || points_[*at] != p) continue;
        f(*at);
        break;
      }
    p[a] = here;
  }
}

std::vector<size_t> Search::toSketch() {
  std::vector<size_t> out;
  auto ask = [&](size_t i) {
    if (all_[i].asked || sketches_ >= sketchMost) return;
    all_[i].asked = true;
    ++sketches_;
    out.push_back(i);
  };
  if (sketches_ == 0) {
    const size_t n = points_.size();
    if (n <= sketchWhole)
      for (size_t i = 0; i < n; ++i) ask(i);
    else
      // Not a multiple of an axis length, so that every value of every axis occurs.
      for (size_t k = 0; k < sketchSpread; ++k)
        ask(static_cast<size_t>(std::fmod((static_cast<double>(k) + 0.5) * 0.6180339887498949, 1.0) *
                                static_cast<double>(n)));
    return out;
  }
  std::vector<size_t> best = byPrediction();
  best.resize(std::min(best.size(), sketchFrom));
  for (size_t i : best) forEachNeighbour(i, ask);
  return out;
}

void Search::sketched(size_t i, double ns) {
  Candidate &c = all_[i];
  if (c.state != State::Unknown) return;
  c.state = ns < 0 ? State::Dropped : State::Sketched;
  c.estimate = std::max(ns, 0.0);
}

double Search::predicted(size_t i) const {
  const Candidate &c = all_[i];
  if (c.estimate <= 0) return std::numeric_limits<double>::infinity();
  double log = std::log(c.estimate) + base_;
  for (size_t a = 0; a < points_[i].size(); ++a) log += terms_[a][points_[i][a]];
  return std::exp(log);
}

std::vector<size_t> Search::byPrediction() const {
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < all_.size(); ++i)
    if (all_[i].state == State::Sketched) order.emplace_back(predicted(i), i);
  std::sort(order.begin(), order.end());
  std::vector<size_t> out;
  for (auto &[ns, i] : order) out.push_back(i);
  return out;
}

/// Backfitting with shrinkage: a value seen once moves halfway.
void Search::correct() {
  std::vector<std::pair<size_t, double>> seen; // configuration, log of the ratio
  for (size_t i = 0; i < all_.size(); ++i)
    if (const Candidate &c = all_[i]; c.state == State::Timed && c.estimate > 0)
      seen.emplace_back(i, std::log(c.measured / c.estimate));
  if (seen.empty()) return;
  base_ = 0;
  for (auto &[i, r] : seen) base_ += r / static_cast<double>(seen.size());
  for (std::vector<double> &t : terms_) std::fill(t.begin(), t.end(), 0.0);
  for (int sweep = 0; sweep < 4; ++sweep)
    for (size_t a = 0; a < terms_.size(); ++a) {
      std::vector<double> sum(terms_[a].size()), count(terms_[a].size());
      for (auto &[i, r] : seen) {
        double rest = r - base_;
        for (size_t b = 0; b < terms_.size(); ++b)
          if (b != a) rest -= terms_[b][points_[i][b]];
        sum[points_[i][a]] += rest;
        count[points_[i][a]] += 1;
      }
      for (size_t v = 0; v < sum.size(); ++v) terms_[a][v] = sum[v] / (count[v] + 1);
    }
}

bool Search::isTwin(size_t i, const std::vector<size_t> &of) const {
  const double e = all_[i].estimate;
  return std::any_of(of.begin(), of.end(), [&](size_t k) {
    const double other = all_[k].estimate;
    if (e == other) return true;
    size_t apart = 0;
    for (size_t a = 0; a < points_[i].size(); ++a) apart += points_[i][a] != points_[k][a];
    return apart == 1 && std::abs(e - other) <= 1e-3 * e;
  });
}

std::vector<size_t> Search::next(size_t most) {
  if (begun_) {
    const bool better = bestNs_ > 0 && (roundStart_ <= 0 || bestNs_ < 0.99 * roundStart_);
    idleRounds_ = better ? 0 : idleRounds_ + 1;
    roundStart_ = bestNs_;
    correct();
  }
  begun_ = true;
  std::vector<size_t> out;
  auto ask = [&](size_t i) {
    if (out.size() >= most || (all_[i].state != State::Sketched && all_[i].state != State::Unknown)) return;
    all_[i].state = State::Asked;
    ++tried_;
    out.push_back(i);
  };
  for (size_t i : std::exchange(preferred_, {})) ask(i);
  std::vector<size_t> near;
  if (best_ != SIZE_MAX) forEachNeighbour(best_, [&](size_t n) { near.push_back(n); });
  std::sort(near.begin(), near.end(),
            [&](size_t a, size_t b) { return std::pair(predicted(a), a) < std::pair(predicted(b), b); });
  auto neighbour = near.begin();
  std::vector<size_t> seen;
  for (size_t i = 0; i < all_.size(); ++i)
    if (all_[i].state == State::Timed || all_[i].state == State::Asked) seen.push_back(i);
  const std::vector<size_t> order = byPrediction();
  // A twin with a fast prediction is worth more than another one with a slow prediction.
  const double far = order.empty() ? 0 : 1.5 * predicted(order.front());
  for (bool twins : {false, true})
    for (size_t i : order) {
      if (out.size() >= most || (!twins && predicted(i) > far)) break;
      while (out.size() % 4 == 3 && neighbour != near.end()) {
        size_t before = out.size();
        ask(*neighbour++);
        if (out.size() > before) break;
      }
      if (!twins && isTwin(i, seen)) continue;
      seen.push_back(i);
      ask(i);
    }
  // Without estimates the order is the space's.
  for (size_t i = 0; i < all_.size() && out.size() < most; ++i)
    if (all_[i].state == State::Unknown && (sketches_ == 0 || out.empty())) ask(i);
  return out;
}

void Search::timed(size_t i, double ns) {
  all_[i].state = State::Timed;
  all_[i].measured = ns;
  if (best_ == SIZE_MAX || ns < bestNs_) best_ = i, bestNs_ = ns;
}

void Search::dropped(size_t i) { all_[i].state = State::Dropped; }

} // namespace tegula::tune
