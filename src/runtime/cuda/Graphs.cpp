// CUDA graphs: what is queued on a stream of our own is captured, made executable, and launched.
//
// The capture is relaxed: what the work does besides (a look at memory, the first load of a module) is none of the stream's. The stream does not wait for the
// default stream, nor the other way round: who records has waited for what came before.
#include "runtime/cuda/CudaDevice.h"

namespace tegula::runtime::cuda {
namespace {

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
    if (CUresult r = driver_.streamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED); r != CUDA_SUCCESS) return failed(r);
    Status s = work();
    // Ends the capture whatever became of the work: the stream is good for the next one.
    CUgraph graph = nullptr;
    CUresult r = driver_.streamEndCapture(stream_, &graph);
    if (s && r == CUDA_SUCCESS) r = driver_.graphGetNodes(graph, nullptr, &operations);
    if (s && r == CUDA_SUCCESS && operations) r = driver_.graphInstantiate(&execs_[slot], graph, 0);
    if (graph) driver_.graphDestroy(graph);
    if (r != CUDA_SUCCESS) execs_[slot] = nullptr, operations = 0;
    return !s || r == CUDA_SUCCESS ? s : failed(r);
  }
  Status launch(unsigned slot) override {
    if (!execs_[slot]) return Status::ok();
    ContextScope scope(driver_, context_);
    CUresult r = driver_.graphLaunch(execs_[slot], stream_);
    LaunchOutcome outcome;
    return r == CUDA_SUCCESS ? Status::ok() : device_.blame(r, "launching a CUDA graph on " + device_.properties().name, outcome);
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

} // namespace

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
