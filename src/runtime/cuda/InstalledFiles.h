// Files of CUDA toolkits and packages, by the patterns of names that they are installed under: libraries
// (Assembler.cpp) and programs (AssemblerProgram.cpp).
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace tegula::runtime::cuda {

/// Where a file may be, best first. Folders are read when the search comes to them, which takes a process some hundred
/// calls of the system less where the file is in the first ones.
class Places {
public:
  /// A path as it is, which need not exist.
  void add(std::string path) { places_.push_back({std::move(path), false}); }
  /// The files that match a pattern of glob(7), the greatest name, which is the newest version, first.
  void addPattern(std::string pattern) { places_.push_back({std::move(pattern), true}); }
  /// Asks about one path after the other until `takes` says yes. False: it never did.
  bool search(const std::function<bool(const std::string &)> &takes) const;

private:
  struct Place {
    std::string text;
    bool isPattern;
  };
  std::vector<Place> places_;
};

} // namespace tegula::runtime::cuda
