#include "tune/Memory.h"
#include <algorithm>
#include <cstring>

namespace tegula::tune {

using runtime::Status;

static std::pair<uintptr_t, uintptr_t> rangeOf(const Buffer &b) {
  auto begin = reinterpret_cast<uintptr_t>(b.address);
  return {begin, b.bytes < 0 ? begin + 1 : begin + static_cast<uintptr_t>(b.bytes)};
}

Memory::~Memory() {
  // A copy back may be in flight.
  runtime::LaunchOutcome outcome;
  if (!saved_.empty()) (void)device_.synchronize(stream_, outcome);
  for (const Saved &s : saved_) device_.free(s.copy);
  for (const Group &g : groups_) free(g.results);
  free(spare_);
}

void Memory::free(const Results &results) {
  for (const Left &l : results)
    if (l.there) device_.free(l.there);
}

bool Memory::isRead(const Buffer &b) const {
  auto [begin, end] = rangeOf(b);
  return std::any_of(reads_.begin(), reads_.end(), [&](auto &r) { return begin < r.second && r.first < end; });
}

Status Memory::add(const std::vector<Buffer> &buffers) {
  size_t known = written_.size();
  for (const Buffer &b : buffers) {
    tolerance_ = std::max(tolerance_, toleranceOf(b.dtype));
    if (b.read) reads_.push_back(rangeOf(b));
    bool have = std::any_of(written_.begin(), written_.end(),
                            [&](const Buffer &w) { return w.name == b.name && w.address == b.address; });
    if (b.written && !have) written_.push_back(b);
  }
  uint64_t total = 0;
  for (const Buffer &w : written_) total += w.bytes > 0 ? static_cast<uint64_t>(w.bytes) : 0;
  if (total > compareLimit_) compares_ = false;
  for (size_t i = 0; i < written_.size(); ++i) {
    const Buffer &w = written_[i];
    auto saved = std::find_if(saved_.begin(), saved_.end(),
                              [&](const Saved &s) { return s.buffer.name == w.name && s.buffer.address == w.address; });
    bool reads = isRead(w);
    if (saved != saved_.end()) saved->again = reads;
    else if (reads || (compares_ && i >= known))
      if (Status s = save(w); !s) return s;
  }
  return Status::ok();
}

Status Memory::save(const Buffer &b) {
  void *copy = nullptr;
  auto bytes = static_cast<uint64_t>(b.bytes);
  if (b.bytes < 0 || bytes > left_ || !device_.allocate(bytes, &copy)) {
    compares_ = false;
    bool named = std::find(blind_.begin(), blind_.end(), b.name) != blind_.end();
    if (isRead(b) && !named && !b.isReset) blind_.push_back(b.name);
    return Status::ok();
  }
  left_ -= bytes;
  saved_.push_back({b, copy, isRead(b)});
  return device_.copyWithin(copy, b.address, bytes, stream_);
}

Status Memory::restore(void *stream) {
  for (const Saved &s : saved_)
    if (s.again)
      if (Status r = device_.copyWithin(s.buffer.address, s.copy, static_cast<uint64_t>(s.buffer.bytes), stream); !r)
        return r;
  return Status::ok();
}

Status Memory::restoreAll() {
  for (const Saved &s : saved_)
    if (Status r = device_.copyWithin(s.buffer.address, s.copy, static_cast<uint64_t>(s.buffer.bytes), stream_); !r)
      return r;
  return Status::ok();
}

Status Memory::note(size_t who) {
  if (!compares_) return Status::ok();
  // reuses memory: faulting fresh pages for large results takes longer than comparing them
  Results now = std::move(spare_);
  now.resize(saved_.size());
  for (size_t i = 0; i < saved_.size(); ++i) {
    if (Status r = take(saved_[i].buffer, now[i]); !r) {
      spare_ = std::move(now);
      return r;
    }
  }
  ++noted_;
  for (Group &g : groups_)
    if (differing(g.results, now) < 0) {
      g.members.push_back(who);
      spare_ = std::move(now);
      return Status::ok();
    }
  groups_.push_back({{}, {who}});
  // A fifth different result cannot join a relevant majority; its values are not kept.
  if (groups_.size() <= 4) groups_.back().results = std::move(now);
  else spare_ = std::move(now);
  return Status::ok();
}

Status Memory::take(const Buffer &b, Left &to) {
  const auto bytes = static_cast<uint64_t>(b.bytes);
  if (there_ && bytes >= leastThere_ && !to.there && bytes <= left_ && device_.allocate(bytes, &to.there))
    left_ -= bytes;
  if (to.there) return device_.copyWithin(to.there, b.address, bytes, stream_);
  to.here.resize(bytes);
  return device_.copyOut(to.here.data(), b.address, bytes, stream_);
}

bool Memory::isSame(const Buffer &b, const Left &x, const Left &y) const {
  const auto bytes = static_cast<uint64_t>(b.bytes);
  if (x.there && y.there)
    if (std::optional<bool> same = there_(b.dtype, x.there, y.there, bytes, tolerance_)) return *same;
  // Memory that cannot be read counts as different.
  std::vector<char> copies[2];
  const char *at[2];
  for (int i = 0; i < 2; ++i) {
    const Left &l = i ? y : x;
    at[i] = l.here.data();
    if (!l.there) continue;
    copies[i].resize(bytes);
    if (!device_.copyOut(copies[i].data(), l.there, bytes, stream_)) return false;
    at[i] = copies[i].data();
  }
  return isClose(b.dtype, at[0], at[1], bytes, tolerance_);
}

int Memory::differing(const Results &a, const Results &b) const {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (!isSame(saved_[i].buffer, a[i], b[i])) return static_cast<int>(i);
  return a.empty() != b.empty() ? 0 : -1;
}

const Memory::Group *Memory::majority() const {
  auto best = std::max_element(groups_.begin(), groups_.end(),
                               [](const Group &a, const Group &b) { return a.members.size() < b.members.size(); });
  return compares_ && best != groups_.end() && best->members.size() >= 2 && 2 * best->members.size() > noted_ ? &*best
                                                                                                              : nullptr;
}

bool Memory::isDivided() const { return compares_ && groups_.size() > 1 && !majority(); }

std::vector<Memory::Apart> Memory::outvoted() const {
  std::vector<Apart> apart;
  const Group *best = majority();
  if (!best) return apart;
  for (const Group &g : groups_) {
    if (&g == best) continue;
    int at = g.results.empty() ? 0 : differing(best->results, g.results);
    for (size_t who : g.members) apart.push_back({who, saved_[static_cast<size_t>(std::max(at, 0))].buffer.name});
  }
  return apart;
}

} // namespace tegula::tune
