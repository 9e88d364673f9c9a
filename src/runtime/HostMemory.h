// Memory functions of the devices whose kernels run in this process: the CPU and the simulator.
#pragma once
#include "runtime/Device.h"
#include <cstdlib>
#include <cstring>

namespace tegula::runtime {

class HostDevice : public Device {
public:
  Status allocate(uint64_t bytes, void **out) override {
    // Whole cache lines; never null for 0 bytes.
    uint64_t rounded = (bytes + 255) / 256 * 256;
    *out = rounded < bytes ? nullptr : std::aligned_alloc(256, rounded ? rounded : 256);
    return *out ? Status::ok() : Status::error(TEGULA_OUT_OF_RESOURCES, "no memory for " + std::to_string(bytes) + " bytes");
  }
  void free(void *memory) override { std::free(memory); }
  Status copyIn(void *to, const void *from, uint64_t bytes, void *) override { return copy(to, from, bytes); }
  Status copyOut(void *to, const void *from, uint64_t bytes, void *) override { return copy(to, from, bytes); }
  Status synchronize(void *, LaunchOutcome &) override { return Status::ok(); }

private:
  static Status copy(void *to, const void *from, uint64_t bytes) {
    if (bytes) std::memcpy(to, from, bytes);
    return Status::ok();
  }
};

} // namespace tegula::runtime
