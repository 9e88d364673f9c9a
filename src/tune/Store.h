// Where tuning results live: layers of files that are looked up, one of which is written, and leases, by which
// processes that want the same results measure once.
//
//   1. The user's directory: a file for each kernel, <directory>/tune/<name>-<hash>.json. The only layer that is
//     written without being asked.
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

/// Where a Store looks. An empty path: not there.
struct Places {
  /// Written; made with the first write. Results are in its subdirectory `tune`, with the rules of the disk cache
  /// (runtime/OwnFiles.h): the directory, the subdirectory and each file belong to this user and nobody else may write
  /// to them.
  std::string directory;
  std::string project;
  /// The project's file is searched for, not named: it is read only if it is this user's or root's and not everybody
  /// may write to it.
  bool projectWasFound = false;
  /// Nearest first; each is a file, or a directory like `directory` or one with a `tegula.tune.json`.
  std::vector<std::string> readOnly;

  /// From the environment: $TEGULA_TUNE_DIR (set to nothing: nothing is written), else the directory of the disk cache;
  /// $TEGULA_TUNE_FILE (set to nothing: none), else findProject() is to search for it; $TEGULA_TUNE_PATH, separated by
  /// colons. Looks at no file.
  static Places fromEnvironment();
  /// Searches for a project's file that was not named: the nearest `tegula.tune.json` from the working directory
  /// upwards.
  void findProject();
};

enum class Layer : uint8_t { User, Project, ReadOnly };

/// A version may name the build behind a `+`: "0.1.0+9f3c21d0a4b7". The user's files are of one build; what somebody
/// checked in or handed on counts for all builds of its version.
bool isSameRelease(std::string_view a, std::string_view b);

/// An entry for the same arguments, of another version or another device.
struct Guess {
  EntryKey key;
  Entry entry;
  Layer layer = Layer::User;
  /// 0: the nearest file that was looked at.
  unsigned distance = 0;
  bool sameDevice = false, sameVersion = false; // not both
};

struct Found {
  /// Of this device and version: for each configuration what the nearest layer says.
  std::map<std::string, Record> configs;
  /// Entry::chosen of the nearest layer that has one, unless `configs` has something worse to say; then the fastest of
  /// `configs`.
  std::optional<Choice> choice;
  /// First those of this device, then those of this version, then others; within them the nearest layer, the newest, by
  /// text.
  std::vector<Guess> guesses;
};

/// The right to measure an entry. Moves; goes with its object, or with its process. A child made by fork does not own
/// its parent's; but if the parent dies, it goes with the last child that has not called exec.
class Lease {
public:
  Lease(Lease &&other) noexcept;
  Lease &operator=(Lease &&other) noexcept;
  ~Lease();

  /// Before a configuration runs for the first time: should the process die, the next holder of the lease records it as
  /// faulted, of kind "died", with `given` in its reason. One system call; it replaces the mark before.
  void mark(std::string_view config, std::string_view given);
  /// It came back, whatever it came to.
  void clear();
  void release();
  /// False: the directory or its file system knows no locks, and others may measure the same.
  bool isExclusive() const { return exclusive_; }

private:
  friend class Store;
  Lease(int directory, int fd, std::string name, bool exclusive);
  int directory_ = -1, fd_ = -1; // own
  std::string name_;
  bool exclusive_ = false, marked_ = false;
  int64_t process_ = 0;
};

/// Without `lease` and not timed out: somebody else's results satisfy. With `lease`: nobody else measures, and nobody
/// has.
struct Waited {
  Found found;
  std::optional<Lease> lease;
  bool timedOut = false, stopped = false;
};

/// Thread-safe; any number of processes may share the places. Nothing is opened before the first use. No trouble with a
/// file is an error of a look-up: the file is as if it were not there, and a warning says why.
class Store {
public:
  explicit Store(Places places);
  ~Store();
  Store(const Store &) = delete;

  const Places &places() const { return places_; }

  Found find(const KernelKey &kernel, const EntryKey &key);

  /// Joins `entry` to what the user's directory knows of `key`; its choice, if it has one, replaces the one there. Of
  /// what other versions know of the same device and arguments the newest three stay. Without a directory that can be
  /// written: ok, and nothing is kept. IO_ERROR: it could not be written.
  Status record(const KernelKey &kernel, const EntryKey &key, const Entry &entry);
  /// Forgets a configuration of the user's directory (one that faulted because of a mended driver, say); an empty one:
  /// the whole entry.
  Status forget(const KernelKey &kernel, const EntryKey &key, std::string_view config = {});
  /// The same for all entries of a kernel. Gives how many records went.
  Status forget(const KernelKey &kernel, std::string_view config, size_t &count);
  /// Joins what all the layers know about a kernel to the project's file, or to `path` if that is not empty.
  Status writeProject(const KernelKey &kernel, const std::string &path = {});

  /// The right to measure; none: another process or thread has it. What a holder that died left is recorded as faulted
  /// before it returns.
  std::optional<Lease> tryLease(const KernelKey &kernel, const EntryKey &key);
  /// Until the results for `key` satisfy `enough`, or the lease is free, or the deadline has passed, or `stop`, asked
  /// about twenty times a second, says so.
  Waited waitForResult(const KernelKey &kernel, const EntryKey &key, const std::function<bool(const Found &)> &enough,
                       std::chrono::steady_clock::time_point deadline, const std::function<bool()> &stop = {});

  /// Sentences about files that were put aside, refused or not understood since the last call; each file once.
  std::vector<std::string> takeWarnings();

private:
  struct Impl;
  Places places_;
  std::unique_ptr<Impl> impl_;
};

/// Reads a file of results. NOT_FOUND: there is none; IO_ERROR; else as parse(), with the path before the text.
Status readFile(const std::string &path, Results &out);
/// Writes a file of results: readers see what was there before or all of the new. IO_ERROR.
Status writeFile(const std::string &path, const Results &results);

} // namespace tegula::tune
