// The devices that kernels run on: the CPU, a GPU, the simulator. The layer above uses only this interface.
#pragma once
#include "runtime/Launch.h"
#include "runtime/TensorMaps.h"
#include <functional>

namespace tegula::runtime {

/// One launch of a kernel with packed arguments.
struct LaunchCall {
  int32_t grid[3] = {1, 1, 1}; // each >= 1
  int64_t programs = 1;        // their product
  /// Argument block, KernelInfo::argBytes long; at least argRoom further bytes may be written.
  char *args = nullptr;
  const TegulaCpuExtent *extents = nullptr; // one per pointer argument where the device asks for them (needsExtents)
  unsigned threads = 1;                     // CPU threads to use
  void *stream = nullptr;                   // GPU: the caller's stream, null: the default stream
  LaunchHooks *hooks = nullptr;             // never null
  // CPU, simulator: ends the launch if it makes no progress for that long (hangStatus); 0: never
  uint64_t hangNs = 0;
};
/// The error for a grid that GPUs do not support.
Status gpuGridStatus(const KernelInfo &info, const LaunchCall &call);
/// Do GPUs support the grid? Also checked on the simulator: a launch that runs there must run on a GPU.
inline Status checkGpuGrid(const KernelInfo &info, const LaunchCall &call) {
  if (call.grid[1] > 65535 || call.grid[2] > 65535 ||
      call.grid[0] > INT32_MAX / static_cast<int32_t>(info.gpu.clusterCtas)) [[unlikely]]
    return gpuGridStatus(info, call);
  return Status::ok();
}
/// The room that a launch may need after an argument block.
inline constexpr unsigned argRoom = 64 + maxTensorMaps * tensorMapBytes + 16;

/// Loaded, callable code of one kernel on one device. Thread-safe.
class Executable {
public:
  virtual ~Executable() = default;
  /// CPU and simulator: returns when the programs are done. GPU: returns when the launch is queued; may return the
  /// error of an earlier kernel, which `outcome.culprit` then names.
  virtual Status launch(const LaunchCall &call, LaunchOutcome &outcome) const = 0;
  virtual size_t codeBytes() const = 0;
  /// True: LaunchCall::extents must be set.
  virtual bool needsExtents() const = 0;
  /// The kernel's resources on its device (GPU); set when it is loaded.
  virtual GpuUse use() const { return {}; }
};

struct DeviceProperties {
  enum class Kind : uint8_t { Cpu, Cuda, Sim } kind = Kind::Cpu;
  std::string name;        // "cuda:0"
  std::string description; // of the hardware
  uint32_t cores = 1;      // CPU cores, multiprocessors
  uint64_t memoryBytes = 0, l2Bytes = 0;
  uint32_t capability = 0;  // GPU: 90 for 9.0
  uint32_t maxSharedBytes = 0; // GPU: per block
};

/// Time marks. On a GPU they lie in a stream and record when all work queued before them was done. One thread at a
/// time.
class Stopwatch {
public:
  virtual ~Stopwatch() = default;
  /// Sets mark `i`, or sets it again.
  virtual Status mark(unsigned i, void *stream) = 0;
  /// Nanoseconds from mark `from` to mark `to`, both set; waits until both have passed.
  virtual Status between(unsigned from, unsigned to, double &ns) = 0;
};

/// A stream of its own that records work instead of running it, to be launched as a whole any number of times (CUDA
/// graphs). One thread at a time.
class Recorder {
public:
  virtual ~Recorder() = default;
  virtual void *stream() const = 0;
  static constexpr unsigned slots = 2;
  /// Records in `slot` what `work` queues on stream(); `operations`: their number. An error of `work`, or of the
  /// driver, which cannot record everything, leaves the slot empty.
  virtual Status record(unsigned slot, const std::function<Status()> &work, size_t &operations) = 0;
  /// Queues the recorded work on stream(); nothing if the slot is empty.
  virtual Status launch(unsigned slot) = 0;
};

/// A point in a stream; may be recorded any number of times, and the last one counts. It must end before the device.
class Event {
public:
  virtual ~Event() = default;
  virtual Status record(void *stream) = 0;
  /// True for an event that was never recorded.
  virtual Status isPast(bool &past) = 0;
  virtual Status wait() = 0;
  /// Work queued on `stream` from now on waits for the event.
  virtual Status holdBack(void *stream) = 0;
  /// Nanoseconds since `from`, an event of the same device; waits for both.
  virtual Status since(Event &from, double &ns) = 0;
};
class HostStream;

/// The work that a stream recorded between beginGraph() and endGraph(), to be launched as a whole any number of times.
/// Thread-safe; it must end before the device.
class Graph {
public:
  virtual ~Graph() = default;
  /// Queues the graph. On the default stream of a device other than a GPU, it has run on return, and errors are
  /// reported.
  virtual Status launch(void *stream, LaunchOutcome &outcome) = 0;
  /// The number of launches, copies and fills in it.
  virtual size_t operations() const = 0;
};

/// Thread-safe.
class Device {
public:
  virtual ~Device() = default;
  virtual const DeviceProperties &properties() const = 0;
  virtual std::unique_ptr<Executable> load(const KernelInfo &info, std::span<const char> code, Status &status) = 0;

