// The assembler of a CUDA toolkit (ptxas) as a separate program, for the kernels that libnvJitLink compiles to worse
// code: it assembles for linking and then ignores setmaxnreg (C7504), so that products of attention wait for each other
// (C7512), and it needs two passes over the text to find that out.
//
// A process costs 7 ms more than a call of the library, and three quarters of its time for such a kernel. A driver
// could assemble these kernels when they are loaded, but does not return the code: neither the code nor its numbers can
// be stored in the disk cache, and every process would assemble them again.
#pragma once
#include "runtime/cuda/InstalledFiles.h"
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tegula::runtime::cuda {

class AssemblerProgram {
public:
  explicit AssemblerProgram(std::string path);
  /// The first of `places` that is an executable file; null: there is none.
  static std::unique_ptr<const AssemblerProgram> find(const Places &places);

  const std::string &path() const { return path_; }
  /// Path, size and time of the file, which distinguish two programs without running either: part of the cache key.
  const std::string &identity() const { return identity_; }
  /// The same with a driver of that version (0: none), which decides whether the program is used (serves): code cached
  /// with one driver may not load with another.
  std::string identityFor(int driverVersion) const;

  /// Can a driver of that version (13000: of CUDA 13.0) load the program's code, as the major versions are equal, and
  /// is the program at least as good an assembler as the driver's, as it is at least as new? Attention of 128x64 tiles
  /// by ptxas 12.8 takes 1.26 of the time that it takes by ptxas 13.0 or a driver of 13.0. Runs the program once, at
  /// the first call, for its version (some milliseconds). Thread-safe.
  bool serves(int driverVersion) const;

  /// Assembles the text `ptx` to a cubin, and returns the program's output in `log`. Thread-safe; the calling thread
  /// sleeps until the program has ended. False if it cannot be started, fails or writes no cubin: then the library
  /// reports the error, or assembles the text.
  bool assemble(std::string_view ptx, const std::vector<std::string> &options, std::vector<char> &cubin,
                std::string &log) const;

private:
  std::string path_, identity_;
  mutable std::once_flag isAsked_;
  mutable int version_ = 0; // 12080: of CUDA 12.8; 0: it does not say
};

/// The places of the program, best first: $TEGULA_PTXAS (then no others; empty: none at all), beside `library` (a path
/// of libnvJitLink), toolkits in their usual places, $PATH, Triton's in the given folders of Python packages.
Places programPlaces(const std::string &library, const std::vector<std::string> &packages);

} // namespace tegula::runtime::cuda
