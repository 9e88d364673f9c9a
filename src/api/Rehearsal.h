// TEGULA_TUNE_DRY=sim: before a configuration runs on the device, its first program runs on the simulator, on copies of
// the arguments' memory. What would write beside the caller's buffers, race or trap is found there, and the
// configuration is not run at all.
#pragma once
#include "api/Compile.h"
#include <mutex>

namespace tegula::api {

/// The copies of one call's memory. Thread-safe: one configuration at a time.
class Rehearsal {
public:
  /// `limit`: bytes of copies; with more, or with memory of unknown extent, nothing is rehearsed.
  Rehearsal(TegulaFunction &function, uint64_t limit) : function_(function), limit_(limit) {}

  /// `kernel`: of the device. `args`: of the launch, as are `options` and `grid`. TEGULA_FAULT: what the program did.
  /// OK: nothing was found, or it could not be run there (a program that waits for others, code that only a GPU takes).
  runtime::Status run(const TegulaKernel &kernel, const int64_t grid[3], const TegulaArg *args, size_t count,
                      const TegulaLaunchOptions &options);

private:
  struct Copy {
    const void *from = nullptr;
    std::vector<char> bytes;
  };
  /// The copy of what a pointer leads to; null: there is none.
  const Copy *copyOf(const TegulaArg &pointer, const DeviceEntry &device, void *stream);
  bool replace(const TegulaArg &a, const DeviceEntry &device, void *stream, std::vector<std::vector<TegulaArg>> &tuples,
               TegulaArg &out);

  TegulaFunction &function_;
  uint64_t limit_, taken_ = 0;
  std::mutex mutex_;
  std::vector<Copy> originals_;
  std::vector<std::vector<char>> scratch_; // that the programs use
};

} // namespace tegula::api
