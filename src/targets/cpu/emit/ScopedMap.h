// A map whose entries end with the scope that they were made in.
#pragma once
#include <cstddef>
#include <map>
#include <vector>

namespace tegula::cpu {

/// A map that forgets what came after a mark: values made in a loop or an arm do not dominate what comes after it. A
/// copy of the map for each of a thousand loops in a row would take quadratic time.
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
