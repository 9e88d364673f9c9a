// Shared by Store.cpp and Lease.cpp.
#pragma once
#include "tune/Files.h"
#include "tune/Store.h"
#include <set>
#include <sys/stat.h>

namespace tegula::tune {

std::string stemOf(const KernelKey &kernel);

/// All members are guarded by `mutex`, which is only taken in a GateSection.
struct Store::Impl {
  explicit Impl(const Places &places) : places(places) {}
  ~Impl();

  struct Cached {
    bool isRead = false; // `results` is the content of the file with this `stat`, or empty
    bool isGood = false; // and the file was readable
    struct stat stat {};
    Results results;
  };

  void warn(const std::string &about, std::string text);
  std::string path() const;
  bool open(bool make, Status &status);
  void putAside(const std::string &name, const std::string &why);
  Status readForUpdate(const std::string &name, Cached &cached);
  /// Under the lock of the directory: `change` gets the current content and returns whether to write it.
  template <typename F> Status update(const std::string &name, F &&change);
  Status record(const KernelKey &kernel, const EntryKey &key, const Entry &entry);
  /// `key` null: all entries.
  Status forget(const KernelKey &kernel, const EntryKey *key, std::string_view config, size_t &count);
  void recordDeath(int fd, const KernelKey &kernel, const EntryKey &key);
  const Results &load(int at, const std::string &name, Trust trust, bool isOurs);
  template <typename F> void forEachLayer(const KernelKey &kernel, F &&f);

  const Places &places;
  std::mutex mutex;
  int directory = -1;
  bool isTidy = false;
  std::map<std::string, Cached> files;
  std::vector<std::string> warnings;
  std::set<std::string> warned;
};

} // namespace tegula::tune
