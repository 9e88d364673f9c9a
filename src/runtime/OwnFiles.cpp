#include "runtime/OwnFiles.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tegula::runtime {

std::string temporaryName(uint64_t number) {
  uint64_t random = 0;
  (void)!getrandom(&random, sizeof random, GRND_NONBLOCK);
  return temporaryPrefix + std::to_string(getpid()) + "-" + std::to_string(random) + "-" + std::to_string(number);
}

bool makeDirectories(const std::string &path) {
  for (size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && errno != EISDIR && errno != EROFS && errno != EACCES)
      return false;
    if (at == std::string::npos) return true;
  }
}

const char *untrusted(const struct stat &s, bool rootToo) {
  if (s.st_uid != geteuid() && !(rootToo && s.st_uid == 0)) return "belongs to another user";
  return s.st_mode & (S_IWGRP | S_IWOTH) ? "can be written by other users" : nullptr;
}

int openOwnDirectory(const std::string &directory, const std::string &subdirectory, bool rootToo, std::string &text,
                     bool &refused) {
  std::string path = directory + "/" + subdirectory;
  auto refuse = [&](const std::string &what, const char *why) {
    text = what + " " + why, refused = true;
    return -1;
  };
  refused = false;
  int parent = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int fd = parent >= 0 ? openat(parent, subdirectory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
  int error = errno;
  struct stat above{}, s{};
  bool examined = fd >= 0 && fstat(parent, &above) == 0 && fstat(fd, &s) == 0;
  if (parent >= 0) close(parent);
  if (!examined) {
    if (fd >= 0) close(fd);
    else if (parent >= 0 && (error == ELOOP || error == ENOTDIR)) return refuse(path, "is a link or no directory");
    text = "cannot open or create " + path + ": " + std::strerror(error);
    return -1;
  }
  // In a sticky directory no other user can replace this user's files.
  const char *why = untrusted(s, rootToo);
  bool aboveIsBad = !why && (above.st_mode & S_ISVTX ? above.st_uid != 0 && above.st_uid != geteuid()
                                                     : (why = untrusted(above, true)) != nullptr);
  if (aboveIsBad && !why) why = "belongs to another user";
  if (!why) return fd;
  close(fd);
  return refuse(aboveIsBad ? directory : path, why);
}

bool writeAll(int fd, const char *bytes, size_t size) {
  for (size_t at = 0; at < size;) {
    ssize_t n = ::write(fd, bytes + at, size - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
  }
  return true;
}

bool readAll(int fd, char *bytes, size_t size) {
  errno = 0;
  for (size_t at = 0; at < size;) {
    ssize_t n = ::read(fd, bytes + at, size - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
  }
  return true;
}

} // namespace tegula::runtime
