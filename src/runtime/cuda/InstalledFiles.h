// Files of CUDA toolkits and packages, found by the name patterns that they are installed under: libraries
// (Assembler.cpp) and programs (AssemblerProgram.cpp).
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace tegula::runtime::cuda {

/// Candidate places of a file, best first. Folders are read only when the search reaches them, which saves a process
/// some hundred system calls if the file is in an early one.
class Places {
public:
  /// A literal path, which need not exist.
  void add(std::string path) { places_.push_back({std::move(path), false}); }
  /// The files that match a pattern of glob(7), the greatest name first, which is the newest version.
  void addPattern(std::string pattern) { places_.push_back({std::move(pattern), true}); }
  /// Calls `takes` with one path after the other until it returns true. False: it never did.
  bool search(const std::function<bool(const std::string &)> &takes) const;

private:
  struct Place {
    std::string text;
    bool isPattern;
  };
  std::vector<Place> places_;
};

} // namespace tegula::runtime::cuda
