// Which bytes of a block's shared memory have been accessed since all of its threads synchronized.
//
// Barriers follow from it: bytes that another thread may have written must not be accessed, bytes that another may have
// read must not be written. The back edge of a loop conservatively touches all of shared memory. order-memory, which
// places the barriers, is exact; allocate-shared, which comes before it, knows only those places where threads
// synchronize in any case.
#pragma once
#include "gpu/shared/SharedMemory.h"
#include <algorithm>
#include <set>
#include <type_traits>

namespace tegula::gpu {

/// Adds to `list` what `more` has and it lacks, in order: what two paths to a place have done. Both have what came
/// before them, which would double at each `if` in a row if it were kept twice.
template <typename List, typename More> void unite(List &list, const More &more) {
  std::set<std::remove_cvref_t<decltype(*more.begin())>> known(list.begin(), list.end());
  for (const auto &x : more)
    if (known.insert(x).second)
      list.push_back(x);
}

class SharedAccesses {
public:
  /// True if a barrier must come before an access to these bytes.
  bool needsBarrier(SharedRange r, bool writes) const {
    return std::ranges::any_of(accesses_, [&](const Access &a) { return (a.writes || writes) && a.range.overlaps(r); });
  }
  void touched(SharedRange r, bool writes) { accesses_.push_back({r, writes}); }
  /// All threads synchronized: what came before is over.
  void metAtBarrier() { accesses_.clear(); }
  /// Accesses of other paths may have come before.
  void unknownBefore() { accesses_.assign(1, {{0, UINT64_MAX}, true}); }

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
  History accesses_;
};

} // namespace tegula::gpu
