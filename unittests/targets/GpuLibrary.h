// Test support: PTX loaded and run on the GPU of this machine, through the driver.
#pragma once
#include "targets/nvidia/Nvidia.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tegula::nvidia {

/// The GPU of this machine as a target; nullopt (and the reason on stdout, once) if there is none.
std::optional<NvTarget> gpuOfThisMachine();

class GpuLibrary {
public:
  GpuLibrary();
  ~GpuLibrary();
  /// False after a test failure.
  bool load(const std::string &ptx);
  static constexpr unsigned blocks = 264, threads = 128;
  /// name(in, out, n) on device copies of the buffers: `in` is an array of pointers.
  void run(const std::string &name, const std::vector<std::pair<const void *, size_t>> &in, void *out, size_t outBytes,
           int64_t n) const;

  /// One cluster (or CTA) on a device copy of `data`, whose address becomes the first of the packed arguments.
  void runOnce(const std::string &name, std::vector<uint32_t> &data, void *args, size_t argBytes, unsigned threads,
               unsigned clusterCtas, unsigned sharedBytes) const;
  /// A kernel of the compiler whose arguments are pointers, as one program: every buffer is copied to the GPU and back.
  void runKernel(const GpuKernelMeta &meta, const std::vector<std::pair<void *, size_t>> &buffers) const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace tegula::nvidia
