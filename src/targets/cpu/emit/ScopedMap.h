// A map whose entries are removed at the end of the scope that they were added in.
#pragma once
#include <cstddef>
#include <map>
#include <vector>

namespace tegula::cpu {

/// A map that can drop the entries added since a mark: values computed in a loop or a branch do not dominate the code
/// after it. Copying the map for each of a thousand consecutive loops instead would take quadratic time.
template <typename Key, typename T> class ScopedMap {
public:
  T &operator[](const Key &key) {
    auto [it, isNew] = map_.try_emplace(key);
    if (isNew)
      added_.push_back(it);
    return it->second;
  }
  size_t mark() const { return added_.size(); }
  void backTo(size_t mark) {
    for (; added_.size() > mark; added_.pop_back())
      map_.erase(added_.back());
  }

private:
  std::map<Key, T> map_;
  std::vector<typename std::map<Key, T>::iterator> added_; // in this order
};

} // namespace tegula::cpu
