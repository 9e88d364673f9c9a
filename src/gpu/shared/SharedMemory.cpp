// See SharedMemory.h.
#include "gpu/shared/SharedMemory.h"
#include <algorithm>

namespace tegula::gpu {

SharedRange SharedMemory::take(uint64_t bytes, uint32_t align) {
  uint64_t at = 0;
  auto alignUp = [&](uint64_t n) { return (n + align - 1) / align * align; };
  auto place = taken_.begin();
  for (; place != taken_.end() && at + bytes > place->begin; ++place)
    at = std::max(at, alignUp(place->end));
  peak_ = std::max(peak_, at + bytes);
  ever_.push_back({at, at + bytes});
  return *taken_.insert(place, ever_.back());
}

SharedRange SharedMemory::takeNew(uint64_t bytes, uint32_t align) {
  uint64_t at = (peak_ + align - 1) / align * align;
  peak_ = at + bytes;
  taken_.push_back({at, peak_});
  ever_.push_back(taken_.back());
  return taken_.back();
}

void SharedMemory::takeAllOf(const SharedMemory &other) {
  std::vector<SharedRange> more(other.ever_.begin() + static_cast<long>(ever_.size()), other.ever_.end());
  std::ranges::sort(more);
  size_t last = taken_.size();
  for (SharedRange r : more)
    if (taken_.size() > last && r.begin <= taken_.back().end)
      taken_.back().end = std::max(taken_.back().end, r.end);
    else
      taken_.push_back(r);
  std::ranges::sort(taken_);
  peak_ = std::max(peak_, other.peak_);
  ever_.insert(ever_.end(), more.begin(), more.end());
}

void SharedMemory::release(SharedRange r) {
  auto it =
      std::find_if(taken_.begin(), taken_.end(), [&](SharedRange t) { return t.begin == r.begin && t.end == r.end; });
  if (it != taken_.end())
    taken_.erase(it);
}

} // namespace tegula::gpu
