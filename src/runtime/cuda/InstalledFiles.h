// Files of CUDA toolkits and packages, by the patterns of names that they are installed under: libraries (Assembler.cpp) and programs (AssemblerProgram.cpp).
#pragma once
#include <string>
#include <vector>

namespace tegula::runtime::cuda {

/// Adds the paths that match `pattern` (glob(7)), the greatest name, which is the newest version, first; none if none matches. From any thread.
void addInstalled(const std::string &pattern, std::vector<std::string> &out);

} // namespace tegula::runtime::cuda
