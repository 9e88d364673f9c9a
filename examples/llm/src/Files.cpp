#include "Files.h"
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace llm {

namespace {
Status fileError(const std::string &path) {
  int error = errno;
  return fail(error == ENOENT ? TEGULA_NOT_FOUND : TEGULA_IO_ERROR, path + ": " + std::strerror(error));
}
} // namespace

bool exists(const std::string &path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0;
}

bool isFolder(const std::string &path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Result<MappedFile> MappedFile::open(const std::string &path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return fileError(path);
  struct stat info{};
  MappedFile m;
  bool failed = fstat(file, &info) != 0;
  if (!failed && S_ISDIR(info.st_mode)) errno = EISDIR, failed = true;
  if (!failed && info.st_size > 0) {
    size_t size = static_cast<size_t>(info.st_size);
    void *address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    failed = address == MAP_FAILED;
    if (!failed) {
      m.owner_ = std::shared_ptr<const void>(address, [size](const void *p) { munmap(const_cast<void *>(p), size); });
      m.bytes_ = {static_cast<const char *>(address), size};
    }
  }
  Status s = failed ? fileError(path) : Status();
  close(file);
  if (!s) return s;
  return m;
}

Result<std::string> readFile(const std::string &path) {
  Result<MappedFile> m = MappedFile::open(path);
  if (!m) return m.status();
  return std::string(m->bytes());
}

Status writeFile(const std::string &path, std::string_view text) {
  std::FILE *f = std::fopen(path.c_str(), "wb");
  if (!f) return fileError(path);
  bool written = std::fwrite(text.data(), 1, text.size(), f) == text.size();
  written = std::fclose(f) == 0 && written;
  return written ? Status() : fileError(path);
}

} // namespace llm
