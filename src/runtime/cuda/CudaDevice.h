// One GPU: its primary context, the properties that launches need, its memory, and the attribution of errors to
// kernels.
//
// Uses the primary context of the device, as PyTorch, CuPy, JAX and the CUDA runtime do, and restores the calling
// thread's current context. Devices live as long as the process: kernels of static objects may be unloaded after
// main().
#pragma once
#include "abi/GpuAbi.h"
#include "runtime/Device.h"
#include "runtime/cuda/Driver.h"
#include <mutex>

namespace tegula::runtime::cuda {

/// Makes a context current for the calling thread during its lifetime; costs one look-up if it already is.
class ContextScope {
public:
  ContextScope(const Driver &driver, CUcontext context) : driver_(driver) {
    CUcontext current = nullptr;
    if (driver.contextGetCurrent(&current) == CUDA_SUCCESS && current == context) return;
    pushed_ = driver.contextPush(context) == CUDA_SUCCESS;
  }
  ~ContextScope() {
    CUcontext old;
    if (pushed_) driver_.contextPop(&old);
  }
  ContextScope(const ContextScope &) = delete;

private:
  const Driver &driver_;
  bool pushed_ = false;
};

/// Memory ranges known to be accessible from a device, by address: a look-up per pointer argument instead of a driver
/// call. Look-ups are lock-free. docs/rationale/runtime.md explains why an entry may outlive its allocation.
class RangeCache {
public:
  bool contains(uint64_t address) const {
    const Entry &e = entries_[slot(address)];
    uint64_t end = e.end.load(std::memory_order_acquire), begin = e.begin.load(std::memory_order_acquire);
    return begin <= address && address < end && e.end.load(std::memory_order_relaxed) == end;
  }
  /// `address` must be in [begin, end).
  void add(uint64_t address, uint64_t begin, uint64_t end);
  /// Removes the allocation that begins there.
  void remove(uint64_t begin);

private:
  static constexpr unsigned count = 256;
  /// A writer sets `end` to 0, then `begin`, then `end`: a reader that reads the same `end` before and after `begin`
  /// has a consistent pair.
  struct Entry {
    std::atomic<uint64_t> begin{0}, end{0};
  };
  /// By 2 MiB page, so that an allocation takes an entry per page that arguments point into.
  static unsigned slot(uint64_t address) {
    return static_cast<unsigned>((address >> 21) * 0x9E3779B97F4A7C15ull >> 56);
  }
  Entry entries_[count];
  std::mutex mutex_;
};

class CudaDevice final : public Device {
public:
  ~CudaDevice() override;
  /// The GPUs of the process in the driver's order, made at the first call; empty, with the reason in `status`.
  static const std::vector<CudaDevice *> &all(Status &status);
  /// For tests: a separate device. Null, with the reason in `status`.
  static std::unique_ptr<CudaDevice> make(const Driver &driver, int ordinal, Status &status);
  /// True if a GPU was used in this process through the same driver library, by tegula or by other code.
  static bool inUse();

  /// The ordinal of the GPU whose memory `address` points into; -1 for other memory, or if no GPU was used.
  static int ownerOf(uint64_t address);

  /// The ordinal of the GPU of the calling thread's current context; -1: there is none.
  static int currentOrdinal();

  const DeviceProperties &properties() const override { return properties_; }
  std::unique_ptr<Executable> load(const KernelInfo &info, std::span<const char> code, Status &status) override;
  Status allocate(uint64_t bytes, void **out) override;
  Status availableBytes(uint64_t &bytes) override;
  void free(void *memory) override;
  Status copyIn(void *to, const void *from, uint64_t bytes, void *stream) override;
  Status copyOut(void *to, const void *from, uint64_t bytes, void *stream) override;
  Status queueCopyIn(void *to, const void *from, uint64_t bytes, void *stream) override;
  Status queueCopyOut(void *to, const void *from, uint64_t bytes, void *stream) override;
  Status copyWithin(void *to, const void *from, uint64_t bytes, void *stream) override;
  Status fill(void *to, uint8_t value, uint64_t bytes, void *stream) override;
  Status synchronize(void *stream, LaunchOutcome &outcome) override;
  std::unique_ptr<Stopwatch> stopwatch(unsigned marks, Status &status) override;
  std::unique_ptr<Recorder> recorder(Status &status) override;
  Status makeStream(void **out) override;
  void endStream(void *stream) override;
  std::unique_ptr<Event> event(Status &status) override;
  Status beginGraph(void *stream) override;
  std::unique_ptr<Graph> endGraph(void *stream, Status &status) override;
  bool isRecording(void *stream) override;

