// Runs the programs of a grid: threads, scratch, faults, printing, cancelling.
#pragma once
#include "runtime/Kernel.h"
#include "runtime/ThreadPool.h"

namespace tegula::runtime {

/// Receives the output of kernels, and is polled for an interrupt. Calls may come from any thread.
struct LaunchHooks {
  virtual void print(const std::string &text) = 0;
  /// Asked about every 50 ms on the launching thread if `pollable()`; true cancels.
  virtual bool interrupted() { return false; }
  virtual bool pollable() const { return false; }

protected:
  ~LaunchHooks() = default;
};

/// The cancel words of the running launches: cancelAll() may be called from a signal handler. The table has a fixed
/// size, so that it needs no allocation and no lock; a launch beyond its size has its own word and cannot be cancelled
/// by cancelAll().
class CancelTable {
public:
  /// Cancels the launches that are running now.
  void cancelAll();

private:
  friend class CancelWord;
  static constexpr unsigned slotCount = 64;
  /// 0: launch running; 1: cancelled; 2: free. Kernels stop on nonzero.
  struct alignas(64) Slot {
    std::atomic<int32_t> word{2};
  };
  Slot slots_[slotCount];
};

struct LaunchRequest {
  const CpuKernel *kernel = nullptr;
  int32_t grid[3] = {1, 1, 1}; // each >= 1
  int64_t programs = 1;        // their product
  const void *args = nullptr;  // argument block
  const TegulaCpuExtent *extents = nullptr; // checked kernels: one per pointer argument
  unsigned threads = 1;
  uint64_t hangNs = 0; // as LaunchCall's
};

/// The fault of a program; its site is kernel->info().sites[fault.site] if that is in range.
struct LaunchOutcome {
  TegulaCpuFault fault{};
  /// GPU: the kernel that failed, if it is known; it may differ from the launched one.
  std::shared_ptr<const KernelInfo> culprit;
};

/// Runs all programs and returns when they are done. TEGULA_FAULT: `outcome.fault` has the reason; TEGULA_CANCELLED;
/// TEGULA_OUT_OF_RESOURCES (scratch). Thread-safe. Short launches run on the calling thread alone: those with one
/// thread or program, and those that, by the kernel's running estimate, take less time than waking a worker.
Status launch(const LaunchRequest &request, ThreadPool &pool, CancelTable &cancel, LaunchHooks &hooks,
              LaunchOutcome &outcome);

/// Checks extents and multiplies them. `programs` is 0 if one of them is 0.
Status checkGrid(const int64_t grid[3], int32_t out[3], int64_t &programs);

/// A program of a launch that was ended for lack of progress: `site` is the loop that it was in, -1 if that is not
/// known.
struct HungProgram {
  int32_t site = -1;
  int32_t pid[3] = {0, 0, 0};
};
/// TEGULA_FAULT of kind TEGULA_FAULT_HANG for a launch that made no progress for `hangNs`: names the loop of the first
/// program, the other programs, and how many were not started. Fills in `outcome.fault`. `device`: " on sim" or "".
Status hangStatus(const KernelInfo &info, uint64_t hangNs, std::span<const HungProgram> programs, int64_t notStarted,
                  const std::string &device, LaunchOutcome &outcome);

/// "kernel.py:12:5: ", or "" for a site without a place.
std::string placeText(const SiteInfo &s);
/// The sentence for a fault: place, program, argument, index, extent, or the message of the assert.
std::string faultText(const KernelInfo &info, const TegulaCpuFault &fault);

} // namespace tegula::runtime
