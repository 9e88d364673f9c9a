// The C interface of bundles: entries by kernel and machine, launches by facts. Independent of the compiler.
#include "runtime/BundleMachine.h"
#include "runtime/BundleMatch.h"
#include "runtime/PackScalar.h"
#include "runtime/SimDevice.h"
#include "runtime/cuda/CudaDevice.h"
#include "support/Expr.h"
#include "support/Gate.h"
#include "tegula/bundle.h"
#include <algorithm>
#include <cstdio>
#include <mutex>

using namespace tegula;
using namespace tegula::runtime;

namespace {

thread_local std::string lastError;

TegulaStatus fail(TegulaStatus code, std::string text) {
  lastError = std::move(text);
  return code;
}
TegulaStatus fail(const Status &s) { return fail(s.code, s.text); }

struct Prints final : LaunchHooks {
  void print(const std::string &text) override {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
};

/// Copies a program's struct over the defaults, up to the smaller size (the rule of tegula.h for structs that grow).
/// False: it has less than `least` bytes, so `size` is not set.
template <typename T> bool takeSized(const T *given, T &out, size_t least) {
  if (given->size < least) return false;
  std::memcpy(&out, given, std::min(given->size, sizeof out));
  out.size = sizeof out;
  return true;
}

/// An entry that a device can run; its parts are filled in as they are read.
struct Candidate {
  uint32_t index = 0;
  BundleRecord record;
  std::unique_ptr<Executable> code; // made under the bundle's mutex
  std::atomic<const Executable *> ready{nullptr};
};

/// The candidates of one device, in the order of trial.
struct Candidates {
  std::vector<std::unique_ptr<Candidate>> list;
  std::string problem; // why there are none
};

constexpr int32_t cpuIndex = TEGULA_DEVICE_INDEX_CPU, simIndex = TEGULA_DEVICE_INDEX_SIM,
                  firstCuda = TEGULA_DEVICE_INDEX_CUDA;

} // namespace

struct TegulaBundleKernel {
  TegulaBundle *bundle = nullptr;
  std::string name;
  /// By index of device, below `fast`; filled in under the bundle's mutex.
  static constexpr int32_t fast = 32;
  mutable std::atomic<const Candidates *> devices[fast] = {};
  mutable std::vector<std::unique_ptr<Candidates>> owned;
};

struct TegulaBundle {
  std::shared_ptr<const Bundle> file;
  ThreadPool pool;
  CancelTable cancel;
  unsigned threads = 1;
  std::mutex mutex; // only in a GateSection
  std::map<std::string, std::unique_ptr<TegulaBundleKernel>, std::less<>> kernels;
  std::unique_ptr<Device> cpu, sim;
  struct Shown {
    std::string signature, problem;
    uint64_t scratch = 0;
    BundleOptions options;
    bool read = false;
  };
  std::map<size_t, Shown> shown;

