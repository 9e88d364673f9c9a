// A block's shared memory while allocate-shared walks a kernel: which bytes are taken.
//
// Structured code is walked in order, so a tile lives from its operation to the last user in the same block, and taking
// the lowest free bytes then is allocation by liveness.
#pragma once
#include <compare>
#include <cstdint>
#include <vector>

namespace tegula::gpu {

/// Bytes [begin, end) from the start of the block's dynamic shared memory.
struct SharedRange {
  uint64_t begin = 0, end = 0;
  uint64_t size() const { return end - begin; }
  bool overlaps(SharedRange r) const { return begin < r.end && r.begin < end; }
  auto operator<=>(const SharedRange &) const = default;
};

class SharedMemory {
public:
  /// Tiles that asynchronous dots and block copies use start at multiples of 1024 bytes, the period of their swizzle.
  static constexpr uint32_t tileAlign = 1024;
  /// The lowest free bytes. Alignment is a power of two.
  SharedRange take(uint64_t bytes, uint32_t align);
  /// Bytes that nothing has had before.
  SharedRange takeNew(uint64_t bytes, uint32_t align);
  void release(SharedRange r);
  /// Takes all that `other`, once a copy of this, has taken since, even if it has released it.
  void takeAllOf(const SharedMemory &other);
  /// End of the highest bytes that are taken now.
  uint64_t top() const { return taken_.empty() ? 0 : taken_.back().end; }
  /// Most bytes taken at one time.
  uint64_t peak() const { return peak_; }

private:
  std::vector<SharedRange> taken_; // by begin
  std::vector<SharedRange> ever_;  // taken at some time
  uint64_t peak_ = 0;
};

} // namespace tegula::gpu
