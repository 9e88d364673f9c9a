// Which bytes of a block's shared memory have been accessed since all of its threads synchronized.
//
// Barriers follow from this: without a barrier, bytes that another thread may have written must not be accessed, and
// bytes that another thread may have read must not be written. The back edge of a loop conservatively touches all of
// shared memory. order-memory, which places the barriers, records every synchronization; allocate-shared, which comes
// before it, records only those that happen in any case.
#pragma once
#include "gpu/shared/SharedMemory.h"
#include <algorithm>
#include <set>
#include <type_traits>

namespace tegula::gpu {

/// Appends to `list` the elements of `more` that it lacks, in order: the union of the accesses on two paths to a point.
/// Both paths have the accesses before the branch, which would double at each `if` in a row if they were kept twice.
template <typename List, typename More> void unite(List &list, const More &more) {
  std::set<std::remove_cvref_t<decltype(*more.begin())>> known(list.begin(), list.end());
  for (const auto &x : more)
    if (known.insert(x).second)
      list.push_back(x);
}

class SharedAccesses {
public:
  /// Must a barrier come before an access to these bytes?
  bool needsBarrier(SharedRange r, bool writes) const {
    return std::ranges::any_of(accesses_, [&](const Access &a) { return (a.writes || writes) && a.range.overlaps(r); });
  }
  void touched(SharedRange r, bool writes) { accesses_.push_back({r, writes}); }
  /// All threads have synchronized: earlier accesses are complete.
  void metAtBarrier() { accesses_.clear(); }
  /// Assumes that all bytes may have been accessed, on other paths.
  void unknownBefore() { accesses_.assign(1, {{0, UINT64_MAX}, true}); }

  struct Access {
    SharedRange range;
    bool writes;
    auto operator<=>(const Access &) const = default;
  };
  /// Accesses since the last barrier. setHistory replaces them by those of another path to this point, addHistory adds
  /// those.
  using History = std::vector<Access>;
  const History &history() const { return accesses_; }
  void setHistory(History h) { accesses_ = std::move(h); }
  void addHistory(const History &h) { unite(accesses_, h); }

private:
  History accesses_;
};

} // namespace tegula::gpu
