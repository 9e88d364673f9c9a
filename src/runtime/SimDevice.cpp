// Converts a launch to sim::launch, and its report to a status that names lines of the kernel.
#include "runtime/SimDevice.h"
#include "runtime/Cancel.h"
#include "runtime/HostMemory.h"
#include "runtime/Print.h"
#include "sim/Machine.h"
#include <algorithm>

namespace tegula::runtime {

/// "site 3" becomes "kernel.py:12:5"; a number without a location stays.
static std::string withPlaces(const std::string &text, const KernelInfo &info) {
  return sim::namePlaces(text, [&](int32_t site) {
    bool known = site >= 0 && static_cast<size_t>(site) < info.sites.size();
    std::string place = known ? placeText(info.sites[static_cast<size_t>(site)]) : "";
    return place.empty() ? "site " + std::to_string(site) : place.substr(0, place.size() - 2);
  });
}

static int32_t faultCode(sim::FaultKind kind) {
  switch (kind) {
  case sim::FaultKind::Assert: return TEGULA_FAULT_ASSERT;
  case sim::FaultKind::GlobalBounds: return TEGULA_FAULT_BOUNDS;
  case sim::FaultKind::Misaligned: return TEGULA_FAULT_ALIGNMENT;
  case sim::FaultKind::Cancelled: return TEGULA_FAULT_CANCELLED;
  default: return TEGULA_FAULT_KIND_HAZARD;
  }
}

/// The target of a global access: relative to the buffer of its argument, or an address (extent -1).
static void locate(const sim::Fault &f, const KernelInfo &info, const TegulaCpuExtent *extents, TegulaCpuFault &out) {
  out.index = static_cast<int64_t>(f.address);
  out.extent = -1;
  if (f.site < 0 || static_cast<size_t>(f.site) >= info.sites.size()) return;
  int32_t arg = info.sites[f.site].arg;
  if (arg < 0 || static_cast<size_t>(arg) >= info.args.size() || !info.args[arg].isPtr) return;
  size_t pointer = 0;
  for (int32_t i = 0; i < arg; ++i) pointer += info.args[i].isPtr;
  const TegulaCpuExtent &e = extents[pointer];
  out.extent = static_cast<int64_t>(e.bytes);
  out.index = static_cast<int64_t>(f.address - e.begin);
  // A wide access that begins inside: its first element outside is the one after the buffer.
  if (f.kind == sim::FaultKind::GlobalBounds && out.index >= 0 && out.index < out.extent) out.index = out.extent;
}

static Status statusOf(const sim::Fault &f, const KernelInfo &info, const TegulaCpuExtent *extents,
                       const std::string &device, LaunchOutcome &outcome) {
  if (f.kind == sim::FaultKind::Cancelled)
    return Status::error(TEGULA_CANCELLED, "the launch of `" + info.name + "` was cancelled");
  if (f.kind == sim::FaultKind::Config)
    return Status::error(TEGULA_INVALID_ARGUMENT, "`" + info.name + "` on " + device + ": " + f.text);
  outcome.fault = {1, faultCode(f.kind), f.site, {f.pid[0], f.pid[1], f.pid[2]}, 0, 0};
  std::string text;
  bool global = f.address && (f.kind == sim::FaultKind::GlobalBounds || f.kind == sim::FaultKind::Misaligned);
  if (global) locate(f, info, extents, outcome.fault);
  if (global || f.kind == sim::FaultKind::Assert) {
    text = faultText(info, outcome.fault);
  } else {
    bool known = f.site >= 0 && static_cast<size_t>(f.site) < info.sites.size();
    text = (known ? placeText(info.sites[f.site]) : "") + "error: " + withPlaces(f.text, info) + " in program (" +
           std::to_string(f.pid[0]) + ", " + std::to_string(f.pid[1]) + ", " + std::to_string(f.pid[2]) + ") of `" +
           info.name + "`";
  }
  return Status::error(TEGULA_FAULT, text + " on " + device);
}

namespace {
struct SimExecutable final : Executable {
  KernelInfo info;
  std::string device;
  std::unique_ptr<LoadedObject> object;
  TegulaSimEntry entry;
  ThreadPool &pool;
  CancelTable &cancel;
  std::shared_ptr<sim::StackPool> stacks; // of the device
  mutable TensorMaps maps;
  SimExecutable(const KernelInfo &i, std::string d, std::unique_ptr<LoadedObject> o, TegulaSimEntry e, ThreadPool &p,
                CancelTable &c, std::shared_ptr<sim::StackPool> s)
      : info(i), device(std::move(d)), object(std::move(o)), entry(e), pool(p), cancel(c), stacks(std::move(s)),
        maps(i,
             [](const void *, const sim::TensorMapSpec &spec, void *map) { return sim::encodeTensorMap(spec, map); }) {}

  size_t codeBytes() const override { return object->codeBytes(); }
  bool needsExtents() const override { return true; }
  GpuUse use() const override {
    GpuUse u = info.gpu.use;
    u.sharedBytes = info.gpu.sharedBytes;
    return u;
  }

