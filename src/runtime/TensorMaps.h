// Tensor maps (TMA descriptors) of a launch: encoded from the packed arguments, cached, appended after them.
//
// The block of a kernel with n maps: arguments, padding to 64, n maps of 128 bytes, the record pointer (abi/GpuAbi.h).
#pragma once
#include "runtime/Kernel.h"
#include "sim/TensorMap.h"
#include <mutex>

namespace tegula::runtime {

inline constexpr unsigned tensorMapBytes = 128, maxTensorMaps = 16;
inline uint32_t mapsOffset(const KernelInfo &k) { return (k.argBytes + 63) / 64 * 64; }
/// The offset of the record pointer.
inline uint32_t recordOffset(const KernelInfo &k) {
  return k.tensorMaps.empty() ? (k.argBytes + 7) / 8 * 8
                              : mapsOffset(k) + tensorMapBytes * static_cast<uint32_t>(k.tensorMaps.size());
}

/// The maps of one loaded kernel. Thread-safe.
class TensorMaps {
public:
  /// Encodes into 128 bytes aligned to 64; returns "" or the reason for failure. `device` is the argument of append().
  using Encode = std::string (*)(const void *device, const sim::TensorMapSpec &spec, void *map);
  TensorMaps(const KernelInfo &info, Encode encode);
  /// Fills in the maps at `args + mapsOffset`. Encodes only those not in the cache. `grid`: programs along the three
  /// axes.
  Status append(const KernelInfo &info, const void *device, char *args, const int32_t *grid);

private:
  struct Entry {
    sim::TensorMapSpec spec;
    alignas(64) char map[tensorMapBytes];
  };
  /// The latest few encodings of one map; the latest hit is at `last`.
  struct Recent {
    std::vector<Entry> entries;
    size_t last = 0, next = 0;
  };
  const Entry *find(Recent &r, const sim::TensorMapSpec &spec) const;

  Encode encode_;
  std::mutex mutex_;
  std::vector<Recent> recent_; // one per map of the kernel
};

} // namespace tegula::runtime
