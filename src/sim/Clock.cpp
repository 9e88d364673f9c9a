// Pool of clocks and the maximum of two.
#include "sim/Clock.h"
#include <algorithm>
#include <cstring>

namespace tegula::sim {

void Clocks::reset(uint32_t threads) {
  if (threads != threads_)
    all_.clear();
  threads_ = threads;
  firstAgent_ = threads + threads / 32 + (threads / 32 + 3) / 4;
  entries_ = firstAgent_ + agentCount;
  nextAgent_ = 0;
  now = 1;
  free_.clear();
  for (auto &c : all_)
    c->refs = 0, free_.push_back(c.get());
  lastA_ = lastB_ = lastResult_ = withOf_ = withResult_ = nullptr;
}

Clock *Clocks::make(const Clock *from) {
  if (free_.empty()) {
    all_.push_back(std::make_unique<Clock>());
    all_.back()->know = std::make_unique<uint32_t[]>(entries_);
    all_.back()->proxy = std::make_unique<uint32_t[]>(threads_);
    free_.push_back(all_.back().get());
  }
  Clock *c = free_.back();
  free_.pop_back();
  c->refs = 1;
  c->mark = 0;
  c->floor = from ? from->floor : 0;
  if (from) {
    std::memcpy(c->know.get(), from->know.get(), entries_ * 4);
    std::memcpy(c->proxy.get(), from->proxy.get(), threads_ * 4);
  } else {
    std::memset(c->know.get(), 0, entries_ * 4);
    std::memset(c->proxy.get(), 0, threads_ * 4);
  }
  return c;
}

void Clocks::merge(Clock &to, const Clock &from) const {
  if (&to == &from)
    return;
  to.floor = std::max(to.floor, from.floor);
  uint32_t *a = to.know.get(), *p = to.proxy.get();
  const uint32_t *b = from.know.get(), *q = from.proxy.get();
  for (uint32_t i = 0; i < entries_; ++i)
    a[i] = a[i] > b[i] ? a[i] : b[i];
  for (uint32_t i = 0; i < threads_; ++i)
    p[i] = p[i] > q[i] ? p[i] : q[i];
}

Clock *Clocks::join(Clock *a, Clock *b) {
  if (a == b)
    return share(a);
  if (a == lastA_ && b == lastB_)
    return share(lastResult_);
  Clock *result = make(a);
  merge(*result, *b);
  // The remembered pair holds references, so that its addresses cannot come to mean other clocks.
  Clock *old[3] = {lastA_, lastB_, lastResult_};
  lastA_ = share(a), lastB_ = share(b), lastResult_ = share(result);
  for (Clock *c : old)
    drop(c);
  return result;
}

Clock *Clocks::with(Clock *a, uint32_t who, uint32_t stamp) {
  if (a == withOf_ && who == withWho_ && stamp == withStamp_)
    return share(withResult_);
  Clock *result = make(a);
  result->know[who] = std::max(result->know[who], stamp);
  Clock *old[2] = {withOf_, withResult_};
  withOf_ = share(a), withResult_ = share(result), withWho_ = who, withStamp_ = stamp;
  for (Clock *c : old)
    drop(c);
  return result;
}

void Clocks::meet(Clock &to, const Clock &from) const {
  to.floor = std::min(to.floor, from.floor);
  for (uint32_t i = 0; i < entries_; ++i)
    to.know[i] = std::min(to.know[i], from.know[i]);
  for (uint32_t i = 0; i < threads_; ++i)
    to.proxy[i] = std::min(to.proxy[i], from.proxy[i]);
}

} // namespace tegula::sim
