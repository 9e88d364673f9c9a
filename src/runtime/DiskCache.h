// Directories of cache entries: read-only ones are searched first, then a writable one. Failures never reach the user:
// they are counted, and the first reason is kept for `tegula cache --stat`.
#pragma once
#include "runtime/CacheFile.h"
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>

namespace tegula::runtime {

/// Thread-safe; any number of processes may share the directories. Entries are in a subdirectory of their own, mode
/// 0700.
///
/// The content of an entry is executed, so files that another user may have written are not read
/// (docs/rationale/runtime.md):
///   - the directory given, the subdirectory and each entry belong to this user, and no other user may write to them;
///     in read-only layers root may own them too, and the directory given may be one like /tmp (root's, sticky);
///   - an entry of the writable layer is signed with the secret in the subdirectory's `.secret`, made with the first
///     use.
/// A file that fails a check counts as missing; the first one is reported to `onRefusal`.
class DiskCache {
public:
  static constexpr uint64_t defaultLimit = uint64_t(1) << 30;
  /// Opens nothing before the first use. An empty `directory` means no writable layer. When the entries exceed `limit`
  /// bytes, the least recently used are removed until three quarters of it are left (ages have a resolution of a day).
  DiskCache(std::string directory, std::vector<std::string> readOnly, uint64_t limit = defaultLimit);
  ~DiskCache();
  DiskCache(const DiskCache &) = delete;

  /// Called at most once, from any thread, with a sentence; set it before the first use.
  std::function<void(const std::string &)> onRefusal;

  bool find(const Digest &key, CacheEntry &entry);
  void store(const Digest &key, const CacheEntry &entry);
  /// Removes the entries of the writable directory; returns their number.
  uint64_t clear();
  struct Usage {
    uint64_t entries = 0, bytes = 0;
  };
  Usage usage();

  /// The directory of the entries; "" if there is no writable layer.
  std::string path() const;
  /// Why the writable layer is not used; "" if it is used.
  std::string disabledReason();
  std::atomic<uint64_t> hits{0}, writes{0}, errors{0}, corrupted{0}, evicted{0}, refused{0};

private:
  void open();
  void fail(std::string why);
  void refuse(std::string why);
  int openLayer(const std::string &directory, bool readOnly);
  bool openSecret();
  void makeRoom(uint64_t added);
  bool readEntry(int dir, const std::string &where, const std::string &name, const Digest &key, CacheEntry &entry);

  std::string directory_;
  std::vector<std::string> readOnly_;
  std::once_flag opened_;
  int writable_ = -1;
  std::vector<std::pair<int, std::string>> readOnlyFds_; // with their paths
  Secret secret_{};
  std::once_flag toldRefusal_;
  std::mutex mutex_;
  std::string reason_;
  std::atomic<uint64_t> temporaries_{0};
  uint64_t limit_;
  std::mutex roomMutex_;
  std::optional<uint64_t> bytes_; // in the writable directory, as far as this process knows
};

/// $TEGULA_CACHE_DIR (set to nothing: no disk cache), else $XDG_CACHE_HOME/tegula, else $HOME/.cache/tegula, else "".
std::string defaultCacheDirectory();

} // namespace tegula::runtime
