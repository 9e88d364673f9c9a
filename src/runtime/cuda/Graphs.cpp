// CUDA graphs: work queued on a stream is captured, instantiated, and launched. For users' graphs, and for those in
// which the tuner's clock launches rows of kernels.
//
// The capture is relaxed: other calls of the work (a query of memory, the first load of a module) do not belong to the
// stream. A recorder's stream does not wait for the default stream, nor the reverse: the caller of record() has waited
// for earlier work.
#include "runtime/cuda/CudaDevice.h"

namespace tegula::runtime::cuda {
namespace {

/// Ends the capture of a stream; returns the recorded work, ready to be launched, or null if there is none.
CUresult endCapture(const Driver &driver, CUstream stream, bool wanted, CUgraphExec &exec, size_t &operations) {
  CUgraph graph = nullptr;
  CUresult r = driver.streamEndCapture(stream, &graph);
  exec = nullptr;
  if (wanted && r == CUDA_SUCCESS) r = driver.graphGetNodes(graph, nullptr, &operations);
  if (wanted && r == CUDA_SUCCESS && operations) r = driver.graphInstantiate(&exec, graph, 0);
  if (graph) driver.graphDestroy(graph);
  if (r != CUDA_SUCCESS) exec = nullptr, operations = 0;
  return r;
}

class CudaRecorder final : public Recorder {
public:
  CudaRecorder(CudaDevice &device, CUcontext context) : device_(device), driver_(device.driver()), context_(context) {}
  ~CudaRecorder() override {
    ContextScope scope(driver_, context_);
    if (stream_) driver_.streamSynchronize(stream_);
    for (unsigned i = 0; i < slots; ++i) drop(i);
    if (!stream_) return;
    device_.removeRecorder(stream_);
    driver_.streamDestroy(stream_);
  }
  Status open() {
    ContextScope scope(driver_, context_);
    if (CUresult r = driver_.streamCreate(&stream_, CU_STREAM_NON_BLOCKING); r != CUDA_SUCCESS)
      return stream_ = nullptr, driver_.error(r, "making a stream on " + device_.properties().name);
    device_.addRecorder(stream_);
    return Status::ok();
  }
  void *stream() const override { return stream_; }

  Status record(unsigned slot, const std::function<Status()> &work, size_t &operations) override {
    ContextScope scope(driver_, context_);
    operations = 0;
    drop(slot);
    if (CUresult r = driver_.streamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED); r != CUDA_SUCCESS)
      return failed(r);
    Status s = work();
    // Ends the capture even if the work failed, so that the stream can record again.
    CUresult r = endCapture(driver_, stream_, bool(s), execs_[slot], operations);
    return !s || r == CUDA_SUCCESS ? s : failed(r);
  }
  Status launch(unsigned slot) override {
    if (!execs_[slot]) return Status::ok();
    ContextScope scope(driver_, context_);
    CUresult r = driver_.graphLaunch(execs_[slot], stream_);
    LaunchOutcome outcome;
    return r == CUDA_SUCCESS ? Status::ok()
                             : device_.blame(r, "launching a CUDA graph on " + device_.properties().name, outcome);
  }

private:
  Status failed(CUresult r) {
    LaunchOutcome outcome;
    return device_.blame(r, "recording a CUDA graph on " + device_.properties().name, outcome);
  }
  void drop(unsigned slot) {
    if (execs_[slot]) driver_.graphExecDestroy(execs_[slot]);
    execs_[slot] = nullptr;
  }
  CudaDevice &device_;
  const Driver &driver_;
  CUcontext context_;
  CUstream stream_ = nullptr;
  CUgraphExec execs_[slots] = {};
};

/// A user's graph. The kernels in it stay loaded until the process ends (CudaKernel::lookForCapture).
class CudaGraph final : public Graph {
public:
  CudaGraph(CudaDevice &device, CUgraphExec exec, size_t operations)
      : device_(device), exec_(exec), operations_(operations) {}
  ~CudaGraph() override {
    if (exec_)
      (void)queueOn(device_, nullptr, "ending a graph on ",
                    [&](CUstream) { return device_.driver().graphExecDestroy(exec_); });
  }
  Status launch(void *stream, LaunchOutcome &outcome) override {
    if (!exec_) return Status::ok();
    Status status;
    CUcontext c = device_.context(status);
    if (!c) return status;
    ContextScope scope(device_.driver(), c);
    std::lock_guard lock(mutex_); // the driver's graphs allow one thread at a time
    CUresult r = device_.driver().graphLaunch(exec_, static_cast<CUstream>(stream));
    return r == CUDA_SUCCESS ? Status::ok()
                             : device_.blame(r, "launching a CUDA graph on " + device_.properties().name, outcome);
  }
  size_t operations() const override { return operations_; }

private:
  CudaDevice &device_;
  CUgraphExec exec_;
  size_t operations_;
  std::mutex mutex_;
};

} // namespace

Status CudaDevice::beginGraph(void *stream) {
  // 1 and 2 are the driver's handles of default streams.
  if (reinterpret_cast<uintptr_t>(stream) <= 2)
    return Status::error(TEGULA_INVALID_ARGUMENT, "the default stream records no graph; make a stream for it");
  if (isRecording(stream)) return Status::error(TEGULA_INVALID_ARGUMENT, "the stream records a graph already");
  Status s = queueOn(*this, stream, "recording a CUDA graph on ",
                     [&](CUstream c) { return driver_.streamBeginCapture(c, CU_STREAM_CAPTURE_MODE_RELAXED); });
  std::lock_guard lock(recorderMutex_);
  if (s) recordings_.push_back(static_cast<CUstream>(stream));
  return s;
}

std::unique_ptr<Graph> CudaDevice::endGraph(void *stream, Status &status) {
  {
    std::lock_guard lock(recorderMutex_);
    if (!std::erase(recordings_, static_cast<CUstream>(stream)))
      return status = Status::error(TEGULA_INVALID_ARGUMENT, "the stream records no graph"), nullptr;
  }
  CUgraphExec exec = nullptr;
  size_t operations = 0;
  status = queueOn(*this, stream, "recording a CUDA graph on ",
                   [&](CUstream c) { return endCapture(driver_, c, true, exec, operations); });
  return status ? std::make_unique<CudaGraph>(*this, exec, operations) : nullptr;
}

bool CudaDevice::isRecording(void *stream) {
  std::lock_guard lock(recorderMutex_);
  return std::find(recordings_.begin(), recordings_.end(), stream) != recordings_.end();
}

bool CudaDevice::records(CUstream stream) {
  std::lock_guard lock(recorderMutex_);
  return std::find(recorders_.begin(), recorders_.end(), stream) != recorders_.end();
}
void CudaDevice::addRecorder(CUstream stream) {
  std::lock_guard lock(recorderMutex_);
  recorders_.push_back(stream);
}
void CudaDevice::removeRecorder(CUstream stream) {
  std::lock_guard lock(recorderMutex_);
  std::erase(recorders_, stream);
}

std::unique_ptr<Recorder> CudaDevice::recorder(Status &status) {
  CUcontext c = context(status);
  if (!c) return nullptr;
  auto made = std::make_unique<CudaRecorder>(*this, c);
  status = made->open();
  return status ? std::move(made) : nullptr;
}

} // namespace tegula::runtime::cuda
