// The bytes of a block's shared memory that are taken while allocate-shared walks a kernel.
//
// The walk of structured code is in order, and a tile lives from its operation to its last user in the same block. So
// taking the lowest free bytes is a linear scan over live ranges.
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
  /// Takes the lowest free bytes. `align` is a power of two.
  SharedRange take(uint64_t bytes, uint32_t align);
  /// Takes bytes that have never been taken before.
  SharedRange takeNew(uint64_t bytes, uint32_t align);
  void release(SharedRange r);
  /// Takes all bytes that `other`, made as a copy of this, has taken since then, even those that it has released.
  void takeAllOf(const SharedMemory &other);
  /// The end of the highest bytes taken now.
  uint64_t top() const { return taken_.empty() ? 0 : taken_.back().end; }
  /// The highest end of bytes taken at any time.
  uint64_t peak() const { return peak_; }

private:
  std::vector<SharedRange> taken_; // by begin
  std::vector<SharedRange> ever_;  // taken at some time
  uint64_t peak_ = 0;
};

} // namespace tegula::gpu
