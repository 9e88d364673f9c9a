// See SharedMemory.h.
#include "gpu/SharedMemory.h"
#include <algorithm>

namespace tegula::gpu {

SharedRange SharedMemory::take(uint64_t bytes, uint32_t align) {
  uint64_t at = 0;
  auto alignUp = [&](uint64_t n) { return (n + align - 1) / align * align; };
  auto place = taken_.begin();
  for (; place != taken_.end() && at + bytes > place->begin; ++place)
    at = std::max(at, alignUp(place->end));
  peak_ = std::max(peak_, at + bytes);
  return *taken_.insert(place, {at, at + bytes});
}

SharedRange SharedMemory::takeNew(uint64_t bytes, uint32_t align) {
  uint64_t at = (peak_ + align - 1) / align * align;
  peak_ = at + bytes;
  taken_.push_back({at, peak_});
  return taken_.back();
}

void SharedMemory::release(SharedRange r) {
  auto it = std::find_if(taken_.begin(), taken_.end(), [&](SharedRange t) { return t.begin == r.begin && t.end == r.end; });
  if (it != taken_.end())
    taken_.erase(it);
}

bool SharedMemory::needsBarrier(SharedRange r, bool writes) const {
  return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access &a) {
    return (a.writes || writes) && a.range.begin < r.end && r.begin < a.range.end;
  });
}

void SharedMemory::touched(SharedRange r, bool writes) { accesses_.push_back({r, writes}); }

} // namespace tegula::gpu
