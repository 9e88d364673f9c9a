// TEGULA_TUNE_DRY=sim: before a configuration runs on the device, its first program runs on the simulator, on copies of
// the arguments' memory. The simulator finds writes outside the caller's buffers, races and traps; such a configuration
// does not run on the device.
#pragma once
#include "api/Compile.h"
#include <mutex>

namespace tegula::api {

/// The copies of one call's memory. Thread-safe: one configuration at a time.
class Rehearsal {
public:
  /// `limit`: bytes of copies. With more, or with memory of unknown extent, there is no rehearsal.
  Rehearsal(TegulaFunction &function, uint64_t limit) : function_(function), limit_(limit) {}

  /// `kernel`: the one for the device. `args`, `options` and `grid`: those of the launch. TEGULA_FAULT: the fault of
  /// the program. OK: no fault was found, or the program cannot run there (it waits for other programs, or has code for
  /// GPUs only).
  runtime::Status run(const TegulaKernel &kernel, const int64_t grid[3], const TegulaArg *args, size_t count,
                      const TegulaLaunchOptions &options);

private:
  struct Copy {
    const void *from = nullptr;
    std::vector<char> bytes;
  };
  /// The copy of the memory behind a pointer; null: there is none.
  const Copy *copyOf(const TegulaArg &pointer, const DeviceEntry &device, void *stream);
  bool replace(const TegulaArg &a, const DeviceEntry &device, void *stream, std::vector<std::vector<TegulaArg>> &tuples,
               TegulaArg &out);

  TegulaFunction &function_;
  uint64_t limit_, taken_ = 0;
  std::mutex mutex_;
  std::vector<Copy> originals_;
  std::vector<std::vector<char>> scratch_; // scratch memory of the programs
};

} // namespace tegula::api
