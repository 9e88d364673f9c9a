// See InstalledFiles.h.
#include "runtime/cuda/InstalledFiles.h"
#include <glob.h>

namespace tegula::runtime::cuda {

void addInstalled(const std::string &pattern, std::vector<std::string> &out) {
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (size_t i = found.gl_pathc; i-- > 0;) out.push_back(found.gl_pathv[i]);
  globfree(&found);
}

} // namespace tegula::runtime::cuda