  /// Requires the mutex. Null, with the reason in `status`.
  Device *device(int32_t index, Status &status) {
    if (index == cpuIndex) {
      if (!cpu) cpu = makeCpuDevice(pool, cancel);
      return cpu.get();
    }
    if (index == simIndex) {
      if (!sim) sim = makeSimDevice("sim", 90, pool, cancel);
      return sim.get();
    }
    const std::vector<cuda::CudaDevice *> &all = cuda::CudaDevice::all(status);
    size_t n = static_cast<size_t>(index - firstCuda);
    if (index >= firstCuda && n < all.size()) return all[n];
    if (status)
      status = Status::error(TEGULA_NOT_FOUND, "there is no device " + std::to_string(index) + "; this machine has " +
                                                   std::to_string(all.size()) + " GPUs");
    return nullptr;
  }
};

namespace {

int rankOn(const Device &d, const BundleEntry &e, std::string &why) {
  bool isGpu = e.target.starts_with("sm_"), isSim = e.target.starts_with("sim");
  switch (d.properties().kind) {
  case DeviceProperties::Kind::Cpu: return isGpu || isSim ? -1 : cpuRank(e.needs, -1, why);
  case DeviceProperties::Kind::Cuda: return isGpu ? gpuRank(e.needs, d.properties().capability, why) : -1;
  case DeviceProperties::Kind::Sim: return e.target == "sim" ? simRank(e.needs, why) : -1;
  }
  return -1;
}

/// The best entry of each class that the device runs; those with most facts first, then in the order of the manifest.
/// Requires the mutex.
std::unique_ptr<Candidates> collect(const TegulaBundleKernel &k, const Device &d) {
  auto out = std::make_unique<Candidates>();
  std::map<Digest, std::pair<int, uint32_t>> best;
  std::string others, why;
  for (uint32_t i : k.bundle->file->ofKernel(k.name)) {
    const BundleEntry &e = k.bundle->file->entries()[i];
    why.clear();
    int rank = rankOn(d, e, why);
    if (rank < 0) {
      std::string text = e.target + (why.empty() ? "" : " (" + why + ")");
      if (others.find(text) == others.npos) others += (others.empty() ? "" : ", ") + text;
      continue;
    }
    auto [it, isNew] = best.try_emplace(e.classKey, rank, i);
    if (!isNew && rank > it->second.first) it->second = {rank, i};
  }
  for (auto &[key, found] : best) {
    auto c = std::make_unique<Candidate>();
    c->index = found.second;
    // Damaged entries are skipped; the next best class may serve.
    if (Status s = k.bundle->file->record(c->index, c->record); !s) {
      out->problem = s.text;
      continue;
    }
    out->list.push_back(std::move(c));
  }
  const std::vector<BundleEntry> &entries = k.bundle->file->entries();
  std::sort(out->list.begin(), out->list.end(), [&](const auto &a, const auto &b) {
    unsigned x = factsOf(a->record), y = factsOf(b->record);
    // A form with 64-bit offsets, or with checks, comes after all others.
    const BundleRecord &first = a->record, &second = b->record;
    return std::tuple(first.info.checked, first.options.wide, y, entries[a->index].order) <
           std::tuple(second.info.checked, second.options.wide, x, entries[b->index].order);
  });
  if (out->list.empty() && out->problem.empty())
    out->problem = "`" + k.name + "` is in " + k.bundle->file->name() + " for " + others + "; " + d.properties().name +
                   " runs none of these";
  return out;
}

const Candidates *candidatesOn(const TegulaBundleKernel &k, int32_t device) {
  if (device < 0 || device >= TegulaBundleKernel::fast)
    return fail(TEGULA_NOT_FOUND, "there is no device " + std::to_string(device)), nullptr;
  if (const Candidates *c = k.devices[device].load(std::memory_order_acquire)) return c;
  GateSection section;
  std::lock_guard lock(k.bundle->mutex);
  if (const Candidates *c = k.devices[device].load(std::memory_order_relaxed)) return c;
  Status status;
  Device *d = k.bundle->device(device, status);
  if (!d) return fail(status), nullptr;
  k.owned.push_back(collect(k, *d));
  k.devices[device].store(k.owned.back().get(), std::memory_order_release);
  return k.owned.back().get();
}

const Executable *load(const TegulaBundleKernel &k, Candidate &c, int32_t device) {
  GateSection section;
  std::lock_guard lock(k.bundle->mutex);
  if (const Executable *e = c.ready.load(std::memory_order_relaxed)) return e;
  std::vector<char> code;
  Status status = k.bundle->file->code(c.index, code);
  Device *d = status ? k.bundle->device(device, status) : nullptr;
  if (d) c.code = d->load(c.record.info, code, status);
  if (!c.code) return fail(status), nullptr;
  c.ready.store(c.code.get(), std::memory_order_release);
  return c.code.get();
}

bool asked(const BundleOptions &o, const TegulaLaunchOptions &l) {
  return (!l.num_warps || l.num_warps == o.numWarps) && (!l.num_stages || l.num_stages == o.numStages) &&
         (!l.num_ctas || l.num_ctas == o.numCtas) && (!l.maxnreg || l.maxnreg == o.maxnreg) &&
         (l.wide_offsets <= 0 || o.wide);
}

/// The GPU of the first pointer; -1: none.
int32_t deviceOf(const TegulaArg *args, size_t count) {
  if (!cuda::CudaDevice::inUse()) return -1;
  for (size_t i = 0; i < count; ++i) {
    const TegulaArg &a = args[i];
    if (a.kind == TEGULA_ARG_TUPLE && a.count && a.u.items)
      if (int32_t d = deviceOf(a.u.items, a.count); d >= 0) return d;
    if (a.kind != TEGULA_ARG_POINTER || !a.u.ptr) continue;
    int n = cuda::CudaDevice::ownerOf(reinterpret_cast<uint64_t>(a.u.ptr));
    if (n >= 0) return firstCuda + n;
  }
  return -1;
}

/// The device of a launch whose arguments do not determine it: the CPU, if the kernel has entries for CPUs; else the
/// thread's current GPU, or the simulator.
int32_t usualDevice(const TegulaBundleKernel &k) {
  bool gpu = false;
  for (uint32_t i : k.bundle->file->ofKernel(k.name)) {
    const std::string &target = k.bundle->file->entries()[i].target;
    if (target.starts_with("cpu")) return cpuIndex;
    gpu = gpu || target.starts_with("sm_");
  }
  return gpu ? firstCuda + std::max(cuda::CudaDevice::currentOrdinal(), 0) : simIndex;
}

bool hasNull(const TegulaArg *args, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const TegulaArg &a = args[i];
    if (a.kind == TEGULA_ARG_POINTER
            ? !a.u.ptr
            : a.kind == TEGULA_ARG_TUPLE && a.count && a.u.items && hasNull(a.u.items, a.count))
      return true;
  }
  return false;
}

/// `nullsOnly`: the kernel's checks serve null pointers only; other pointers are not checked.
TegulaStatus run(const TegulaBundleKernel &k, const Executable &code, const BundleRecord &record,
                 const BundleCall &call, const int32_t grid[3], int64_t programs, const TegulaLaunchOptions &o,
                 bool nullsOnly) {
  alignas(64) char block[16 * BundleCall::maxArgs + argRoom];
  TegulaCpuExtent extents[BundleCall::maxArgs];
  const KernelInfo &info = record.info;
  if (info.argBytes > 16 * BundleCall::maxArgs)
    return fail(TEGULA_OUT_OF_RESOURCES, "`" + k.name + "` takes more bytes of arguments than a launch can pass");
  TegulaCpuExtent *extent = code.needsExtents() ? extents : nullptr;
  for (unsigned i = 0; i < call.count; ++i) {
    const ArgInfo &slot = info.args[i];
    const TegulaArg &a = *call.args[i];
    if (!slot.isPtr) {
      if (!packScalar(slot.dtype, a, block + slot.offset))
        return fail(TEGULA_UNSUPPORTED, "`" + k.name + "`: `" + slot.name + "` is of a type that scalars cannot have");
      continue;
    }
    if (slot.written && (a.flags & TEGULA_ARG_READ_ONLY))
      return fail(TEGULA_INVALID_ARGUMENT,
                  "`" + k.name + "`: `" + slot.name + "` is read-only, but the kernel stores to it");
    std::memcpy(block + slot.offset, &a.u.ptr, sizeof a.u.ptr);
    if (extent && nullsOnly) *extent++ = {0, a.u.ptr ? UINT64_MAX : 0};
    else if (extent)
      *extent++ = a.u2.extent >= 0
                      ? TegulaCpuExtent{reinterpret_cast<uint64_t>(a.u.ptr), static_cast<uint64_t>(a.u2.extent)}
                      : TegulaCpuExtent{0, UINT64_MAX};
  }
  Prints hooks;
  unsigned threads = o.num_threads > 0
                         ? std::min<unsigned>(static_cast<unsigned>(o.num_threads), ThreadPool::maxThreads)
                         : k.bundle->threads;
  LaunchCall launch{{grid[0], grid[1], grid[2]},
                    programs,
                    block,
                    extents,
                    threads,
                    o.stream,
                    &hooks,
                    o.hang_s > 0 ? static_cast<uint64_t>(o.hang_s * 1e9) : 0};
  LaunchOutcome outcome;
  Status s = code.launch(launch, outcome);
  if (s) [[likely]]
    return TEGULA_OK;
  bool known = s.code == TEGULA_FAULT && s.text.empty();
  return fail(s.code, known ? faultText(outcome.culprit ? *outcome.culprit : info, outcome.fault) : s.text);
}

/// The grid of an entry in the manifest, for these arguments.
Status gridOf(const BundleRecord &record, const TegulaArg *args, size_t count, int64_t grid[3]) {
  if (record.grid.empty()) return Status::error(TEGULA_INVALID_ARGUMENT, "no grid is given, and the manifest has none");
  auto names = [&](std::string_view name) -> std::optional<int64_t> {
    for (size_t i = 0; i < record.params.size(); ++i) {
      const BundleParam &p = record.params[i];
      if (p.name != name) continue;
      if (p.kind == BundleParam::Kind::Constant &&
          (p.constant == BundleParam::Constant::Int || p.constant == BundleParam::Constant::Bool))
        return p.number;
      if (i < count &&
          (args[i].kind == TEGULA_ARG_INT || args[i].kind == TEGULA_ARG_BOOL || args[i].kind == TEGULA_ARG_UINT))
        return args[i].u.i;
    }
    return std::nullopt;
  };
  std::string error;
  return evaluateGrid(record.grid, names, grid, error)
             ? Status::ok()
             : Status::error(TEGULA_INVALID_ARGUMENT, "grid " + record.grid + ": " + error);
}

std::string kernelNames(const Bundle &b) {
  std::string names, last;
  for (const BundleEntry &e : b.entries())
    if (e.kernel != last) names += (names.empty() ? "" : ", ") + (last = e.kernel);
  return names.empty() ? "none" : names;
}

TegulaStatus make(std::shared_ptr<const Bundle> file, const Status &status, const TegulaBundleOptions &o,
                  TegulaBundle **out) {
  if (!file) return fail(status);
  auto *b = new TegulaBundle;
  b->file = std::move(file);
  b->threads = o.num_threads > 0 ? std::min<unsigned>(static_cast<unsigned>(o.num_threads), ThreadPool::maxThreads)
                                 : ThreadPool::availableCores();
  *out = b;
  return TEGULA_OK;
}

/// The options with their defaults, and the key if one is given.
bool take(const TegulaBundleOptions *given, TegulaBundleOptions &o, PublicKey &key, const PublicKey *&use) {
  o = TEGULA_BUNDLE_OPTIONS_INIT;
  if (given && !takeSized(given, o, sizeof o)) return false;
  use = nullptr;
  if (o.public_key) std::memcpy(key.data(), o.public_key, key.size()), use = &key;
  return true;
}

} // namespace

