// A block's shared memory while a kernel is walked (OrderMemory.h): which bytes are taken, and which have been touched since the last barrier.
//
// Structured code is walked in order, so a tile lives from its operation to the last user in the same block, and taking the
// lowest free bytes then is allocation by liveness. Barriers follow from what was read and written since the last one: bytes
// that another thread may have written must not be touched, bytes that another may have read must not be written. What came
// around a loop is unknown and counts as everything.
#pragma once
#include <compare>
#include <cstdint>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

namespace tegula::gpu {

/// Bytes [begin, end) from the start of the block's dynamic shared memory.
struct SharedRange {
  uint64_t begin = 0, end = 0;
  uint64_t size() const { return end - begin; }
  auto operator<=>(const SharedRange &) const = default;
};

/// Adds to `list` what `more` has and it lacks, in order: what two paths to a place have done. Both have what came before
/// them, which would double at each `if` in a row if it were kept twice.
template <typename List, typename More> void unite(List &list, const More &more) {
  std::set<std::remove_cvref_t<decltype(*more.begin())>> known(list.begin(), list.end());
  for (const auto &x : more)
    if (known.insert(x).second)
      list.push_back(x);
}

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

  /// True if a barrier must come before an access to these bytes.
  bool needsBarrier(SharedRange r, bool writes) const;
  void touched(SharedRange r, bool writes);
  /// All threads met: what came before is over.
  void metAtBarrier() { accesses_.clear(); }
  /// Accesses of other paths may have come before.
  void unknownBefore() { accesses_.assign(1, {{0, UINT64_MAX}, true}); }
  /// Anything touched since the last barrier?
  bool isQuiet() const { return accesses_.empty(); }

  struct Access {
    SharedRange range;
    bool writes;
    auto operator<=>(const Access &) const = default;
  };
  /// Accesses since the last barrier. Of another path to this place: instead of those here, or beside them.
  using History = std::vector<Access>;
  const History &history() const { return accesses_; }
  void setHistory(History h) { accesses_ = std::move(h); }
  void addHistory(const History &h) { unite(accesses_, h); }

private:
  std::vector<SharedRange> taken_; // by begin
  std::vector<SharedRange> ever_;  // taken at some time
  History accesses_;
  uint64_t peak_ = 0;
};

} // namespace tegula::gpu
