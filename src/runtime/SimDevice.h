// The simulated GPU as a device: loads code that was generated for src/sim and runs it on memory of this process.
#pragma once
#include "runtime/Device.h"

namespace tegula::runtime {

/// `name` "sim" or "sim:sm_80"; `pool` and `cancel` must outlive it.
std::unique_ptr<Device> makeSimDevice(std::string name, uint32_t capability, ThreadPool &pool, CancelTable &cancel);

} // namespace tegula::runtime
