// Leases: a locked file for each entry that is being measured. The operating system releases the lock when its holder
// dies; the file then names the configuration that was running.
#include "support/Gate.h"
#include "support/Hash.h"
#include "tune/StoreImpl.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

namespace tegula::tune {

// A mark: this line, then the numbers of bytes of the configuration and of its arguments and a newline, then both
// texts.
static constexpr std::string_view markHead = "tegula runs 1\n";
static constexpr size_t markLimit = 1 << 20;

static std::string encodeMark(std::string_view config, std::string_view given) {
  given = given.substr(0, markLimit / 2), config = config.substr(0, markLimit / 4);
  std::string text(markHead);
  text += std::to_string(config.size()) + " " + std::to_string(given.size()) + "\n";
  return text.append(config).append(given);
}

/// False: not a mark, or an incomplete one.
static bool decodeMark(std::string_view text, std::string &config, std::string &given) {
  if (!text.starts_with(markHead)) return false;
  text.remove_prefix(markHead.size());
  size_t sizes[2] = {};
  for (size_t i = 0; i < 2; ++i) {
    size_t digits = 0;
    for (; digits < text.size() && digits < 7 && text[digits] >= '0' && text[digits] <= '9'; ++digits)
      sizes[i] = sizes[i] * 10 + (text[digits] - '0');
    if (digits == 0 || digits >= text.size() || text[digits] != (i == 0 ? ' ' : '\n')) return false;
    text.remove_prefix(digits + 1);
  }
  if (text.size() != sizes[0] + sizes[1]) return false;
  config = text.substr(0, sizes[0]), given = text.substr(sizes[0]);
  return true;
}

Lease::Lease(int directory, int fd, std::string name, bool exclusive)
    : directory_(directory), fd_(fd), name_(std::move(name)), exclusive_(exclusive), process_(getpid()) {}

Lease::Lease(Lease &&o) noexcept
    : directory_(std::exchange(o.directory_, -1)), fd_(std::exchange(o.fd_, -1)), name_(std::move(o.name_)),
      exclusive_(std::exchange(o.exclusive_, false)), marked_(std::exchange(o.marked_, false)), process_(o.process_) {}

Lease &Lease::operator=(Lease &&o) noexcept {
  if (this == &o) return *this;
  release();
  directory_ = std::exchange(o.directory_, -1), fd_ = std::exchange(o.fd_, -1), name_ = std::move(o.name_);
  exclusive_ = std::exchange(o.exclusive_, false), marked_ = std::exchange(o.marked_, false), process_ = o.process_;
  return *this;
}

Lease::~Lease() { release(); }

void Lease::mark(std::string_view config, std::string_view given) {
  if (fd_ < 0 || process_ != getpid()) return;
  if (marked_) clear();
  std::string text = encodeMark(config, given);
  marked_ = pwrite(fd_, text.data(), text.size(), 0) > 0;
}

void Lease::clear() {
  if (fd_ < 0 || process_ != getpid() || !std::exchange(marked_, false)) return;
  (void)!ftruncate(fd_, 0);
}

void Lease::release() {
  if (fd_ < 0) return;
  // A child shares the lock with its parent; only the parent releases it.
  if (process_ == getpid()) {
    clear();
    unlinkat(directory_, name_.c_str(), 0);
    if (exclusive_) flock(fd_, LOCK_UN);
  }
  close(std::exchange(fd_, -1));
  close(std::exchange(directory_, -1));
  exclusive_ = false;
}

/// Opens and locks the lease's file; -1: another holder has it (`isHeld`), or it cannot be made.
static int openLocked(int directory, const std::string &name, bool &exclusive, bool &isHeld) {
  // A holder removes the file when it releases it. A process that waited for that file then has the lock of a file
  // without a name, and starts again.
  for (int attempt = 0; attempt < 100; ++attempt) {
    int fd = openat(directory, name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return -1;
    exclusive = flock(fd, LOCK_EX | LOCK_NB) == 0;
    isHeld = !exclusive && errno == EWOULDBLOCK;
    struct stat s{};
    if (!isHeld && fstat(fd, &s) == 0 && (s.st_nlink > 0 || !exclusive)) return fd;
    close(fd);
    if (isHeld) return -1;
  }
  isHeld = true;
  return -1;
}

static std::string leaseName(const KernelKey &kernel, const EntryKey &key) {
  std::string hash = Hasher().field(key.device).field(key.target).field(key.arguments).field(key.version).hex();
  return stemOf(kernel) + "-" + hash.substr(0, 16) + ".lease";
}

/// Records the configuration that a dead holder was running as faulted.
void Store::Impl::recordDeath(int fd, const KernelKey &kernel, const EntryKey &key) {
  struct stat s{};
  if (fstat(fd, &s) != 0 || s.st_size == 0) return;
  std::string text(std::min<size_t>(s.st_size, markLimit), 0), config, given;
  Status status = Status::ok();
  if (pread(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) && decodeMark(text, config, given)) {
    Entry entry;
    std::string reason = "the process ended while it ran for the first time, given " + given;
    entry.configs.emplace(config, Record::bad(State::Faulted, "died", reason, now()));
    status = record(kernel, key, entry);
    // The record has the details.
    if (!status)
      warn(config, "configuration (" + config + ") of `" + kernel.name + "`: " + reason +
                       "; that cannot be kept: " + status.text);
  }
  (void)!ftruncate(fd, 0);
}

std::optional<Lease> Store::tryLease(const KernelKey &kernel, const EntryKey &key) {
  GateSection section;
  std::lock_guard lock(impl_->mutex);
  Status ignored = Status::ok();
  bool exclusive = false, isHeld = false;
  std::string name = leaseName(kernel, key);
  int fd = impl_->open(true, ignored) ? openLocked(impl_->directory, name, exclusive, isHeld) : -1;
  if (isHeld) return std::nullopt;
  // Without a place for the file every process measures separately.
  if (fd < 0) return Lease(-1, -1, "", false);
  // Without locks the mark may belong to a running process.
  if (exclusive) impl_->recordDeath(fd, kernel, key);
  return Lease(fcntl(impl_->directory, F_DUPFD_CLOEXEC, 0), fd, std::move(name), exclusive);
}

Waited Store::waitForResult(const KernelKey &kernel, const EntryKey &key,
                            const std::function<bool(const Found &)> &enough,
                            std::chrono::steady_clock::time_point deadline, const std::function<bool()> &stop) {
  using namespace std::chrono;
  for (auto pause = microseconds(500);; pause = std::min(pause * 2, microseconds(50000))) {
    Waited w;
    w.found = find(kernel, key);
    if (enough(w.found)) return w;
    if ((w.lease = tryLease(kernel, key))) {
      // The previous holder may have finished in between, or have died.
      w.found = find(kernel, key);
      if (enough(w.found)) w.lease.reset();
      return w;
    }
    auto left = duration_cast<microseconds>(deadline - steady_clock::now());
    if (left <= microseconds(0)) {
      w.timedOut = true;
      return w;
    }
    if (stop && stop()) {
      w.stopped = true;
      return w;
    }
    std::this_thread::sleep_for(std::min(pause, left));
  }
}

} // namespace tegula::tune
