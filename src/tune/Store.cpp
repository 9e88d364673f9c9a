// Layers of files, reread when they have changed; the user's is updated under a lock. Leases: Lease.cpp.
#include "tune/StoreImpl.h"
#include "support/Gate.h"
#include "support/Hash.h"
#include "runtime/OwnFiles.h"
#include "tune/Files.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tegula::tune {

static constexpr const char *subdirectory = "tune";
static constexpr const char *lockName = ".lock";
static constexpr const char *projectName = "tegula.tune.json";

/// The part of a file name that identifies the kernel, readable for people.
std::string stemOf(const KernelKey &kernel) {
  std::string stem;
  for (char c : std::string_view(kernel.name).substr(0, 80)) {
    bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    stem += plain ? c : '_';
  }
  // Hashed again: a hash that is not from KernelKey::of may be any text.
  return stem + "-" + Hasher().field(kernel.name).field(kernel.hash).hex().substr(0, 24);
}

Store::Store(Places places) : places_(std::move(places)), impl_(std::make_unique<Impl>(places_)) {}
Store::~Store() = default;

Store::Impl::~Impl() {
  if (directory >= 0) close(directory);
}

void Store::Impl::warn(const std::string &about, std::string text) {
  if (warned.insert(about).second) warnings.push_back(std::move(text));
}

std::vector<std::string> Store::takeWarnings() {
  GateSection section;
  std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->warnings, {});
}

std::string Store::Impl::path() const { return places.directory + "/" + subdirectory; }

/// Opens the user's subdirectory; false: it cannot be opened (`status`: why).
bool Store::Impl::open(bool make, Status &status) {
  if (directory >= 0) return true;
  if (places.directory.empty()) return false;
  if (make) runtime::makeDirectories(path());
  std::string why;
  bool refused = false;
  directory = runtime::openOwnDirectory(places.directory, subdirectory, false, why, refused);
  if (directory >= 0) return true;
  status = Status::error(TEGULA_IO_ERROR, refused ? "the directory of tuning results " + why : why);
  if (refused) warn(path(), status.text + "; it is not used");
  return false;
}

/// Renames a file that cannot be used, so that the next one can be written; its content is kept for people.
void Store::Impl::putAside(const std::string &name, const std::string &why) {
  std::string aside = name + ".damaged";
  bool ok = renameat(directory, name.c_str(), directory, aside.c_str()) == 0;
  warn(name, "the tuning results in `" + path() + "/" + name + "` are not used: the file " + why +
                 (ok ? "; it is `" + aside + "` now" : ""));
}

