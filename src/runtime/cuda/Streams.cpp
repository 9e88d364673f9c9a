// Streams and events of a GPU, and copies queued on them.
#include "runtime/cuda/CudaDevice.h"

namespace tegula::runtime::cuda {

Status CudaDevice::queueCopyIn(void *to, const void *from, uint64_t bytes, void *stream) {
  if (bytes == 0) return Status::ok();
  return queueOn(*this, stream, "copying to ",
                 [&](CUstream s) { return driver_.copyIn(reinterpret_cast<CUdeviceptr>(to), from, bytes, s); });
}

Status CudaDevice::queueCopyOut(void *to, const void *from, uint64_t bytes, void *stream) {
  if (bytes == 0) return Status::ok();
  return queueOn(*this, stream, "copying from ",
                 [&](CUstream s) { return driver_.copyOut(to, reinterpret_cast<CUdeviceptr>(from), bytes, s); });
}

Status CudaDevice::makeStream(void **out) {
  CUstream made = nullptr;
  // The stream does not wait for the default stream: the caller orders work by events.
  Status s = queueOn(*this, nullptr, "making a stream on ",
                     [&](CUstream) { return driver_.streamCreate(&made, CU_STREAM_NON_BLOCKING); });
  *out = made;
  return s;
}

void CudaDevice::endStream(void *stream) {
  Status dropped;
  if (isRecording(stream)) (void)endGraph(stream, dropped);
  (void)queueOn(*this, stream, "waiting for ", [&](CUstream s) {
    driver_.streamSynchronize(s);
    return driver_.streamDestroy(s);
  });
}

namespace {
struct CudaEvent final : Event {
  CudaDevice &device;
  CUevent event = nullptr;
  explicit CudaEvent(CudaDevice &d) : device(d) {}
  ~CudaEvent() override {
    if (event)
      (void)queueOn(device, nullptr, "ending an event on ",
                    [&](CUstream) { return device.driver().eventDestroy(event); });
  }
  Status record(void *stream) override {
    return queueOn(device, stream, "recording an event on ",
                   [&](CUstream s) { return device.driver().eventRecord(event, s); });
  }
  Status isPast(bool &past) override {
    return queueOn(device, nullptr, "looking at an event on ", [&](CUstream) {
      CUresult r = device.driver().eventQuery(event);
      past = r == CUDA_SUCCESS;
      return r == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : r;
    });
  }
  Status wait() override {
    return queueOn(device, nullptr, "waiting for ", [&](CUstream) { return device.driver().eventSynchronize(event); });
  }
  Status holdBack(void *stream) override {
    return queueOn(device, stream, "waiting for ",
                   [&](CUstream s) { return device.driver().streamWaitEvent(s, event, 0); });
  }
  Status since(Event &from, double &ns) override {
    float ms = 0;
    Status s = queueOn(device, nullptr, "waiting for ", [&](CUstream) {
      CUresult r = device.driver().eventSynchronize(event);
      return r == CUDA_SUCCESS ? device.driver().eventElapsed(&ms, static_cast<CudaEvent &>(from).event, event) : r;
    });
    ns = double(ms) * 1e6;
    return s;
  }
};
} // namespace

std::unique_ptr<Event> CudaDevice::event(Status &status) {
  auto e = std::make_unique<CudaEvent>(*this);
  status = queueOn(*this, nullptr, "making an event on ", [&](CUstream) { return driver_.eventCreate(&e->event, 0); });
  return status ? std::move(e) : nullptr;
}

} // namespace tegula::runtime::cuda
