// The bare launch for bound_launch.py, which cannot make one without paying for Python: a batch a call.
#include "BareLaunch.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

/// The CUfunction `name` of PTX, for the current context; null: the driver refuses.
EXPORTED void *bareFunction(const char *ptx, const char *name) { return BareLaunch::find(BareLaunch::driver(), ptx, name); }

/// Launches it `count` times on the default stream. CUresult of the first launch that fails.
EXPORTED int bareLaunches(void *function, unsigned threads, size_t bytes, int count) {
  BareLaunch bare(BareLaunch::driver(), function, threads, bytes);
  int failed = 0;
  for (int i = 0; i < count && !failed; ++i) failed = bare();
  return failed;
}