const char *tegula_bundle_error(void) { return lastError.c_str(); }

TegulaStatus tegula_bundle_open(const char *path, const TegulaBundleOptions *options, TegulaBundle **out) {
  TegulaBundleOptions o;
  PublicKey key;
  const PublicKey *use;
  if (!path || !out || !take(options, o, key, use))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_bundle_open: null argument, or `size` of the options is not set");
  Status status;
  std::shared_ptr<const Bundle> file = Bundle::open(path, use, true, status);
  return make(std::move(file), status, o, out);
}

TegulaStatus tegula_bundle_open_memory(const void *bytes, size_t length, const TegulaBundleOptions *options,
                                       TegulaBundle **out) {
  TegulaBundleOptions o;
  PublicKey key;
  const PublicKey *use;
  if (!bytes || !out || !take(options, o, key, use))
    return fail(TEGULA_INVALID_ARGUMENT,
                "tegula_bundle_open_memory: null argument, or `size` of the options is not set");
  Status status;
  std::shared_ptr<const Bundle> file =
      Bundle::of({static_cast<const char *>(bytes), length}, "the bundle in memory", use, status);
  return make(std::move(file), status, o, out);
}

void tegula_bundle_close(TegulaBundle *bundle) {
  GateSection section;
  delete bundle;
}

