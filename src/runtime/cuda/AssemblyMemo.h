// What was assembled last in this process. Specializations and configurations of a kernel often have the same text (a
// loop without a pipeline under another num_stages, another divisor that nothing reads), and the assembler takes most
// of the time of a compilation.
#pragma once
#include "runtime/cuda/Assembler.h"
#include <list>
#include <mutex>
#include <unordered_map>

namespace tegula::runtime::cuda {

/// Thread-safe.
class AssemblyMemo {
public:
  /// Keeps results of `mostBytes` at most, those that were used last.
  explicit AssemblyMemo(size_t mostBytes) : mostBytes_(mostBytes) {}

  /// Stands for everything that determines a result of one assembler.
  static std::string key(std::string_view ptx, const AssembleOptions &options);
  /// Null if it is not kept.
  std::shared_ptr<const Assembly> find(const std::string &key);
  void keep(const std::string &key, std::shared_ptr<const Assembly> made);

private:
  struct Entry {
    std::string key;
    std::shared_ptr<const Assembly> made;
    size_t bytes() const { return key.size() + made->cubin.size() + made->log.size(); }
  };
  std::mutex mutex_;
  std::list<Entry> entries_; // used last: first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> index_; // by the keys in entries_
  size_t bytes_ = 0;
  const size_t mostBytes_;
};

} // namespace tegula::runtime::cuda