  /// Is it the stream of a recorder() of this device, whose graphs end before their kernels?
  bool records(CUstream stream);
  void addRecorder(CUstream stream);
  void removeRecorder(CUstream stream);

  const Driver &driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  /// The primary context, retained at the first call.
  CUcontext context(Status &status);

  /// May kernels of this device access `address`, as far as the cache shows? Null may be passed.
  bool accessible(uint64_t address) const { return ranges_.contains(address) || address == 0; }
  /// The slow check, by a driver call; the context must be current. OK, or INVALID_ARGUMENT with the end of a sentence
  /// ("points to CPU memory ...").
  Status checkPointer(uint64_t address);

  /// A launch record for a loaded kernel: one per kernel, so that a claimed record identifies its kernel. Null: no
  /// memory.
  TegulaGpuRecord *takeRecord(std::shared_ptr<const KernelInfo> owner, uint64_t &deviceAddress);
  void giveRecord(TegulaGpuRecord *record);
  /// The Status of a failed launch, copy or wait: if kernels failed on the GPU, names them and the reason.
  Status blame(CUresult r, const std::string &what, LaunchOutcome &outcome);
  /// Remembers the last launched kernels, for messages.
  void launched(const KernelInfo *info) const {
    unsigned n = lastIndex_.load(std::memory_order_relaxed);
    if (last_[(n - 1) % lastCount].load(std::memory_order_relaxed) == info) return;
    // Two threads may take the same slot: a message lacks one name, but launches need no atomic read-modify-write.
    last_[n % lastCount].store(info, std::memory_order_relaxed);
    lastIndex_.store(n + 1, std::memory_order_relaxed);
  }
  void forget(const KernelInfo *info);

private:
  CudaDevice(const Driver &driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  Status read();
  Status whatIs(uint64_t address, unsigned memoryType, int ordinal) const;

  const Driver &driver_;
  int ordinal_;
  CUdevice handle_ = 0;
  DeviceProperties properties_;
  std::once_flag contextOnce_;
  CUcontext context_ = nullptr;
  Status contextStatus_;
  RangeCache ranges_; // ranges accessible from this device
  RangeCache own_;    // ranges of this device's memory

  std::mutex recorderMutex_;
  std::vector<CUstream> recorders_, recordings_; // recordings_: between beginGraph() and endGraph()

  std::mutex recordMutex_;
  struct Owned {
    TegulaGpuRecord *record;
    uint64_t deviceAddress;
    std::shared_ptr<const KernelInfo> owner; // null: free
  };
  std::vector<Owned> records_;
  std::vector<void *> slabs_; // pinned memory of the records
  static constexpr unsigned lastCount = 4;
  mutable std::atomic<unsigned> lastIndex_{0};
  mutable std::atomic<const KernelInfo *> last_[lastCount] = {};
};

/// Queues `work` on the stream; `what` is "copying to ".
template <typename Work> Status queueOn(CudaDevice &d, void *stream, const char *what, Work work) {
  Status status;
  CUcontext c = d.context(status);
  if (!c) return status;
  ContextScope scope(d.driver(), c);
  CUresult r = work(static_cast<CUstream>(stream));
  LaunchOutcome outcome;
  return r == CUDA_SUCCESS ? Status::ok() : d.blame(r, what + d.properties().name, outcome);
}

} // namespace tegula::runtime::cuda