/// Compares the file's identity and properties that change when it is replaced; but not the time of its last change of
/// name or mode, which is unknown before the rename.
static bool sameFile(const struct stat &a, const struct stat &b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

/// Under the lock, so that no process has replaced the file since it was read.
Status Store::Impl::readForUpdate(const std::string &name, Cached &cached) {
  struct stat s {};
  if (cached.isGood && fstatat(directory, name.c_str(), &s, AT_SYMLINK_NOFOLLOW) == 0 && sameFile(cached.stat, s))
    return Status::ok();
  Status status = readFileAt(directory, name, Trust::Own, cached.results);
  if (status || status.code == TEGULA_NOT_FOUND) return Status::ok();
  if (status.code != TEGULA_INVALID_ARGUMENT) return status;
  putAside(name, status.text);
  return Status::ok();
}

/// Removes temporary files of killed processes; those of running ones are young.
static void removeOldTemporaries(int directory) {
  int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *d = copy >= 0 ? fdopendir(copy) : nullptr;
  if (!d) return;
  while (dirent *e = readdir(d)) {
    struct stat s {};
    if (std::string_view(e->d_name).starts_with(runtime::temporaryPrefix) &&
        fstatat(directory, e->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 && now() - s.st_mtime > 24 * 60 * 60)
      unlinkat(directory, e->d_name, 0);
  }
  closedir(d);
}

template <typename F> Status Store::Impl::update(const std::string &name, F &&change) {
  Status status = Status::ok();
  if (!open(true, status)) return status;
  int lockFile = openat(directory, lockName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lockFile < 0) return Status::error(TEGULA_IO_ERROR, "cannot write to " + path() + ": " + std::strerror(errno));
  if (!std::exchange(isTidy, true)) removeOldTemporaries(directory);
  {
    FileLock lock(lockFile);
    Cached &cached = files[path() + "/" + name];
    status = readForUpdate(name, cached);
    cached.isRead = cached.isGood = false;
    if (status && change(cached.results)) {
      if (cached.results.kernels.empty()) unlinkat(directory, name.c_str(), 0);
      else status = replaceFileAt(directory, name, cached.results, 0600, &cached.stat);
      cached.isRead = cached.isGood = static_cast<bool>(status) && !cached.results.kernels.empty();
    }
  }
  close(lockFile);
  if (!status) status.text = "`" + path() + "/" + name + "` " + status.text;
  return status;
}

/// The content of a file, from memory if it has not changed; never null.
const Results &Store::Impl::load(int at, const std::string &name, Trust trust, bool isOurs) {
  Cached &cached = files[isOurs ? path() + "/" + name : name];
  struct stat s {};
  if (fstatat(at, name.c_str(), &s, trust == Trust::Own ? AT_SYMLINK_NOFOLLOW : 0) != 0) {
    cached = {};
    return cached.results;
  }
  if (cached.isRead && sameFile(cached.stat, s)) return cached.results;
  Status status = readFileAt(at, name, trust, cached.results);
  // Read once, whatever the result: an error in a file persists until the file changes.
  cached.isRead = true, cached.isGood = static_cast<bool>(status), cached.stat = s;
  if (status || status.code == TEGULA_NOT_FOUND) return cached.results;
  if (isOurs && status.code == TEGULA_INVALID_ARGUMENT) (void)update(name, [](Results &) { return false; });
  else {
    warn(name,
         "the tuning results in `" + (isOurs ? path() + "/" : "") + name + "` are not used: the file " + status.text);
  }
  return cached.results;
}

/// Calls f(layer, entries) for each layer's entries of a kernel, nearest first.
template <typename F> void Store::Impl::forEachLayer(const KernelKey &kernel, F &&f) {
  std::string name = stemOf(kernel) + ".json";
  auto visit = [&](Layer layer, const Results &results) {
    auto at = results.kernels.find(kernel);
    if (at != results.kernels.end()) f(layer, at->second);
  };
  Status ignored = Status::ok();
  if (open(false, ignored)) visit(Layer::User, load(directory, name, Trust::Own, true));
  if (!places.project.empty())
    visit(Layer::Project,
          load(AT_FDCWD, places.project, places.projectWasFound ? Trust::NotPublic : Trust::Anybody, false));
  for (const std::string &p : places.readOnly) {
    struct stat s{};
    if (stat(p.c_str(), &s) != 0) continue;
    if (!S_ISDIR(s.st_mode)) {
      visit(Layer::ReadOnly, load(AT_FDCWD, p, Trust::Anybody, false));
      continue;
    }
    visit(Layer::ReadOnly, load(AT_FDCWD, p + "/" + subdirectory + "/" + name, Trust::Anybody, false));
    visit(Layer::ReadOnly, load(AT_FDCWD, p + "/" + projectName, Trust::Anybody, false));
  }
}

/// The date of an entry's newest content.
static Date newest(const Entry &e) {
  Date d = e.choice ? e.choice->date : 0;
  for (auto &[config, record] : e.configs) d = std::max(d, record.date);
  return d;
}

bool isSameRelease(std::string_view a, std::string_view b) {
  return a.substr(0, a.find('+')) == b.substr(0, b.find('+'));
}

Found Store::find(const KernelKey &kernel, const EntryKey &key) {
  GateSection section;
  std::lock_guard lock(impl_->mutex);
  Found found;
  Entry exact; // choice of the nearest layer that has one, records as in `found`
  unsigned distance = 0;
  impl_->forEachLayer(kernel, [&](Layer layer, const Entries &entries) {
    for (auto &[other, entry] : entries) {
      if (other.arguments != key.arguments) continue;
      bool sameDevice = other.device == key.device && other.target == key.target;
      bool sameVersion =
          layer == Layer::User ? other.version == key.version : isSameRelease(other.version, key.version);
      if (!sameDevice || !sameVersion) {
        found.guesses.push_back({other, entry, layer, distance, sameDevice, sameVersion});
        continue;
      }
      exact.configs.insert(entry.configs.begin(), entry.configs.end());
      if (!exact.choice) exact.choice = entry.chosen();
    }
    ++distance;
  });
  found.choice = exact.chosen();
  found.configs = std::move(exact.configs);
  auto rank = [](const Guess &g) {
    return std::make_tuple(!g.sameDevice, !g.sameVersion, g.distance, -newest(g.entry), std::cref(g.key));
  };
  std::sort(found.guesses.begin(), found.guesses.end(),
            [&](const Guess &a, const Guess &b) { return rank(a) < rank(b); });
  return found;
}

Status Store::Impl::record(const KernelKey &kernel, const EntryKey &key, const Entry &entry) {
  return update(stemOf(kernel) + ".json", [&](Results &results) {
    Entries &entries = results.kernels[kernel];
    entries[key].update(entry);
    // Builds change often; for a while, the results of earlier ones are guesses for the next.
    constexpr size_t others = 3;
    std::vector<std::pair<Date, EntryKey>> old;
    for (auto &[other, e] : entries)
      if (other.device == key.device && other.target == key.target && other.arguments == key.arguments &&
          other.version != key.version)
        old.emplace_back(newest(e), other);
    std::sort(old.begin(), old.end(), std::greater<>());
    for (size_t i = others; i < old.size(); ++i) entries.erase(old[i].second);
    return true;
  });
}

Status Store::record(const KernelKey &kernel, const EntryKey &key, const Entry &entry) {
  if (entry.isEmpty()) return Status::ok();
  // A file could not represent it, and later look-ups would not find the result.
  bool isText = isUtf8(kernel.name) && isUtf8(kernel.hash);
  for (const std::string *part : {&key.device, &key.target, &key.arguments, &key.version}) isText &= isUtf8(*part);
  for (auto &[config, record] : entry.configs) isText &= isUtf8(config);
  if (!isText || (entry.choice && !(isUtf8(entry.choice->config) && isUtf8(entry.choice->among))))
    return Status::error(TEGULA_INVALID_ARGUMENT, "a name, a class of arguments or a configuration is not UTF-8");
  GateSection section;
  std::lock_guard lock(impl_->mutex);
  return impl_->record(kernel, key, entry);
}

/// Removes a configuration of an entry, or all of them; returns the number removed.
static size_t erase(Entry &e, std::string_view config) {
  if (config.empty()) {
    size_t all = e.configs.size();
    e = {};
    return all;
  }
  // Stored with the text that it was measured with, or without one.
  auto isMeant = [&](std::string_view name) {
    return name.starts_with(config) && (name.size() == config.size() || name.substr(config.size()).starts_with(" ("));
  };
  if (e.choice && isMeant(e.choice->config)) e.choice.reset();
  return std::erase_if(e.configs, [&](const auto &c) { return isMeant(c.first); });
}

Status Store::forget(const KernelKey &kernel, const EntryKey &key, std::string_view config) {
  GateSection section;
  std::lock_guard lock(impl_->mutex);
  size_t count = 0;
  return impl_->forget(kernel, &key, config, count);
}

Status Store::forget(const KernelKey &kernel, std::string_view config, size_t &count) {
  GateSection section;
  std::lock_guard lock(impl_->mutex);
  return impl_->forget(kernel, nullptr, config, count = 0);
}

Status Store::Impl::forget(const KernelKey &kernel, const EntryKey *key, std::string_view config, size_t &count) {
  return update(stemOf(kernel) + ".json", [&](Results &results) {
    auto entries = results.kernels.find(kernel);
    if (entries == results.kernels.end()) return false;
    bool found = false;
    for (auto e = entries->second.begin(); e != entries->second.end();) {
      const bool isMeant = !key || e->first == *key;
      found |= isMeant;
      if (isMeant) count += erase(e->second, config);
      e = isMeant && e->second.isEmpty() ? entries->second.erase(e) : std::next(e);
    }
    if (entries->second.empty()) results.kernels.erase(entries);
    return found;
  });
}

Status Store::writeProject(const KernelKey &kernel, const std::string &path) {
  const std::string &to = path.empty() ? places_.project : path;
  if (to.empty())
    return Status::error(TEGULA_INVALID_ARGUMENT,
                         "no project file is named, and there is no `tegula.tune.json` above the working directory");
  GateSection section;
  std::lock_guard lock(impl_->mutex);
  Results known;
  impl_->forEachLayer(kernel, [&](Layer layer, const Entries &entries) {
    if (layer == Layer::User) known.kernels[kernel] = entries;
  });
  size_t slash = to.rfind('/');
  std::string folder = slash == std::string::npos ? "." : to.substr(0, std::max<size_t>(slash, 1));
  int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Status::error(TEGULA_IO_ERROR, "`" + folder + "` cannot be opened: " + std::strerror(errno));
  Status status = Status::ok();
  {
    FileLock fileLock(fd);
    Results results;
    status = readFile(to, results);
    if (status.code == TEGULA_NOT_FOUND) status = Status::ok();
    if (status) {
      for (auto &[name, entries] : known.kernels)
        for (auto &[key, entry] : entries) results.kernels[name][key].update(entry);
      status = writeFile(to, results);
    }
  }
  close(fd);
  return status;
}

} // namespace tegula::tune
