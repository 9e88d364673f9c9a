#include "tune/Files.h"
#include "runtime/DiskCache.h"
#include "runtime/OwnFiles.h"
#include "tune/Store.h"
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace tegula::tune {

static Status ioError(const char *what, int error) {
  return Status::error(error == ENOENT ? TEGULA_NOT_FOUND : TEGULA_IO_ERROR,
                       std::string(what) + ": " + std::strerror(error));
}

/// The reason why a file is rejected; null: it is accepted.
static const char *refusalOf(const struct stat &s, Trust trust) {
  if (!S_ISREG(s.st_mode)) return "is not a regular file";
  if (trust == Trust::Own) return runtime::untrusted(s, false);
  if (trust == Trust::Anybody) return nullptr;
  if (s.st_uid != geteuid() && s.st_uid != 0) return "belongs to another user; `TEGULA_TUNE_FILE` can name it";
  return s.st_mode & S_IWOTH ? "can be written by every user; `TEGULA_TUNE_FILE` can name it" : nullptr;
}

Status readFileAt(int directory, const std::string &name, Trust trust, Results &out) {
  out = {};
  // A user who may not replace the file in this user's directory may not make it a link either; elsewhere links are the
  // user's decision.
  int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (trust == Trust::Own ? O_NOFOLLOW : 0);
  int fd = openat(directory, name.c_str(), flags);
  if (fd < 0 && errno == ELOOP) return Status::error(TEGULA_INVALID_ARGUMENT, "is a link");
  if (fd < 0) return ioError("cannot be opened", errno);
  struct stat s{};
  std::string text;
  Status status = Status::ok();
  if (fstat(fd, &s) != 0) status = ioError("cannot be read", errno);
  else if (const char *why = refusalOf(s, trust)) status = Status::error(TEGULA_INVALID_ARGUMENT, why);
  else if (s.st_size > static_cast<off_t>(fileLimit))
    status = Status::error(TEGULA_INVALID_ARGUMENT, "is larger than 64 MiB");
  else {
    text.resize(s.st_size);
    if (!runtime::readAll(fd, text.data(), text.size())) status = ioError("cannot be read", errno ? errno : EIO);
  }
  close(fd);
  return status ? parse(text, out) : status;
}

Status replaceFileAt(int directory, const std::string &name, const Results &results, unsigned mode,
                     struct stat *written) {
  static std::atomic<uint64_t> number{0};
  std::string text = format(results);
  if (text.size() > fileLimit) return Status::error(TEGULA_IO_ERROR, "would be larger than 64 MiB");
  // The temporary file is beside the file, in the directory of the rename.
  size_t slash = name.rfind('/');
  std::string temporary =
      (slash == std::string::npos ? "" : name.substr(0, slash + 1)) + runtime::temporaryName(number.fetch_add(1));
  struct stat old {};
  bool keepsMode = fstatat(directory, name.c_str(), &old, 0) == 0;
  int fd = openat(directory, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return Status::error(TEGULA_IO_ERROR, std::string("cannot be written: ") + std::strerror(errno));
  bool ok = runtime::writeAll(fd, text.data(), text.size());
  int error = errno;
  if (keepsMode) (void)!fchmod(fd, old.st_mode & 0777);
  if (ok && written && fstat(fd, written) != 0) *written = {};
  if (close(fd) != 0 && ok) ok = false, error = errno;
  if (ok && renameat(directory, temporary.c_str(), directory, name.c_str()) == 0) return Status::ok();
  if (ok) error = errno;
  unlinkat(directory, temporary.c_str(), 0);
  return Status::error(TEGULA_IO_ERROR, std::string("cannot be written: ") + std::strerror(error));
}

FileLock::FileLock(int fd) : fd_(fd) {
  using namespace std::chrono;
  auto deadline = steady_clock::now() + seconds(10);
  for (auto pause = microseconds(200);; pause = std::min(pause * 2, microseconds(20000))) {
    if (flock(fd_, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR) ||
        steady_clock::now() > deadline)
      return;
    std::this_thread::sleep_for(pause);
  }
}

// Closing is not enough: a child that another thread forked meanwhile has the file open as well.
FileLock::~FileLock() { flock(fd_, LOCK_UN); }

Status readFile(const std::string &path, Results &out) {
  Status s = readFileAt(AT_FDCWD, path, Trust::Anybody, out);
  if (!s) s.text = "`" + path + "` " + s.text;
  return s;
}

Status writeFile(const std::string &path, const Results &results) {
  // A link stays a link: its target is replaced.
  char *real = realpath(path.c_str(), nullptr);
  Status s = replaceFileAt(AT_FDCWD, real ? real : path, results, 0666);
  free(real);
  if (!s) s.text = "`" + path + "` " + s.text;
  return s;
}

// ---- places

static constexpr const char *projectName = "tegula.tune.json";

void Places::findProject() {
  if (!projectWasFound) return;
  char *cwd = getcwd(nullptr, 0);
  std::string at = cwd ? cwd : "";
  free(cwd);
  while (!at.empty() && at[0] == '/') {
    std::string path = (at == "/" ? "" : at) + "/" + projectName;
    if (access(path.c_str(), F_OK) == 0) {
      project = std::move(path);
      return;
    }
    if (at == "/") return;
    at.resize(std::max<size_t>(at.rfind('/'), 1));
  }
}

Places Places::fromEnvironment() {
  Places p;
  const char *directory = std::getenv("TEGULA_TUNE_DIR");
  p.directory = directory ? directory : runtime::defaultCacheDirectory();
  const char *project = std::getenv("TEGULA_TUNE_FILE");
  p.projectWasFound = !project;
  p.project = project ? project : "";
  std::string path = std::getenv("TEGULA_TUNE_PATH") ? std::getenv("TEGULA_TUNE_PATH") : "";
  for (size_t at = 0; at <= path.size();) {
    size_t end = std::min(path.find(':', at), path.size());
    if (end > at) p.readOnly.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return p;
}

} // namespace tegula::tune