  // Memory that kernels of this device may use; for tools and tests. Users have their own.
  virtual Status allocate(uint64_t bytes, void **out) = 0;
  virtual void free(void *memory) = 0;
  /// How much allocate() could return now; other users may allocate it first.
  virtual Status availableBytes(uint64_t &bytes) = 0;
  /// Return when the copy is done.
  virtual Status copyIn(void *to, const void *from, uint64_t bytes, void *stream) = 0;
  virtual Status copyOut(void *to, const void *from, uint64_t bytes, void *stream) = 0;
  /// Queue the same copies.
  virtual Status queueCopyIn(void *to, const void *from, uint64_t bytes, void *stream) = 0;
  virtual Status queueCopyOut(void *to, const void *from, uint64_t bytes, void *stream) = 0;
  /// Queue a copy within this device's memory, and a fill with one byte value. On the default stream of a device other
  /// than a GPU they are done on return.
  virtual Status copyWithin(void *to, const void *from, uint64_t bytes, void *stream) = 0;
  virtual Status fill(void *to, uint8_t value, uint64_t bytes, void *stream) = 0;
  /// Waits for the stream; reports the errors of its kernels.
  virtual Status synchronize(void *stream, LaunchOutcome &outcome) = 0;
  /// A stopwatch with that many marks; null, with the reason in `status`. It must end before the device.
  virtual std::unique_ptr<Stopwatch> stopwatch(unsigned marks, Status &status) = 0;
  /// Makes a stream besides the default one; the caller ends it, which waits for queued work.
  virtual Status makeStream(void **out) = 0;
  virtual void endStream(void *stream) = 0;
  /// The stream of a makeStream() of this device, if streams are threads of this process; else null.
  virtual HostStream *hostStream(void *) { return nullptr; }
  virtual std::unique_ptr<Event> event(Status &status) = 0;
  /// Work queued on the stream from now on is recorded in a graph and not run. Not for the default stream, and not
  /// nested.
  virtual Status beginGraph(void *stream) = 0;
  /// The stream works as before, whatever is returned; null, with the reason in `status`.
  virtual std::unique_ptr<Graph> endGraph(void *stream, Status &status) = 0;
  /// Is the stream between beginGraph() and endGraph()?
  virtual bool isRecording(void *stream) = 0;
  /// Waits for streams that are threads of this process, before memory is freed that their work may use. (A GPU's
  /// driver does so automatically.)
  virtual void settle() {}
  /// Null, with the reason in `status`: UNSUPPORTED if there are no streams. It must end before the device.
  virtual std::unique_ptr<Recorder> recorder(Status &status) {
    status = Status::error(TEGULA_UNSUPPORTED, properties().name + " has no CUDA graphs");
    return nullptr;
  }
};

/// The CPU. `pool` and `cancel` must outlive it.
std::unique_ptr<Device> makeCpuDevice(ThreadPool &pool, CancelTable &cancel);

} // namespace tegula::runtime