size_t tegula_bundle_entry_count(const TegulaBundle *bundle) { return bundle ? bundle->file->entries().size() : 0; }

TegulaStatus tegula_bundle_entry(TegulaBundle *b, size_t index, TegulaBundleEntry *out) {
  if (!b || !out || out->size < sizeof *out || index >= b->file->entries().size())
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_bundle_entry: null argument, `size` not set, or no such entry");
  GateSection section;
  std::lock_guard lock(b->mutex);
  const BundleEntry &e = b->file->entries()[index];
  TegulaBundle::Shown &s = b->shown[index];
  if (!s.read) {
    s.read = true;
    BundleRecord record;
    if (Status status = b->file->record(index, record); !status) s.problem = status.text;
    s.signature = record.signature, s.scratch = record.info.scratchBytes, s.options = record.options;
  }
  *out = {sizeof *out, e.kernel.c_str(), e.target.c_str(), e.needs.c_str(),
          s.signature.c_str(), s.problem.c_str(), e.codeBytes, s.scratch,
          s.options.numWarps, s.options.numStages, s.options.numCtas, s.options.maxnreg};
  return TEGULA_OK;
}

TegulaStatus tegula_bundle_check(TegulaBundle *b) {
  if (!b) return fail(TEGULA_INVALID_ARGUMENT, "tegula_bundle_check: null bundle");
  Status s = b->file->checkAll();
  return s ? TEGULA_OK : fail(s);
}

