// The CPU behind the device interface: CpuKernel and launch() do the work.
#include "runtime/FreeMemory.h"
#include "runtime/HostMemory.h"
#include <unistd.h>

namespace tegula::runtime {

namespace {
struct CpuExecutable final : Executable {
  std::unique_ptr<CpuKernel> kernel;
  ThreadPool &pool;
  CancelTable &cancel;
  CpuExecutable(std::unique_ptr<CpuKernel> k, ThreadPool &p, CancelTable &c)
      : kernel(std::move(k)), pool(p), cancel(c) {}

  Status launch(const LaunchCall &c, LaunchOutcome &outcome) const override {
    LaunchRequest request{kernel.get(), {c.grid[0], c.grid[1], c.grid[2]}, c.programs, c.args, c.extents, c.threads,
                          c.hangNs};
    return runtime::launch(request, pool, cancel, *c.hooks, outcome);
  }
  size_t codeBytes() const override { return kernel->codeBytes(); }
  bool needsExtents() const override { return kernel->info().checked; }
};

struct CpuDevice final : HostDevice {
  ThreadPool &pool;
  CancelTable &cancel;
  DeviceProperties p;

  CpuDevice(ThreadPool &pool, CancelTable &cancel) : pool(pool), cancel(cancel) {
    p.name = "cpu";
    p.cores = ThreadPool::availableCores();
    p.memoryBytes = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGE_SIZE));
  }
  const DeviceProperties &properties() const override { return p; }
  std::unique_ptr<Executable> load(const KernelInfo &info, std::span<const char> code, Status &status) override {
    std::unique_ptr<CpuKernel> k = CpuKernel::load(info, code, status);
    return k ? std::make_unique<CpuExecutable>(std::move(k), pool, cancel) : nullptr;
  }
};
} // namespace

Status HostDevice::availableBytes(uint64_t &bytes) {
  bytes = freeMemory();
  return Status::ok();
}

std::unique_ptr<Device> makeCpuDevice(ThreadPool &pool, CancelTable &cancel) {
  return std::make_unique<CpuDevice>(pool, cancel);
}

} // namespace tegula::runtime
