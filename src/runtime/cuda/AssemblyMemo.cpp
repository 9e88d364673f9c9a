#include "runtime/cuda/AssemblyMemo.h"
#include "support/Hash.h"

namespace tegula::runtime::cuda {

std::string AssemblyMemo::key(std::string_view ptx, const AssembleOptions &o) {
  return Hasher()
      .field(ptx)
      .field(o.arch)
      .field(o.maxRegisters)
      .field(o.optLevel)
      .field(o.lineInfo)
      .field(o.sharedBytes.value_or(~0ull))
      .hex();
}

std::shared_ptr<const Assembly> AssemblyMemo::find(const std::string &key) {
  std::lock_guard lock(mutex_);
  auto it = index_.find(key);
  if (it == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, it->second);
  return it->second->made;
}

void AssemblyMemo::keep(const std::string &key, std::shared_ptr<const Assembly> made) {
  std::lock_guard lock(mutex_);
  if (index_.contains(key)) return; // another thread was faster
  entries_.push_front({key, std::move(made)});
  index_.emplace(entries_.front().key, entries_.begin());
  bytes_ += entries_.front().bytes();
  while (bytes_ > mostBytes_) {
    bytes_ -= entries_.back().bytes();
    index_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

} // namespace tegula::runtime::cuda