TegulaStatus tegula_bundle_kernel(TegulaBundle *b, const char *name, const TegulaBundleKernel **out) {
  if (!b || !name || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_bundle_kernel: null argument");
  if (b->file->ofKernel(name).empty()) {
    for (const std::string &note : b->file->notes())
      if (note.find("`" + std::string(name) + "`") != note.npos) return fail(TEGULA_UNSUPPORTED, note);
    return fail(TEGULA_NOT_FOUND, b->file->name() + " has no kernel `" + name + "`; it has " + kernelNames(*b->file));
  }
  GateSection section;
  std::lock_guard lock(b->mutex);
  std::unique_ptr<TegulaBundleKernel> &k = b->kernels[name];
  if (!k) {
    k = std::make_unique<TegulaBundleKernel>();
    k->bundle = b;
    k->name = name;
  }
  *out = k.get();
  return TEGULA_OK;
}

TegulaStatus tegula_bundle_launch(const TegulaBundleKernel *k, const int64_t grid[3], const TegulaArg *args,
                                  size_t count, const TegulaLaunchOptions *options) {
  if (!k || (!args && count)) return fail(TEGULA_INVALID_ARGUMENT, "tegula_bundle_launch: null argument");
  TegulaLaunchOptions o = TEGULA_LAUNCH_OPTIONS_INIT;
  if (options && !takeSized(options, o, offsetof(TegulaLaunchOptions, memory)))
    return fail(TEGULA_INVALID_ARGUMENT, "`size` of the launch options is not set");
  int32_t extents[3];
  int64_t programs = 0;
  if (Status s = grid ? checkGrid(grid, extents, programs) : Status::ok(); !s)
    return fail(s.code, "`" + k->name + "`: " + s.text);
  int32_t device = o.device >= 0 ? o.device : deviceOf(args, count);
  if (device < 0) device = usualDevice(*k);
  const Candidates *candidates = candidatesOn(*k, device);
  if (!candidates) return TEGULA_NOT_FOUND;
  if (candidates->list.empty()) return fail(TEGULA_UNSUPPORTED, candidates->problem);
  BundleCall call;
  // On a CPU, dereferencing a null pointer ends the process, unless the form with checks exists: it comes last in the
  // list, and is tried first for such launches.
  const std::vector<std::unique_ptr<Candidate>> &list = candidates->list;
  const bool forNulls = !list.front()->record.info.checked && list.back()->record.info.checked;
  const bool checksFirst = forNulls && device == cpuIndex && hasNull(args, count);
  const size_t begin = checksFirst
                           ? static_cast<size_t>(std::find_if(list.begin(), list.end(),
                                                              [](const auto &c) { return c->record.info.checked; }) -
                                                 list.begin())
                           : 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::unique_ptr<Candidate> &c = list[(begin + i) % list.size()];
    if (!asked(c->record.options, o) || !fits(c->record, args, count, call, nullptr)) continue;
    const Executable *code = c->ready.load(std::memory_order_acquire);
    if (!code && !(code = load(*k, *c, device))) return TEGULA_INVALID_ARGUMENT;
    int64_t given[3];
    Status s = grid ? Status::ok() : gridOf(c->record, args, count, given);
    if (s && !grid) s = checkGrid(given, extents, programs);
    if (!s) return fail(s.code, "`" + k->name + "`: " + s.text);
    return programs ? run(*k, *code, c->record, call, extents, programs, o, forNulls) : TEGULA_OK;
  }
  // The reasons for failure: the first one of each entry, each reason once.
  std::string reasons, why;
  for (const std::unique_ptr<Candidate> &c : candidates->list) {
    if (!asked(c->record.options, o)) why = "it has other num_warps, num_stages, num_ctas or maxnreg";
    else fits(c->record, args, count, call, &why);
    std::string text = "\n  " + c->record.signature + ": " + why;
    if (reasons.find(text) == reasons.npos && reasons.size() < 4000) reasons += text;
  }
  if (!candidates->problem.empty()) reasons += "\n  " + candidates->problem;
  return fail(TEGULA_NOT_FOUND,
              "no entry of `" + k->name + "` in " + k->bundle->file->name() + " fits these arguments:" + reasons);
}