  Status launch(const LaunchCall &call, LaunchOutcome &outcome) const override {
    if (Status s = maps.append(info, nullptr, call.args, call.grid); !s) return s;
    if (Status s = checkGpuGrid(info, call); !s) return s;
    CancelWord word(cancel);
    sim::LaunchConfig c;
    c.entry = entry;
    c.args = call.args;
    c.grid = {call.grid[0], call.grid[1], call.grid[2]};
    c.programs = static_cast<uint64_t>(call.programs); // a caller with fewer programs than the grid runs the first ones
    c.threads = info.gpu.threads;
    c.clusterCtas = info.gpu.clusterCtas;
    c.sharedBytes = info.gpu.sharedBytes;
    // The simulator's code is not optimized: unrolled kernels have stack frames of hundreds of KiB.
    if (info.stackBytes > sim::usualStackBytes / 2)
      c.stackBytes += static_cast<uint32_t>(std::min<uint64_t>(info.stackBytes, uint64_t(1) << 30));
    c.cancel = &word.word();
    c.hangNs = call.hangNs;
    c.hostThreads = call.threads;
    c.stacks = stacks.get();
    // A pollable launch runs on a thread of the executor already.
    if (!call.hooks->pollable()) c.executor = pool.executor().run, c.executorUser = pool.executor().user;
    std::vector<sim::Extent> extents;
    size_t pointers = 0;
    for (const ArgInfo &a : info.args) pointers += a.isPtr;
    for (size_t i = 0; i < pointers; ++i) {
      extents.push_back({call.extents[i].begin, call.extents[i].bytes});
      c.allowAny |= call.extents[i].bytes == UINT64_MAX; // a buffer of unknown size
    }
    // A pointer that was loaded from memory or made from an integer may point elsewhere, unless checked mode is on.
    c.allowAny |= !info.checked && std::any_of(info.sites.begin(), info.sites.end(), [](const SiteInfo &s) {
      return s.arg < 0 &&
             (s.kind == SiteInfo::Kind::Load || s.kind == SiteInfo::Kind::Store || s.kind == SiteInfo::Kind::Atomic);
    });
    c.buffers = extents;
    c.print = [&](int32_t site, int32_t operand, const int32_t pid[3], int64_t index, uint64_t bits) {
      if (site >= 0 && static_cast<size_t>(site) < info.sites.size())
        call.hooks->print(printElement(info.sites[site], operand, pid, index, bits));
    };
    sim::Report report = run(c, *call.hooks, word);
    if (report.fault.kind == sim::FaultKind::Hang) return hungStatus(report, call, outcome);
    return report.fault ? statusOf(report.fault, info, call.extents, device, outcome) : Status::ok();
  }

  Status hungStatus(const sim::Report &report, const LaunchCall &call, LaunchOutcome &outcome) const {
    std::vector<HungProgram> programs;
    for (const sim::Unfinished &u : report.unfinished) programs.push_back({u.site, {u.pid[0], u.pid[1], u.pid[2]}});
    return hangStatus(info, call.hangNs, programs, static_cast<int64_t>(report.notStarted), " on " + device, outcome);
  }

  /// Runs on a worker while this thread polls for interrupts, if the hooks are pollable.
  sim::Report run(const sim::LaunchConfig &c, LaunchHooks &hooks, CancelWord &word) const {
    struct Task final : RangeTask {
      const sim::LaunchConfig &config;
      LaunchHooks &hooks;
      CancelWord &word;
      sim::Report report;
      Task(const sim::LaunchConfig &c, LaunchHooks &h, CancelWord &w) : config(c), hooks(h), word(w) {}
      bool run(int64_t, int64_t) override {
        report = sim::launch(config);
        return true;
      }
      void poll() override {
        if (hooks.interrupted()) word.cancel();
      }
    } task(c, hooks, word);
    if (hooks.pollable()) pool.run(task, 1, 1, false);
    else task.run(0, 1);
    return std::move(task.report);
  }
};

struct SimDevice final : HostDevice {
  DeviceProperties p;
  ThreadPool &pool;
  CancelTable &cancel;
  std::shared_ptr<sim::StackPool> stacks = sim::makeStackPool();

  SimDevice(std::string name, uint32_t capability, ThreadPool &pool, CancelTable &cancel) : pool(pool), cancel(cancel) {
    p.kind = DeviceProperties::Kind::Sim;
    p.name = std::move(name);
    p.description = "simulated GPU";
    p.cores = ThreadPool::availableCores();
    p.capability = capability;
    p.maxSharedBytes = sim::sharedLimit;
  }
  const DeviceProperties &properties() const override { return p; }

  std::unique_ptr<Executable> load(const KernelInfo &info, std::span<const char> code, Status &status) override {
    if (info.gpu.sharedBytes > p.maxSharedBytes) {
      status = tooMuchShared(info, info.gpu.sharedBytes, p.maxSharedBytes, p.name);
      return nullptr;
    }
    std::unique_ptr<LoadedObject> object = LoadedObject::load(code, status);
    if (!object) return nullptr;
    auto entry = reinterpret_cast<TegulaSimEntry>(object->symbol(info.symbol));
    if (!entry) {
      status = Status::error(TEGULA_INTERNAL_ERROR, "the object has no entry point `" + info.symbol + "`");
      return nullptr;
    }
    return std::make_unique<SimExecutable>(info, p.name, std::move(object), entry, pool, cancel, stacks);
  }
};
} // namespace

std::unique_ptr<Device> makeSimDevice(std::string name, uint32_t capability, ThreadPool &pool, CancelTable &cancel) {
  return std::make_unique<SimDevice>(std::move(name), capability, pool, cancel);
}

} // namespace tegula::runtime
