// See InstalledFiles.h.
#include "runtime/cuda/InstalledFiles.h"
#include <glob.h>

namespace tegula::runtime::cuda {

bool Places::search(const std::function<bool(const std::string &)> &takes) const {
  for (const Place &place : places_) {
    if (!place.isPattern) {
      if (takes(place.text)) return true;
      continue;
    }
    glob_t found{};
    bool isTaken = false;
    if (glob(place.text.c_str(), 0, nullptr, &found) == 0)
      for (size_t i = found.gl_pathc; !isTaken && i-- > 0;) isTaken = takes(found.gl_pathv[i]);
    globfree(&found);
    if (isTaken) return true;
  }
  return false;
}

} // namespace tegula::runtime::cuda