/// The device for memory and waiting; the last error is set if there is none.
static Device *deviceFor(TegulaBundle *b, int32_t index) {
  if (!b) return fail(TEGULA_INVALID_ARGUMENT, "null bundle"), nullptr;
  GateSection section;
  std::lock_guard lock(b->mutex);
  Status status;
  Device *d = b->device(index < 0 ? cpuIndex : index, status);
  if (!d) fail(status);
  return d;
}

TegulaStatus tegula_bundle_wait(TegulaBundle *b, int32_t device, void *stream) {
  Device *d = deviceFor(b, device);
  if (!d) return TEGULA_NOT_FOUND;
  LaunchOutcome outcome;
  Status s = d->synchronize(stream, outcome);
  if (s) return TEGULA_OK;
  return fail(s.code, s.code == TEGULA_FAULT && s.text.empty() && outcome.culprit
                          ? faultText(*outcome.culprit, outcome.fault)
                          : s.text);
}

TegulaStatus tegula_bundle_allocate(TegulaBundle *b, int32_t device, uint64_t bytes, void **out) {
  Device *d = out ? deviceFor(b, device) : nullptr;
  if (!d) return out ? TEGULA_NOT_FOUND : fail(TEGULA_INVALID_ARGUMENT, "tegula_bundle_allocate: null argument");
  Status s = d->allocate(bytes, out);
  return s ? TEGULA_OK : fail(s);
}

void tegula_bundle_free(TegulaBundle *b, int32_t device, void *memory) {
  if (Device *d = deviceFor(b, device)) d->free(memory);
}

TegulaStatus tegula_bundle_copy(TegulaBundle *b, int32_t device, int32_t direction, void *to, const void *from,
                                uint64_t bytes, void *stream) {
  Device *d = deviceFor(b, device);
  if (!d) return TEGULA_NOT_FOUND;
  Status s = direction == TEGULA_TO_DEVICE ? d->copyIn(to, from, bytes, stream) : d->copyOut(to, from, bytes, stream);
  return s ? TEGULA_OK : fail(s);
}

TegulaStatus tegula_bundle_descriptor(TegulaTensorDescriptor *storage, TegulaArg base, size_t rank,
                                      const int64_t *shape, const int64_t *strides, const int64_t *block,
                                      int32_t padding, TegulaArg *out) {
  auto refuse = [](const std::string &what) { return fail(TEGULA_INVALID_ARGUMENT, "tensor descriptor: " + what); };
  if (!storage || !shape || !strides || !block || !out) return refuse("null argument");
  if (rank < 1 || rank > 5) return refuse("1 to 5 dimensions");
  if (base.kind != TEGULA_ARG_POINTER || base.dtype == TEGULA_VOID || base.dtype > TEGULA_FP64)
    return refuse("the base is no pointer to elements");
  if (reinterpret_cast<uintptr_t>(base.u.ptr) % 16) return refuse("base must be 16-byte aligned");
  const int64_t bytes = dtypeInfo(base.dtype).bytes;
  auto tuple = [](const TegulaArg *items, size_t n) {
    TegulaArg a = {TEGULA_ARG_TUPLE, TEGULA_VOID, 0, static_cast<uint32_t>(n), {nullptr}, {0}};
    a.u.items = items;
    return a;
  };
  TegulaArg *parts = storage->parts, *extents = parts + 6, *steps = extents + rank, *blocks = steps + rank;
  for (size_t d = 0; d < rank; ++d) {
    if (shape[d] < 1 || shape[d] > INT32_MAX) return refuse("shape must be positive and below 2^31");
    if (d + 1 < rank && strides[d] * bytes % 16) return refuse("strides must be 16-byte aligned");
    extents[d] = tegula_int(shape[d]), extents[d].dtype = TEGULA_INT32;
    steps[d] = tegula_int(strides[d]), steps[d].dtype = d + 1 < rank ? TEGULA_INT64 : TEGULA_VOID;
    blocks[d] = tegula_int(block[d]);
  }
  if (strides[rank - 1] != 1) return refuse("the last stride must be 1");
  parts[0] = base;
  parts[1] = tuple(extents, rank), parts[2] = tuple(steps, rank), parts[3] = tuple(blocks, rank);
  parts[4] = tegula_text(padding & TEGULA_PADDING_NAN ? "nan" : "zero");
  parts[5] = tegula_bool((padding & TEGULA_ROUND_TF32) != 0);
  *out = tuple(parts, 6);
  return TEGULA_OK;
}
