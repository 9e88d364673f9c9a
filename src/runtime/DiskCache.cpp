// All file access is relative to directory descriptors, so a checked directory cannot be replaced afterwards.
#include "runtime/DiskCache.h"
#include "runtime/OwnFiles.h"
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace tegula::runtime {

static constexpr const char *subdirectory = "kernels-1";
static constexpr const char *suffix = ".kernel";
static constexpr const char *secretName = ".secret";
static constexpr off_t sizeLimit = off_t(1) << 30; // of one entry
static constexpr time_t secondsOfDay = 24 * 60 * 60;

std::string defaultCacheDirectory() {
  auto env = [](const char *name) -> std::string {
    const char *v = std::getenv(name);
    return v ? v : "";
  };
  if (const char *d = std::getenv("TEGULA_CACHE_DIR")) return d;
  if (std::string d = env("XDG_CACHE_HOME"); !d.empty() && d[0] == '/') return d + "/tegula";
  if (std::string d = env("HOME"); !d.empty()) return d + "/.cache/tegula";
  return "";
}

DiskCache::DiskCache(std::string directory, std::vector<std::string> readOnly, uint64_t limit)
    : directory_(std::move(directory)), readOnly_(std::move(readOnly)), limit_(limit) {
  while (directory_.size() > 1 && directory_.back() == '/') directory_.pop_back();
}

DiskCache::~DiskCache() {
  if (writable_ >= 0) close(writable_);
  for (auto &[fd, where] : readOnlyFds_) close(fd);
}

std::string DiskCache::path() const { return directory_.empty() ? "" : directory_ + "/" + subdirectory; }

static std::string toHex(const Digest &d) {
  std::string s;
  for (uint8_t b : d) s += "0123456789abcdef"[b >> 4], s += "0123456789abcdef"[b & 15];
  return s;
}

void DiskCache::fail(std::string why) {
  ++errors;
  std::lock_guard lock(mutex_);
  if (reason_.empty()) reason_ = std::move(why);
}

void DiskCache::refuse(std::string why) {
  ++refused;
  std::call_once(toldRefusal_, [&] {
    if (onRefusal) onRefusal(why);
  });
}

/// Opens and checks the subdirectory of a layer; -1: it does not exist (fail() was called for the writable layer), or
/// is rejected.
int DiskCache::openLayer(const std::string &directory, bool readOnly) {
  std::string why;
  bool isRefused = false;
  int fd = openOwnDirectory(directory, subdirectory, readOnly, why, isRefused);
  if (fd >= 0) return fd;
  if (isRefused) why = "the cache " + why;
  if (!readOnly) fail(why);
  if (isRefused) refuse(why + "; it is not used");
  return -1;
}

enum class SecretFile : uint8_t { Absent, Bad, Good };

/// Good: it belongs to this user only, and is complete.
static SecretFile readSecret(int dir, Secret &secret) {
  int fd = openat(dir, secretName, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return errno == ENOENT ? SecretFile::Absent : SecretFile::Bad;
  struct stat s;
  bool ok = fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() && (s.st_mode & 077) == 0 &&
            s.st_size == static_cast<off_t>(secret.size()) && readAll(fd, secret.data(), secret.size());
  close(fd);
  return ok ? SecretFile::Good : SecretFile::Bad;
}

static bool randomBytes(Secret &out) {
  for (size_t at = 0; at < out.size();) {
    ssize_t n = getrandom(out.data() + at, out.size() - at, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
  }
  return true;
}

/// Writes a secret under a temporary name and links it when complete; false: not written. An existing secret stays.
static bool writeSecret(int dir, const std::string &temporary) {
  Secret made;
  if (!randomBytes(made)) return false;
  int fd = openat(dir, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  bool ok = writeAll(fd, made.data(), made.size());
  ok &= close(fd) == 0;
  // Some file systems have no hard links: then the last of several concurrent secrets stays.
  if (ok && linkat(dir, temporary.c_str(), dir, secretName, 0) != 0 && errno != EEXIST)
    return renameat(dir, temporary.c_str(), dir, secretName) == 0;
  unlinkat(dir, temporary.c_str(), 0);
  return ok;
}

/// Reads the secret, or makes one. A secret that other users could read, or that is incomplete, is replaced: its
/// entries must be compiled again.
bool DiskCache::openSecret() {
  for (int attempt = 0; attempt < 3; ++attempt) {
    SecretFile found = readSecret(writable_, secret_);
    if (found == SecretFile::Good) return true;
    if (found == SecretFile::Bad) unlinkat(writable_, secretName, 0);
    if (!writeSecret(writable_, temporaryName(temporaries_.fetch_add(1)))) return false;
  }
  return readSecret(writable_, secret_) == SecretFile::Good;
}

void DiskCache::open() {
  for (const std::string &d : readOnly_)
    if (int fd = openLayer(d, true); fd >= 0) readOnlyFds_.push_back({fd, d + "/" + subdirectory});
  if (directory_.empty()) return;
  makeDirectories(path());
  writable_ = openLayer(directory_, false);
  if (writable_ < 0 || openSecret()) return;
  close(std::exchange(writable_, -1));
  fail("cannot read or write " + path() + "/" + secretName + ": " + std::strerror(errno));
}

std::string DiskCache::disabledReason() {
  std::call_once(opened_, [this] { open(); });
  std::lock_guard lock(mutex_);
  return writable_ >= 0 ? "" : directory_.empty() ? "no cache directory is set" : reason_;
}

bool DiskCache::readEntry(int dir, const std::string &where, const std::string &name, const Digest &key,
                          CacheEntry &entry) {
  bool readOnly = dir != writable_;
  auto refused = [&](const char *why) {
    refuse("the cache entry " + where + "/" + name + " " + why + "; the kernel is compiled again");
    return false;
  };
  int fd = openat(dir, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ELOOP) return refused("is a link");
    if (errno != ENOENT) ++errors;
    return false;
  }
  struct stat s;
  std::vector<char> bytes;
  bool ok = fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0 && s.st_size < sizeLimit;
  if (const char *why = ok ? untrusted(s, readOnly) : nullptr) {
    close(fd);
    return refused(why);
  }
  if (ok) {
    bytes.resize(s.st_size);
    ok = readAll(fd, bytes.data(), bytes.size());
  }
  // Eviction uses this time; once a day is enough, and in another owner's directory it stays unchanged.
  if (ok && time(nullptr) - s.st_mtime > secondsOfDay) (void)!futimens(fd, nullptr);
  close(fd);
  entry = {};
  if (!ok || !decodeEntry(bytes, key, entry)) {
    ++corrupted;
    return false;
  }
  // Another user's secret is not available: read-only layers are trusted by their owner.
  if (!readOnly && !isSigned(bytes, secret_)) return refused("was not written by this user");
  ++hits;
  return true;
}

bool DiskCache::find(const Digest &key, CacheEntry &entry) {
  std::call_once(opened_, [this] { open(); });
  std::string name = toHex(key) + suffix;
  for (auto &[fd, where] : readOnlyFds_)
    if (readEntry(fd, where, name, key, entry)) return true;
  return writable_ >= 0 && readEntry(writable_, path(), name, key, entry);
}

void DiskCache::store(const Digest &key, const CacheEntry &entry) {
  std::call_once(opened_, [this] { open(); });
  if (writable_ < 0) return;
  std::vector<char> bytes = encodeEntry(key, entry, secret_);
  std::string temporary = temporaryName(temporaries_.fetch_add(1));
  int fd = openat(writable_, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return fail("cannot write to " + path() + ": " + std::strerror(errno));
  bool ok = writeAll(fd, bytes.data(), bytes.size());
  int error = errno;
  ok &= close(fd) == 0;
  std::string name = toHex(key) + suffix;
  if (ok && renameat(writable_, temporary.c_str(), writable_, name.c_str()) == 0) {
    ++writes;
    makeRoom(bytes.size());
    return;
  }
  unlinkat(writable_, temporary.c_str(), 0);
  fail("cannot write to " + path() + ": " + std::strerror(error));
}

/// Calls f(name, isEntry) for the cache's files in the directory: entries, and temporaries of killed processes.
template <typename F> static void forEachFile(int dirFd, F &&f) {
  int copy = openat(dirFd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *d = copy >= 0 ? fdopendir(copy) : nullptr;
  if (!d) return;
  while (dirent *e = readdir(d)) {
    std::string_view name = e->d_name;
    if (name.ends_with(suffix)) f(e->d_name, true);
    else if (name.starts_with(temporaryPrefix)) f(e->d_name, false);
  }
  closedir(d);
}

/// After `added` bytes were written. A process reads the directory at its first write, and afterwards only if the limit
/// may be reached: other processes write too, but each keeps the limit.
void DiskCache::makeRoom(uint64_t added) {
  std::lock_guard lock(roomMutex_);
  if (bytes_ && (*bytes_ += added) <= limit_) return;
  struct Entry {
    timespec used;
    uint64_t bytes;
    std::string name;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  time_t now = time(nullptr);
  forEachFile(writable_, [&](const char *name, bool isEntry) {
    struct stat s;
    if (fstatat(writable_, name, &s, AT_SYMLINK_NOFOLLOW) != 0) return;
    // Left by a killed process; the files of running ones are young.
    if (!isEntry) {
      if (now - s.st_mtime > secondsOfDay) unlinkat(writable_, name, 0);
      return;
    }
    total += static_cast<uint64_t>(s.st_size);
    entries.push_back({s.st_mtim, static_cast<uint64_t>(s.st_size), name});
  });
  if (total > limit_) {
    std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
      return std::tie(a.used.tv_sec, a.used.tv_nsec, a.name) < std::tie(b.used.tv_sec, b.used.tv_nsec, b.name);
    });
    for (const Entry &e : entries) {
      if (total <= limit_ / 4 * 3) break;
      if (unlinkat(writable_, e.name.c_str(), 0) == 0) ++evicted;
      total -= e.bytes;
    }
  }
  bytes_ = total;
}

uint64_t DiskCache::clear() {
  std::call_once(opened_, [this] { open(); });
  uint64_t n = 0;
  if (writable_ < 0) return 0;
  forEachFile(writable_, [&](const char *name, bool isEntry) { n += unlinkat(writable_, name, 0) == 0 && isEntry; });
  std::lock_guard lock(roomMutex_);
  bytes_.reset();
  return n;
}

DiskCache::Usage DiskCache::usage() {
  std::call_once(opened_, [this] { open(); });
  Usage u;
  if (writable_ < 0) return u;
  forEachFile(writable_, [&](const char *name, bool isEntry) {
    struct stat s;
    if (!isEntry || fstatat(writable_, name, &s, AT_SYMLINK_NOFOLLOW) != 0) return;
    ++u.entries;
    u.bytes += s.st_size;
  });
  return u;
}

} // namespace tegula::runtime
