// The assembler of a CUDA toolkit (ptxas) as a program of its own, for the kernels that libnvJitLink makes worse code
// of: it assembles for linking and ignores setmaxnreg then (C7504), so that products of attention wait for each other
// (C7512), and takes the text twice to find that out.
//
// A process costs 7 ms more than a call of the library, and three quarters of the time for such a kernel. A driver
// could assemble them when they are loaded, but does not give the code back: neither its numbers nor the code itself
// can be kept in the disk cache, and every process would have it done again.
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
  /// The first of `places` that is a file which may be executed; null: none is.
  static std::unique_ptr<const AssemblerProgram> find(const Places &places);

  const std::string &path() const { return path_; }
  /// Path, bytes and time of the file, which tell two programs apart without a run of either: part of the cache key.
  const std::string &identity() const { return identity_; }
  /// The same beside a driver of that version (0: none), which decides whether the program is used (serves): what is
  /// cached for one is not for another, which may not load it.
  std::string identityFor(int driverVersion) const;

  /// Can a driver of that version (13000: of CUDA 13.0) load what it makes, as it has the same major version, and is it
  /// no worse an assembler than the driver's, as it is as new? Attention of 128x64 tiles by ptxas 12.8 takes 1.26 of
  /// the time that it takes by ptxas 13.0 or a driver of 13.0. The program is asked for its version, once and at the
  /// first call (some milliseconds). Thread-safe.
  bool serves(int driverVersion) const;

  /// `ptx` as text to a cubin, and what the program says meanwhile. Thread-safe; the calling thread sleeps until the
  /// program has ended. False if it cannot be started, fails or writes no cubin: the library then says why, or does it.
  bool assemble(std::string_view ptx, const std::vector<std::string> &options, std::vector<char> &cubin,
                std::string &log) const;

private:
  std::string path_, identity_;
  mutable std::once_flag isAsked_;
  mutable int version_ = 0; // 12080: of CUDA 12.8; 0: it does not say
};

/// Where the program may be, best first: $TEGULA_PTXAS (nothing else is tried then; empty: none at all), beside
/// `library` (a path of libnvJitLink), toolkits in their usual places, $PATH, Triton's in the folders of Python
/// packages given.
Places programPlaces(const std::string &library, const std::vector<std::string> &packages);

} // namespace tegula::runtime::cuda
