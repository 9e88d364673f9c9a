// Memory functions of the devices whose kernels run in this process: the CPU and the simulator.
#pragma once
#include "runtime/Device.h"
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace tegula::runtime {

/// Of the steady clock, when a mark is set.
class HostStopwatch final : public Stopwatch {
public:
  explicit HostStopwatch(unsigned marks) : marks_(marks) {}
  Status mark(unsigned i, void *) override {
    marks_[i] = std::chrono::steady_clock::now();
    return Status::ok();
  }
  Status between(unsigned from, unsigned to, double &ns) override {
    ns = std::chrono::duration<double, std::nano>(marks_[to] - marks_[from]).count();
    return Status::ok();
  }

private:
  std::vector<std::chrono::steady_clock::time_point> marks_;
};

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
  Status copyWithin(void *to, const void *from, uint64_t bytes, void *) override { return copy(to, from, bytes); }
  Status fill(void *to, uint8_t value, uint64_t bytes, void *) override {
    if (bytes) std::memset(to, value, bytes);
    return Status::ok();
  }
  Status synchronize(void *, LaunchOutcome &) override { return Status::ok(); }
  std::unique_ptr<Stopwatch> stopwatch(unsigned marks, Status &) override { return std::make_unique<HostStopwatch>(marks); }

private:
  static Status copy(void *to, const void *from, uint64_t bytes) {
    if (bytes) std::memcpy(to, from, bytes);
    return Status::ok();
  }
};

} // namespace tegula::runtime
