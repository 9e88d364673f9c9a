// The buffers of a run on its device: the CPU and the simulator use them in place, a GPU gets copies.
#pragma once
#include "cli/ArgValue.h"

namespace tegula::cli {

class DeviceBuffers {
public:
  DeviceBuffers(TegulaContext *context, int32_t device) : context_(context), device_(device) {}
  ~DeviceBuffers();
  DeviceBuffers(const DeviceBuffers &) = delete;

  /// Makes the copies and redirects the arguments to them. False: the last error is set.
  bool move(const std::vector<ArgValue> &args, std::vector<TegulaArg> &packed);
  /// Waits for the kernels and copies everything back. False: the last error is set.
  bool copyBack();
  /// Are launches queued, so that they must be waited for?
  bool isGpu() const { return isGpu_; }
  bool wait() const { return tegula_synchronize(context_, device_, nullptr) == TEGULA_OK; }

private:
  struct Copy {
    void *host, *device;
    size_t bytes;
  };
  TegulaContext *context_;
  int32_t device_;
  bool isGpu_ = false;
  std::vector<Copy> copies_;
};

} // namespace tegula::cli
