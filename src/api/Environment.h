// The environment variables of a context. The layers below, runtime and tune, read only names of places themselves
// (caches, libraries, files of results).
#pragma once
#include "api/Backend.h"
#include "lang/Level.h"

namespace tegula::api {

struct Environment {
  // $TEGULA_CPU_TARGET: the target of launches on CPUs; none: this machine
  std::optional<Target> cpuTarget;
  std::string device;                           // $TEGULA_DEVICE
  std::string cacheLayers;                      // $TEGULA_CACHE_LAYERS
  std::string record;                           // $TEGULA_RECORD: a manifest's path, or ""
  std::string reproducers;                      // $TEGULA_REPRODUCER_DIR, else the temporary folder
  uint64_t cacheBytes = 0;                      // $TEGULA_CACHE_LIMIT_MB; 0: not set
  uint64_t threads = 0;                         // $TEGULA_NUM_THREADS; 0: not set
  uint64_t hangNs = 0;                          // $TEGULA_HANG_S; 0: never
  int32_t noJit = TEGULA_NO_JIT_OFF;            // $TEGULA_NO_JIT
  lang::Level level = lang::latestLevel;        // $TEGULA_TRITON_LEVEL
  bool debug = false, checked = false;          // $TEGULA_DEBUG, $TEGULA_CHECK
  bool verify = false, strict = false;          // $TEGULA_VERIFY, $TEGULA_STRICT
  gpu::Clusters clusters = gpu::Clusters::ByCost; // $TEGULA_CLUSTERS
  bool tuneDeterministic = false;               // $TEGULA_TUNE
  bool tuneRehearses = false;                   // $TEGULA_TUNE_DRY
  std::optional<uint64_t> tuneBytes;            // $TEGULA_TUNE_BYTES
};

/// Reads all variables. False, with the last error set, which names the variable: a value is invalid. A device that it
/// names need not exist.
bool readEnvironment(Environment &out);

/// Seconds to nanoseconds; 0 for a negative number. Nullopt: not a number, or more than a century.
std::optional<uint64_t> hangTime(double seconds);

/// A level from its number in launch options: 36, 37, 39.
std::optional<lang::Level> levelNumbered(int64_t number);

} // namespace tegula::api
