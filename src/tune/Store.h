// Where tuning results live: layers of files that are searched, one of which is written, and leases, which let
// processes that want the same results measure them once.
//
//   1. The user's directory: a file for each kernel, <directory>/tune/<name>-<hash>.json. The only layer that is
//     written without an explicit request.
//   2. The project's file, `tegula.tune.json`, with results of many kernels; for version control. Store::writeProject
//     adds to it.
//   3. Files and directories that are only read.
//
// What one process of many does, with a kernel's configurations `mine`:
//
//   Found found = store.find(kernel, key);              // known: a map, or a choice; `guesses` of other versions and devices
//   if (everything of mine is in found.configs) return the fastest;
//   Waited w = store.waitForResult(kernel, key, [&](const Found &f) { return everything of mine is in f.configs; },
//     deadline);
//   if (!w.lease) use w.found;                          // somebody else measured (or the deadline has passed)
//   else for (config : missing) {
//     w.lease->mark(config, "x: fp16 4096x4096, ...");  // should this process die now, the next one knows of what
//     measure it; w.lease->clear();
//   }
//   store.record(kernel, key, entry);                   // before the lease goes
#pragma once
#include "tune/Results.h"
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace tegula::tune {

/// Where a Store searches. An empty path: there is no such place.
struct Places {
  /// Writable; created by the first write. Results are in its subdirectory `tune`, with the rules of the disk cache
  /// (runtime/OwnFiles.h): the directory, the subdirectory and each file belong to this user, and no other user may
  /// write to them.
  std::string directory;
  std::string project;
  /// The project's file is searched for, not named: it is read only if it belongs to this user or root and is not
  /// writable for everyone.
  bool projectWasFound = false;
  /// Nearest first; each is a file, or a directory like `directory` or one with a `tegula.tune.json`.
  std::vector<std::string> readOnly;

  /// From the environment: $TEGULA_TUNE_DIR (empty: nothing is written), else the directory of the disk cache;
  /// $TEGULA_TUNE_FILE (empty: none), else findProject() is to search for it; $TEGULA_TUNE_PATH, separated by colons.
  /// Accesses no file.
  static Places fromEnvironment();
  /// Searches for a project's file that was not named: the nearest `tegula.tune.json` from the working directory
  /// upwards.
  void findProject();
};

enum class Layer : uint8_t { User, Project, ReadOnly };

/// A version may name the build after a `+`: "0.1.0+9f3c21d0a4b7". The user's files are valid for one build; files that
/// were checked in or passed on are valid for all builds of their version.
bool isSameRelease(std::string_view a, std::string_view b);

/// An entry for the same arguments, from another version or another device.
struct Guess {
  EntryKey key;
  Entry entry;
  Layer layer = Layer::User;
  /// 0: the nearest file searched.
  unsigned distance = 0;
  bool sameDevice = false, sameVersion = false; // not both
};

struct Found {
  /// For this device and version: the record of each configuration from the nearest layer that has one.
  std::map<std::string, Record> configs;
  /// Entry::chosen of the nearest layer that has one, unless `configs` has a bad record of it; then the fastest of
  /// `configs`.
  std::optional<Choice> choice;
  /// Those of this device first, then those of this version, then others; within each group by nearness of the layer,
  /// then newest first, then by text.
  std::vector<Guess> guesses;
};

/// The right to measure an entry. Movable; ends with its object or its process. A child made by fork does not own its
/// parent's lease; but if the parent dies, the lease ends with the last child that has not called exec.
class Lease {
public:
  Lease(Lease &&other) noexcept;
  Lease &operator=(Lease &&other) noexcept;
  ~Lease();

  /// Called before a configuration runs for the first time: if the process dies, the next holder of the lease records
  /// the configuration as faulted, of kind "died", with `given` in its reason. One system call; replaces the previous
  /// mark.
  void mark(std::string_view config, std::string_view given);
  /// The configuration returned, with whatever result.
  void clear();
  void release();
  /// False: the directory or its file system supports no locks, and other processes may measure the same.
  bool isExclusive() const { return exclusive_; }

private:
  friend class Store;
  Lease(int directory, int fd, std::string name, bool exclusive);
  int directory_ = -1, fd_ = -1; // own
  std::string name_;
  bool exclusive_ = false, marked_ = false;
  int64_t process_ = 0;
};

/// Without `lease` and not timed out: results of another process or thread satisfy. With `lease`: no other one measures
/// or has measured.
struct Waited {
  Found found;
  std::optional<Lease> lease;
  bool timedOut = false, stopped = false;
};

/// Thread-safe; any number of processes may share the places. Opens nothing before the first use. A file that cannot be
/// used is not an error of a look-up: it counts as missing, and a warning says why.
class Store {
public:
  explicit Store(Places places);
  ~Store();
  Store(const Store &) = delete;

  const Places &places() const { return places_; }

  Found find(const KernelKey &kernel, const EntryKey &key);

  /// Joins `entry` to the entry of `key` in the user's directory; its choice, if it has one, replaces the existing one.
  /// Keeps the newest three entries of other versions for the same device and arguments. Without a writable directory:
  /// OK, and nothing is stored. IO_ERROR: the write failed.
  Status record(const KernelKey &kernel, const EntryKey &key, const Entry &entry);
  /// Removes a configuration from the user's directory (one that faulted because of a driver since repaired, say); an
  /// empty `config` removes the whole entry.
  Status forget(const KernelKey &kernel, const EntryKey &key, std::string_view config = {});
  /// The same for all entries of a kernel. `count` is the number of removed records.
  Status forget(const KernelKey &kernel, std::string_view config, size_t &count);
  /// Joins the results of all layers for a kernel to the project's file, or to `path` if that is not empty.
  Status writeProject(const KernelKey &kernel, const std::string &path = {});

  /// The right to measure; nullopt: another process or thread has it. Before it returns, records as faulted the mark of
  /// a holder that died.
  std::optional<Lease> tryLease(const KernelKey &kernel, const EntryKey &key);
  /// Waits until the results for `key` satisfy `enough`, or the lease is free, or the deadline has passed, or `stop`,
  /// called about twenty times a second, returns true.
  Waited waitForResult(const KernelKey &kernel, const EntryKey &key, const std::function<bool(const Found &)> &enough,
                       std::chrono::steady_clock::time_point deadline, const std::function<bool()> &stop = {});

  /// Sentences about files that were moved aside, rejected or not understood since the last call; one for each file.
  std::vector<std::string> takeWarnings();

private:
  struct Impl;
  Places places_;
  std::unique_ptr<Impl> impl_;
};

/// Reads a file of results. NOT_FOUND: there is none; IO_ERROR; else as parse(), with the path before the text.
Status readFile(const std::string &path, Results &out);
/// Writes a file of results: readers see the old content or all of the new. IO_ERROR.
Status writeFile(const std::string &path, const Results &results);

} // namespace tegula::tune
