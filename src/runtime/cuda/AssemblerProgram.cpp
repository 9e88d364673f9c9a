// Text, cubin and log are passed in memory files (memfd_create), which the program opens by /proc/self/fd: nothing is
// written to disk, and nothing is left behind.
#include "runtime/cuda/AssemblerProgram.h"
#include "runtime/OwnFiles.h"
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace tegula::runtime::cuda {
namespace {

/// A file in memory that other programs do not inherit.
class MemoryFile {
public:
  MemoryFile() : fd_(memfd_create("tegula", MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  MemoryFile(const MemoryFile &) = delete;
  int fd() const { return fd_; }

  bool write(std::string_view text) const { return writeAll(fd_, text.data(), text.size()); }
  /// Reads all of it, from the beginning: the program may have moved the file position.
  template <typename Bytes> bool read(Bytes &out) const {
    struct stat s {};
    if (fstat(fd_, &s) != 0 || lseek(fd_, 0, SEEK_SET) != 0) return false;
    out.resize(static_cast<size_t>(s.st_size));
    return readAll(fd_, out.data(), out.size());
  }

private:
  int fd_;
};

/// The files of the new process, with their numbers.
class FileActions {
public:
  FileActions() { made_ = posix_spawn_file_actions_init(&actions_) == 0; }
  ~FileActions() {
    if (made_) posix_spawn_file_actions_destroy(&actions_);
  }
  FileActions(const FileActions &) = delete;
  FileActions &give(int fd, int as) {
    made_ = made_ && posix_spawn_file_actions_adddup2(&actions_, fd, as) == 0;
    return *this;
  }
  const posix_spawn_file_actions_t *get() const { return made_ ? &actions_ : nullptr; }

private:
  posix_spawn_file_actions_t actions_{};
  bool made_ = false;
};

/// Waits for the process. False if it failed, as far as that is known: a process that ignores SIGCHLD, or waits for all
/// children elsewhere, leaves no status.
bool endsWell(pid_t child) {
  int status = 0;
  pid_t got;
  do {
    got = waitpid(child, &status, 0);
  } while (got < 0 && errno == EINTR);
  return got != child || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/// This process's environment, with a request for huge pages in the program's glibc heap, unless the user tunes glibc:
/// the program touches tens of megabytes once, and clearing them page by page is a twentieth of its time.
std::vector<char *> environmentWithLargePages() {
  static char tunables[] = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1";
  constexpr std::string_view name = "GLIBC_TUNABLES=";
  std::vector<char *> out;
  bool isTuned = false;
  for (char **entry = environ; entry && *entry; ++entry) {
    isTuned |= std::string_view(*entry).starts_with(name);
    out.push_back(*entry);
  }
  if (!isTuned) out.push_back(tunables);
  out.push_back(nullptr);
  return out;
}

bool isProgram(const std::string &path) {
  struct stat s {};
  return stat(path.c_str(), &s) == 0 && S_ISREG(s.st_mode) && access(path.c_str(), X_OK) == 0;
}

} // namespace

AssemblerProgram::AssemblerProgram(std::string path) : path_(std::move(path)) {
  struct stat s {};
  if (stat(path_.c_str(), &s) == 0)
    identity_ = path_ + " " + std::to_string(s.st_size) + " " + std::to_string(s.st_mtime);
}

std::unique_ptr<const AssemblerProgram> AssemblerProgram::find(const Places &places) {
  std::unique_ptr<const AssemblerProgram> out;
  places.search([&](const std::string &path) {
    if (isProgram(path)) out = std::make_unique<AssemblerProgram>(path);
    return out != nullptr;
  });
  return out;
}

/// Runs a program to its end. Its output goes to `said`, which it has under the number `first`, above those of other
/// files.
static bool runs(std::vector<std::string> words, FileActions &files, const MemoryFile &said, int first) {
  files.give(said.fd(), first).give(first, STDOUT_FILENO).give(first, STDERR_FILENO);
  if (!files.get()) return false;
  std::vector<char *> arguments;
  for (std::string &word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  return posix_spawn(&child, arguments.front(), files.get(), nullptr, arguments.data(),
                     environmentWithLargePages().data()) == 0 &&
         endsWell(child);
}

/// "Cuda compilation tools, release 12.8, V12.8.93": 12080; 0: no such text.
static int versionIn(std::string_view text) {
  constexpr std::string_view before = "release ";
  const size_t at = text.find(before);
  if (at == text.npos) return 0;
  char *end = nullptr;
  const std::string number(text.substr(at + before.size()));
  const long major = std::strtol(number.c_str(), &end, 10);
  return static_cast<int>(major * 1000 + (*end == '.' ? std::strtol(end + 1, nullptr, 10) * 10 : 0));
}

std::string AssemblerProgram::identityFor(int driverVersion) const {
  return driverVersion ? identity_ + ", driver " + std::to_string(driverVersion) : identity_;
}

bool AssemblerProgram::serves(int driverVersion) const {
  std::call_once(isAsked_, [&] {
    const MemoryFile said;
    FileActions files;
    std::string text;
    if (said.fd() >= 0 && runs({path_, "--version"}, files, said, std::max(said.fd(), STDERR_FILENO) + 1) &&
        said.read(text))
      version_ = versionIn(text);
  });
  return version_ >= driverVersion && version_ / 1000 == driverVersion / 1000;
}

bool AssemblerProgram::assemble(std::string_view ptx, const std::vector<std::string> &options, std::vector<char> &cubin,
                                std::string &log) const {
  const MemoryFile text, code, said;
  if (text.fd() < 0 || code.fd() < 0 || said.fd() < 0 || !text.write(ptx)) return false;
  // Separate numbers, above all open ones here, so that none is replaced before it is passed.
  const int first = std::max({text.fd(), code.fd(), said.fd(), STDERR_FILENO}) + 1;
  FileActions files;
  files.give(text.fd(), first).give(code.fd(), first + 1);
  auto opened = [](int fd) { return "/proc/self/fd/" + std::to_string(fd); };
  std::vector<std::string> words = {path_, "-v"};
  words.insert(words.end(), options.begin(), options.end());
  for (const std::string &word : {opened(first), std::string("-o"), opened(first + 1)}) words.push_back(word);
  return runs(std::move(words), files, said, first + 2) && code.read(cubin) && said.read(log) &&
         std::string_view(cubin.data(), cubin.size())
             .starts_with("\x7f"
                          "ELF");
}

Places programPlaces(const std::string &library, const std::vector<std::string> &packages) {
  Places out;
  if (const char *own = std::getenv("TEGULA_PTXAS")) {
    if (*own) out.add(own);
    return out;
  }
  // A toolkit's lib, lib64 and targets/NAME/lib; packages of CUDA 13 (nvidia/cu13/lib) and 12 (nvidia/nvjitlink/lib).
  if (const size_t end = library.rfind('/'); end != library.npos)
    for (const char *there : {"/../bin/ptxas", "/../../../bin/ptxas", "/../../cuda_nvcc/bin/ptxas"})
      out.add(library.substr(0, end) + there);
  for (const char *name : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *root = std::getenv(name); root && *root) out.add(std::string(root) + "/bin/ptxas");
  out.add("/usr/local/cuda/bin/ptxas");
  out.addPattern("/usr/local/cuda-*/bin/ptxas");
  if (const char *path = std::getenv("PATH"))
    for (std::string_view rest = path; !rest.empty();) {
      const size_t end = std::min(rest.find(':'), rest.size());
      if (rest.starts_with('/')) out.add(std::string(rest.substr(0, end)) + "/ptxas");
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  for (const std::string &folder : packages) {
    out.addPattern(folder + "/nvidia/cu*/bin/ptxas");
    out.addPattern(folder + "/nvidia/cuda_nvcc/bin/ptxas");
    // Triton 3.9 has two and uses the newer one for GPUs from sm_90 on.
    for (const char *name : {"ptxas-blackwell", "ptxas"})
      out.addPattern(folder + "/triton/backends/nvidia/bin/" + name);
  }
  return out;
}

} // namespace tegula::runtime::cuda
