// Scratch memory of kernels: one block per thread, kept between launches.
//
// A kernel asks for KernelInfo::scratchBytes; mapping and faulting fresh pages at every launch would take longer than
// most launches. Blocks of 1 MiB and more are mapped on 2 MiB boundaries and advised for huge pages.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tegula::runtime {

/// Holds the calling thread's block for the duration of a run. A nested one on the same thread (a callback that
/// launches) gets memory of its own. A block above 256 MiB is freed at the end instead of kept.
class ScratchLease {
public:
  /// 64-byte aligned, contents undefined. data() is null only if the system has no memory left (or bytes is 0).
  /// `launch`: its number (CpuAbi.h); the first eight bytes differ from it unless the block is as an earlier run of the
  /// same launch left it.
  explicit ScratchLease(size_t bytes, uint64_t launch = 0);
  ~ScratchLease();
  ScratchLease(const ScratchLease &) = delete;
  void *data() const { return data_; }
  bool failed() const { return failed_; }

private:
  void *data_ = nullptr;
  size_t own_ = 0; // bytes to free at the end; 0 if the block belongs to the thread
  bool leased_ = false, failed_ = false;
};

} // namespace tegula::runtime
