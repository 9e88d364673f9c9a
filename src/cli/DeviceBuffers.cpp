// Copies of buffers on a GPU.
#include "cli/DeviceBuffers.h"

namespace tegula::cli {

bool DeviceBuffers::move(const std::vector<ArgValue> &args, std::vector<TegulaArg> &packed) {
  TegulaDeviceInfo info{};
  info.size = sizeof info;
  if (tegula_device_info(context_, static_cast<size_t>(device_), &info) != TEGULA_OK) return false;
  isGpu_ = info.kind == TEGULA_DEVICE_CUDA;
  if (!isGpu_) return true;
  for (const ArgValue &a : args) {
    if (!a.isBuffer) continue;
    Copy c{a.memory.get(), nullptr, a.bytes};
    if (tegula_memory_allocate(context_, device_, c.bytes, &c.device) != TEGULA_OK) return false;
    copies_.push_back(c);
    if (tegula_memory_copy(context_, device_, TEGULA_TO_DEVICE, c.device, c.host, c.bytes, nullptr) != TEGULA_OK)
      return false;
    for (TegulaArg &p : packed)
      if (p.kind == TEGULA_ARG_POINTER && p.u.ptr == c.host) p.u.ptr = c.device;
  }
  return true;
}

bool DeviceBuffers::copyBack() {
  if (isGpu_ && !wait()) return false;
  for (const Copy &c : copies_)
    if (tegula_memory_copy(context_, device_, TEGULA_FROM_DEVICE, c.host, c.device, c.bytes, nullptr) != TEGULA_OK)
      return false;
  return true;
}

DeviceBuffers::~DeviceBuffers() {
  for (const Copy &c : copies_) tegula_memory_free(context_, device_, c.device);
}

} // namespace tegula::cli
