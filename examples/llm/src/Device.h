// The device that a model runs on, and memory on it. On `cpu` and `sim` device memory is the process's own, so that mapped weights are used where they lie.
#pragma once
#include "Tensor.h"
#include <map>
#include <optional>
#include <span>

namespace llm {

/// Memory of a device; copies share it.
struct Buffer {
  void *address = nullptr;
  int64_t bytes = 0;
  TegulaDtype dtype = TEGULA_VOID;
  std::shared_ptr<const void> owner;

  /// The argument of a launch; with `offset` in elements, what begins there.
  tegula::Arg arg(int64_t offset = 0) const {
    int64_t at = offset * tegula_dtype_bytes(dtype);
    return tegula::Arg(static_cast<char *>(address) + at, dtype, bytes - at);
  }
  operator tegula::Arg() const { return arg(); }
  /// `count` elements from `offset` on, taken as elements of another type of the same size if one is given.
  Buffer part(int64_t offset, int64_t count, TegulaDtype as = TEGULA_VOID) const {
    int64_t size = tegula_dtype_bytes(dtype);
    return {static_cast<char *>(address) + offset * size, count * size, as == TEGULA_VOID ? dtype : as, owner};
  }
};

/// How a kernel is launched on a GPU.
struct Launch {
  int32_t warps = 4, stages = 3;
  bool early = false; // may start before the kernel in front of it has ended, for which it waits itself (gdc_wait)
  int32_t blocks = 1;    // thread blocks that share a program, at most Device::blocksTogether()
  int32_t registers = 0; // of a thread at most; 0: as many as the compiler takes
  bool operator==(const Launch &) const = default;
};

/// A device of a context, with the default options of its launches. Cheap to copy; used by one thread.
class Device {
public:
  /// "cpu", "sim", "cuda", "cuda:1". `graphs`: work goes to a stream of its own, of which record() makes graphs; on GPUs it does in any case.
  static Result<Device> open(const tegula::Context &context, const std::string &name, bool graphs = false);

  const tegula::Context &context() const { return context_; }
  const std::string &name() const { return name_; }
  bool isGpu() const { return gpu_; } // `sim` counts: it runs the GPU's code
  /// Whether device memory is memory of the process.
  bool isHost() const { return host_; }
  /// Cores of a CPU, multiprocessors of a GPU.
  int64_t cores() const { return cores_; }
  /// Thread blocks that can share the work of a program.
  int32_t blocksTogether() const { return blocksTogether_; }
  /// Bytes that are free now.
  Result<uint64_t> availableBytes() const { return tegula::Device(context_, options_.device).availableMemory(); }

  Result<Buffer> allocate(TegulaDtype dtype, int64_t count) const;
  /// A tensor as the device sees it: itself where memory is shared, else a copy.
  Result<Buffer> place(const Tensor &t) const;
  Status upload(const Buffer &to, const void *from, int64_t bytes) const;
  /// The same, queued where there is a stream: `from` must stay until the stream is waited for.
  Status queueUpload(const Buffer &to, const void *from, int64_t bytes) const;
  /// Waits for the launches before it.
  Status download(void *to, const Buffer &from, int64_t bytes) const;
  /// Marks what was launched until now on one of two sides. downloadMarked() waits for that, and for nothing launched since.
  Status mark(int side) const { return stream_ ? marks_[side].record(*stream_) : Status(); }
  Status downloadMarked(int side, void *to, const Buffer &from, int64_t bytes) const;
  /// Whether launches return before the work is done.
  bool isQueued() const { return stream_.has_value(); }
  Status synchronize() const { return Status::from(tegula_synchronize(context_.get(), options_.device, options_.stream)); }

  /// Whether record() can be used: there is a stream, and launches are not timed one by one.
  bool hasGraphs() const { return stream_ && !profile_; }
  /// The launches of `work` as a graph, which run() queues.
  template <typename F> Result<tegula::Graph> record(F &&work) const { return stream_->record(work); }
  Status run(const tegula::Graph &graph) const { return graph.launch(*stream_); }

  Status launch(const tegula::Function &f, tegula::Grid grid, std::initializer_list<tegula::Arg> args, Launch how = {}) const {
    tegula::LaunchOptions o = options_;
    o.num_warps = how.warps;
    o.num_stages = how.stages;
    o.num_ctas = how.blocks;
    o.maxnreg = how.registers;
    o.programmatic_launch = how.early;
    return profile_ ? timed(f, grid, args, o) : f(grid, args, o);
  }
  /// From now on each launch is waited for and counted; a table by kernel, the slowest first. Copies of the device share the counts.
  void startProfile() { profile_ = std::make_shared<std::map<std::string, Count>>(); }
  std::string profile() const;

private:
  struct Count {
    int64_t launches = 0;
    double seconds = 0, processor = 0; // wall clock; the launching thread's processor time, which other processes do not change
  };
  Status timed(const tegula::Function &f, tegula::Grid grid, std::initializer_list<tegula::Arg> args, const tegula::LaunchOptions &o) const;
  std::shared_ptr<std::map<std::string, Count>> profile_;
  tegula::Context context_;
  std::string name_;
  tegula::LaunchOptions options_;
  std::optional<tegula::Stream> stream_, copies_; // copies_: of downloadMarked()
  tegula::Event marks_[2];
  bool gpu_ = false, host_ = true;
  int64_t cores_ = 1;
  int32_t blocksTogether_ = 1;
};

} // namespace llm
