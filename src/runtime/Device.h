// What kernels run on: the CPU, a GPU, the simulator. The layer above sees only this.
#pragma once
#include "runtime/Launch.h"
#include "runtime/TensorMaps.h"
#include <functional>

namespace tegula::runtime {

/// One launch of a kernel whose arguments are packed already.
struct LaunchCall {
  int32_t grid[3] = {1, 1, 1}; // each >= 1
  int64_t programs = 1;        // their product
  /// Argument block, KernelInfo::argBytes long; at least argRoom further bytes may be written.
  char *args = nullptr;
  const TegulaCpuExtent *extents = nullptr; // one per pointer argument where the device asks for them (needsExtents)
  unsigned threads = 1;                     // CPU threads to use
  void *stream = nullptr;                   // GPU: the caller's stream, null: the default stream
  LaunchHooks *hooks = nullptr;             // never null
  // CPU, simulator: end the launch if it makes no progress for that long (hangStatus); 0: never
  uint64_t hangNs = 0;
};
/// The error of a grid that GPUs do not take.
Status gpuGridStatus(const KernelInfo &info, const LaunchCall &call);
/// Is the grid one that GPUs take? Also asked on the simulator: what runs there runs on a GPU.
inline Status checkGpuGrid(const KernelInfo &info, const LaunchCall &call) {
  if (call.grid[1] > 65535 || call.grid[2] > 65535 ||
      call.grid[0] > INT32_MAX / static_cast<int32_t>(info.gpu.clusterCtas)) [[unlikely]]
    return gpuGridStatus(info, call);
  return Status::ok();
}
/// What launching may append to an argument block.
inline constexpr unsigned argRoom = 64 + maxTensorMaps * tensorMapBytes + 16;

/// Loaded, callable code of one kernel on one device. Thread-safe.
class Executable {
public:
  virtual ~Executable() = default;
  /// CPU and simulator: returns when the programs are done. GPU: returns when the launch is queued; an error of an
  /// earlier kernel may come back here, `outcome.culprit` is that kernel then.
  virtual Status launch(const LaunchCall &call, LaunchOutcome &outcome) const = 0;
  virtual size_t codeBytes() const = 0;
  /// True: LaunchCall::extents must be given.
  virtual bool needsExtents() const = 0;
  /// What the kernel takes on its device (GPU); filled when it was loaded.
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

/// Marks of time. Those of a GPU lie in a stream: they say when what was queued before them was done. One thread at a
/// time.
class Stopwatch {
public:
  virtual ~Stopwatch() = default;
  /// Sets mark `i`, again if it is set.
  virtual Status mark(unsigned i, void *stream) = 0;
  /// Nanoseconds from mark `from` to mark `to`, both set; waits until both have passed.
  virtual Status between(unsigned from, unsigned to, double &ns) = 0;
};

/// A stream of its own, on which work is recorded and not run, to be launched as a whole as often as one likes (CUDA
/// graphs). One thread at a time.
class Recorder {
public:
  virtual ~Recorder() = default;
  virtual void *stream() const = 0;
  static constexpr unsigned slots = 2;
  /// What `work` queues on stream() is recorded in `slot`; `operations`: how many that are. An error of `work`, or of
  /// the driver's, which cannot record everything, leaves the slot empty.
  virtual Status record(unsigned slot, const std::function<Status()> &work, size_t &operations) = 0;
  /// Queues what was recorded on stream(); nothing if the slot is empty.
  virtual Status launch(unsigned slot) = 0;
};

/// A point in a stream, recorded as often as one likes; the last counts. It must end before the device.
class Event {
public:
  virtual ~Event() = default;
  virtual Status record(void *stream) = 0;
  /// True for one that was never recorded.
  virtual Status isPast(bool &past) = 0;
  virtual Status wait() = 0;
  /// What is queued on `stream` from now on waits for the event.
  virtual Status holdBack(void *stream) = 0;
  /// Nanoseconds since `from`, of the same device; waits for both.
  virtual Status since(Event &from, double &ns) = 0;
};
class HostStream;

/// What a stream recorded between beginGraph() and endGraph(), to be done as a whole as often as one likes.
/// Thread-safe; it must end before the device.
class Graph {
public:
  virtual ~Graph() = default;
  /// Queues it. The default stream of what is not a GPU has done it on return, and says what failed.
  virtual Status launch(void *stream, LaunchOutcome &outcome) = 0;
  /// Launches, copies and fills in it.
  virtual size_t operations() const = 0;
};

/// Thread-safe.
class Device {
public:
  virtual ~Device() = default;
  virtual const DeviceProperties &properties() const = 0;
  virtual std::unique_ptr<Executable> load(const KernelInfo &info, std::span<const char> code, Status &status) = 0;

  // Memory that kernels of this device may use; for tools and tests, users have their own.
  virtual Status allocate(uint64_t bytes, void **out) = 0;
  virtual void free(void *memory) = 0;
  /// How much allocate() could give now; others may take it before.
  virtual Status availableBytes(uint64_t &bytes) = 0;
  /// Return when the copy is done.
  virtual Status copyIn(void *to, const void *from, uint64_t bytes, void *stream) = 0;
  virtual Status copyOut(void *to, const void *from, uint64_t bytes, void *stream) = 0;
  /// The same, queued.
  virtual Status queueCopyIn(void *to, const void *from, uint64_t bytes, void *stream) = 0;
  virtual Status queueCopyOut(void *to, const void *from, uint64_t bytes, void *stream) = 0;
  /// Queue a copy from one place of this device's memory to another, and bytes of one value; the default stream of what
  /// is not a GPU is done when they return.
  virtual Status copyWithin(void *to, const void *from, uint64_t bytes, void *stream) = 0;
  virtual Status fill(void *to, uint8_t value, uint64_t bytes, void *stream) = 0;
  /// Waits for the stream; reports what its kernels did wrong.
  virtual Status synchronize(void *stream, LaunchOutcome &outcome) = 0;
  /// A stopwatch with this many marks; null with the reason. It must end before the device.
  virtual std::unique_ptr<Stopwatch> stopwatch(unsigned marks, Status &status) = 0;
  /// A stream beside the default one; whoever made it ends it, which waits for what is queued.
  virtual Status makeStream(void **out) = 0;
  virtual void endStream(void *stream) = 0;
  /// The stream that a makeStream() of this device gave, where it is a thread of this process; else null.
  virtual HostStream *hostStream(void *) { return nullptr; }
  virtual std::unique_ptr<Event> event(Status &status) = 0;
  /// What is queued on the stream from here on goes into a graph and is not done. Not the default stream, and not
  /// twice.
  virtual Status beginGraph(void *stream) = 0;
  /// The stream works as before, whatever comes back; null with the reason.
  virtual std::unique_ptr<Graph> endGraph(void *stream, Status &status) = 0;
  /// Between the two?
  virtual bool isRecording(void *stream) = 0;
  /// Waits for streams that are threads of this process: before memory goes that their work may use. (A GPU's driver
  /// does so by itself.)
  virtual void settle() {}
  /// Null with the reason, UNSUPPORTED where there are no streams. It must end before the device.
  virtual std::unique_ptr<Recorder> recorder(Status &status) {
    status = Status::error(TEGULA_UNSUPPORTED, properties().name + " has no CUDA graphs");
    return nullptr;
  }
};

/// The CPU. `pool` and `cancel` must outlive it.
std::unique_ptr<Device> makeCpuDevice(ThreadPool &pool, CancelTable &cancel);

} // namespace tegula::runtime
