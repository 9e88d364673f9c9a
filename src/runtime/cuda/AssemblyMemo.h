// The latest results of the assembler in this process. Specializations and configurations of a kernel often have the
// same text (a loop without a pipeline under another num_stages, another divisor of an unused value), and assembling is
// most of the time of a compilation.
#pragma once
#include "runtime/cuda/Assembler.h"
#include <list>
#include <mutex>
#include <unordered_map>

namespace tegula::runtime::cuda {

/// Thread-safe.
class AssemblyMemo {
public:
  /// Keeps the most recently used results, up to `mostBytes`.
  explicit AssemblyMemo(size_t mostBytes) : mostBytes_(mostBytes) {}

  /// Identifies everything that determines the result of one assembler.
  static std::string key(std::string_view ptx, const AssembleOptions &options);
  /// Null if it is not in the memo.
  std::shared_ptr<const Assembly> find(const std::string &key);
  void keep(const std::string &key, std::shared_ptr<const Assembly> made);

private:
  struct Entry {
    std::string key;
    std::shared_ptr<const Assembly> made;
    size_t bytes() const { return key.size() + made->cubin.size() + made->log.size(); }
  };
  std::mutex mutex_;
  std::list<Entry> entries_; // most recently used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> index_; // by the keys in entries_
  size_t bytes_ = 0;
  const size_t mostBytes_;
};

} // namespace tegula::runtime::cuda
