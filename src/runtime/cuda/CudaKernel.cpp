// Loading: module, function, limits, launch plan. Launching: see launch().
#include "runtime/cuda/CudaKernel.h"
#include "abi/Multiprocessor.h"
#include "runtime/cuda/Assembler.h"
#include <algorithm>
#include <cstring>

namespace tegula::runtime::cuda {

/// Loading a module may allocate and wait, which a capture on this or another thread would forbid, although it does not
/// affect the captured streams.
namespace {
class RelaxedCapture {
public:
  explicit RelaxedCapture(const Driver &d) : driver_(d) { driver_.exchangeCaptureMode(&mode_); }
  ~RelaxedCapture() { driver_.exchangeCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture &) = delete;

private:
  const Driver &driver_;
  int mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};
} // namespace

static std::string capabilityText(const DeviceProperties &p) {
  return p.name + " (" + p.description + ", compute capability " + std::to_string(p.capability / 10) + "." +
         std::to_string(p.capability % 10) + ")";
}

std::unique_ptr<CudaKernel> CudaKernel::load(CudaDevice &device, const KernelInfo &info, std::span<const char> code,
                                             Status &status) {
  status = Status::ok();
  if (device.properties().capability < 80) {
    status = Status::error(TEGULA_UNSUPPORTED,
                           capabilityText(device.properties()) + " is too old: tegula needs 8.0 (Ampere) or later");
    return nullptr;
  }
  std::unique_ptr<CudaKernel> k(new CudaKernel(device, info));
  k->context_ = device.context(status);
  if (!k->context_) return nullptr;
  ContextScope scope(device.driver(), k->context_);
  RelaxedCapture relaxed(device.driver());
  status = k->loadModule(code);
  if (status) status = k->prepareShared();
  if (status) status = k->readUse();
  if (status) status = k->prepareLaunch();
  return status ? std::move(k) : nullptr;
}

CudaKernel::~CudaKernel() {
  if (!context_) return;
  device_.forget(info_.get());
  // If a graph may still launch the kernel, it keeps its record: otherwise the next fault would be attributed to the
  // record's next kernel.
  if (isInGraph_) return;
  if (module_) {
    ContextScope scope(device_.driver(), context_);
    RelaxedCapture relaxed(device_.driver());
    device_.driver().moduleUnload(module_);
  }
  // Last: until the module is unloaded, a running launch of it may claim the record.
  if (record_) device_.giveRecord(record_);
}

Status CudaKernel::loadModule(std::span<const char> code) {
  const Driver &d = device_.driver();
  std::string where = "loading `" + info_->name + "` on " + device_.properties().name;
  if (code.empty()) return Status::error(TEGULA_INTERNAL_ERROR, where + " failed: there is no code");
  bool isPtx = code[0] != '\x7f';
  if (isPtx && code.back() != '\0') return Status::error(TEGULA_INTERNAL_ERROR, where + " failed: the PTX has no end");
  codeBytes_ = code.size();
  char errors[8192] = "", log[8192] = "";
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
                   CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE};
  auto number = [](size_t n) { return reinterpret_cast<void *>(n); };
  void *values[] = {errors, number(sizeof errors), log, number(sizeof log), number(1)};
  CUresult r = d.moduleLoad(&module_, code.data(), 5, options, values);
  if (r != CUDA_SUCCESS) {
    module_ = nullptr;
    LaunchOutcome outcome;
    if (isFault(r)) return device_.blame(r, where, outcome);
    Status s = d.error(r, where);
    errors[sizeof errors - 1] = '\0';
    if (*errors)
      s.text += "\n" + explainAssemblerLog(errors, isPtx ? std::string_view(code.data()) : std::string_view());
    return s;
  }
  r = d.moduleGetFunction(&function_, module_, info_->symbol.c_str());
  if (r != CUDA_SUCCESS) return d.error(r, where + ": finding its entry point `" + info_->symbol + "`");
  return Status::ok();
}

/// The settings for exactly that many blocks (one or more) of `need` bytes of shared memory on a multiprocessor: the
/// smallest shared-memory size that holds them, so that the rest is L1 cache, divided completely among the blocks.
namespace {
struct SharedCut {
  uint32_t percent = 0, bytes = 0; // of the largest shared memory; of a block. 0: there is no room for that many
};
} // namespace

static SharedCut cutFor(uint32_t blocks, uint64_t need) {
  namespace sm = abi::multiprocessor;
  // Sizes that a driver uses (580, H200: two blocks in 8 KiB, three and four in 32, six in 64; not three in 8, nor six
  // in 32).
  const unsigned least = blocks <= 2 ? 4 << 10 : 8 << 10;
  for (unsigned cut : sm::sharedCuts)
    if (const unsigned each = cut / blocks / sm::sharedStep * sm::sharedStep;
        each >= least && each - sm::sharedReserved >= need)
      // a driver takes the smallest size that is large enough
      return {cut * 100 / sm::sharedBytes, each - sm::sharedReserved};
  return {};
}

/// Allows the shared memory that the kernel needs beyond the default 48 KiB.
Status CudaKernel::prepareShared() {
  const Driver &d = device_.driver();
  const DeviceProperties &p = device_.properties();
  int fixed = 0;
  if (CUresult r = d.functionGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function_); r != CUDA_SUCCESS)
    return d.error(r, "asking for the shared memory of `" + info_->name + "`");
  uint64_t need = uint64_t(fixed) + info_->gpu.sharedBytes;
  if (need > p.maxSharedBytes)
    return tooMuchShared(*info_, need, p.maxSharedBytes, capabilityText(p));
  use_.sharedBytes = static_cast<uint32_t>(need);
  sharedBytes_ = info_->gpu.sharedBytes;
  CUresult r = CUDA_SUCCESS;
  int blocks = 0;
  // all blocks of a cooperative grid must be resident
  if (info_->gpu.mostBlocks && p.capability >= 90 && !info_->gpu.cooperative)
    r = d.occupancyBlocks(&blocks, function_, static_cast<int>(info_->gpu.threads), sharedBytes_);
  if (r == CUDA_SUCCESS && blocks > info_->gpu.mostBlocks) // registers may limit the blocks anyway
    if (const SharedCut cut = cutFor(info_->gpu.mostBlocks, need); cut.bytes && cut.bytes <= p.maxSharedBytes) {
      sharedBytes_ = cut.bytes - static_cast<uint32_t>(fixed);
      r = d.functionSetAttribute(function_, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                 static_cast<int>(cut.percent));
    }
  if (r == CUDA_SUCCESS)
    r = d.functionSetAttribute(function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               static_cast<int>(sharedBytes_));
  return r == CUDA_SUCCESS ? Status::ok() : d.error(r, "reserving shared memory for `" + info_->name + "`");
}

Status CudaKernel::readUse() {
  const Driver &d = device_.driver();
  CUresult r = CUDA_SUCCESS;
  auto attribute = [&](int which) {
    int v = 0;
    if (r == CUDA_SUCCESS) r = d.functionGetAttribute(&v, which, function_);
    return static_cast<uint32_t>(v);
  };
  use_.registers = attribute(CU_FUNC_ATTRIBUTE_NUM_REGS);
  use_.localBytes = attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  uint32_t maxThreads = attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), threads = info_->gpu.threads;
  // Without an assembler's log all local memory counts as spilled.
  use_.spillBytes = info_->gpu.use.registers ? info_->gpu.use.spillBytes : use_.localBytes;
  if (r == CUDA_SUCCESS && threads > maxThreads)
    return Status::exhausted("threads", threads, maxThreads,
                             "`" + info_->name + "` takes " + std::to_string(use_.registers) +
                                 " registers in each of " + std::to_string(threads) + " threads; " +
                                 device_.properties().name + " runs at most " + std::to_string(maxThreads) +
                                 " such threads per block. A smaller num_warps, smaller blocks or maxnreg help");
  int blocks = 0;
  if (r == CUDA_SUCCESS) r = d.occupancyBlocks(&blocks, function_, static_cast<int>(threads), sharedBytes_);
  use_.blocksPerCore = static_cast<uint32_t>(
      info_->gpu.mostBlocks && !info_->gpu.cooperative ? std::min<int>(blocks, info_->gpu.mostBlocks) : blocks);
  return r == CUDA_SUCCESS ? Status::ok() : d.error(r, "asking for the resources of `" + info_->name + "`");
}

std::string CudaKernel::encodeMap(const void *driver, const sim::TensorMapSpec &s, void *map) {
  const auto &d = *static_cast<const Driver *>(driver);
  if (!d.tensorMapEncodeTiled) return "this driver cannot make tensor maps";
  CUresult r = d.tensorMapEncodeTiled(map, s.dataType, s.rank, reinterpret_cast<void *>(s.address), s.dims, s.strides,
                                      s.box, s.elementStrides, s.interleave, s.swizzle, s.l2Promotion, s.oobFill);
  if (r == CUDA_SUCCESS) return {};
  // The simulator's encoder has the driver's rules and can name the violated one.
  alignas(64) char unused[tensorMapBytes];
  std::string why = sim::encodeTensorMap(s, unused);
  return why.empty() ? d.errorText(r) : why;
}

Status CudaKernel::prepareLaunch() {
  const Driver &d = device_.driver();
  const GpuInfo &g = info_->gpu;
  config_ = {1, 1, 1, g.threads, 1, 1, sharedBytes_, nullptr, attributes_, 0};
  auto attribute = [&](int id) -> CUlaunchAttribute & {
    CUlaunchAttribute &a = attributes_[config_.attributeCount++];
    a.id = id;
    return a;
  };
  if (g.clusterCtas > 1) attribute(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).value.cluster = {g.clusterCtas, 1, 1};
  if (g.cooperative) attribute(CU_LAUNCH_ATTRIBUTE_COOPERATIVE).value.flag = 1;
  if (g.programmaticLaunch && device_.properties().capability >= 90)
    attribute(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION).value.flag = 1;
  if (g.clusterCtas > 1) {
    std::string cluster = "`" + info_->name + "` needs clusters of " + std::to_string(g.clusterCtas) + " blocks";
    if (device_.properties().capability < 90)
      return Status::error(TEGULA_UNSUPPORTED,
                           cluster + ", which " + capabilityText(device_.properties()) + " does not have");
    if (g.clusterCtas > 8) d.functionSetAttribute(function_, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    CUlaunchConfig one = config_;
    one.gridX = g.clusterCtas;
    int fit = 0;
    CUresult r = d.occupancyClusters(&fit, function_, &one);
    if (r != CUDA_SUCCESS || fit == 0)
      return Status::error(TEGULA_OUT_OF_RESOURCES, cluster + " with " + std::to_string(use_.sharedBytes) +
                                                        " bytes of shared memory each; " + device_.properties().name +
                                                        " has no room for one. A smaller num_ctas helps");
    use_.clusters = static_cast<uint32_t>(fit);
  }
  for (const ArgInfo &a : info_->args)
    if (a.isPtr) pointers_.push_back(a.offset);
  recordOffset_ = recordOffset(*info_);
  blockBytes_ = recordOffset_ + sizeof(uint64_t);
  record_ = device_.takeRecord(info_, recordAddress_);
  return record_ ? Status::ok()
                 : Status::error(TEGULA_OUT_OF_RESOURCES,
                                 "no pinned memory for the launch record of `" + info_->name + "`");
}

Status CudaKernel::launch(const LaunchCall &call, LaunchOutcome &outcome) const {
  std::memcpy(call.args + recordOffset_, &recordAddress_, sizeof recordAddress_);
  ContextScope scope(device_.driver(), context_);
  for (uint32_t offset : pointers_) {
    uint64_t address;
    std::memcpy(&address, call.args + offset, sizeof address);
    if (!device_.accessible(address)) [[unlikely]]
      if (Status s = device_.checkPointer(address); !s) return refusePointer(call.args);
  }
  if (!info_->tensorMaps.empty())
    if (Status s = maps_.append(*info_, &device_.driver(), call.args, call.grid); !s) return s;
  if (Status s = checkGpuGrid(*info_, call); !s) return s;
  CUlaunchConfig config = config_;
  config.gridX = static_cast<unsigned>(call.grid[0]) * info_->gpu.clusterCtas;
  config.gridY = static_cast<unsigned>(call.grid[1]);
  config.gridZ = static_cast<unsigned>(call.grid[2]);
  config.stream = static_cast<CUstream>(call.stream);
  size_t bytes = blockBytes_;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, call.args, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  CUresult r = info_->tensorMaps.empty() ? device_.driver().launch(&config, function_, nullptr, extra)
                                         : launchWithMaps(config, call.args);
  if (r != CUDA_SUCCESS) [[unlikely]]
    return launchError(r, call, outcome);
  // The default stream, 0 and 1, cannot be captured.
  if (reinterpret_cast<uintptr_t>(call.stream) > 1 && !isInGraph_.load(std::memory_order_relaxed))
    lookForCapture(config.stream);
  device_.launched(info_.get());
  return Status::ok();
}

/// A graph may be launched at any time by its owner, and holds no reference to the kernel.
void CudaKernel::lookForCapture(CUstream stream) const {
  int status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (device_.driver().streamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE &&
      !device_.records(stream))
    isInGraph_.store(true, std::memory_order_relaxed);
}

/// The place of a parameter aligned to 64 depends on the start of the constant bank, which only the driver knows: the
/// driver gets the parameters one by one.
CUresult CudaKernel::launchWithMaps(const CUlaunchConfig &config, char *args) const {
  std::vector<void *> parameters;
  for (const ArgInfo &a : info_->args) parameters.push_back(args + a.offset);
  for (size_t i = 0; i < info_->tensorMaps.size(); ++i)
    parameters.push_back(args + mapsOffset(*info_) + i * tensorMapBytes);
  parameters.push_back(args + recordOffset_);
  return device_.driver().launch(&config, function_, parameters.data(), nullptr);
}

Status CudaKernel::refusePointer(const char *args) const {
  for (const ArgInfo &a : info_->args) {
    uint64_t address = 0;
    if (a.isPtr) std::memcpy(&address, args + a.offset, sizeof address);
    if (!a.isPtr || device_.accessible(address)) continue;
    Status s = device_.checkPointer(address);
    if (!s) return Status::error(s.code, "`" + info_->name + "`: argument `" + a.name + "` " + s.text);
  }
  return Status::error(TEGULA_INVALID_ARGUMENT,
                       "`" + info_->name + "`: a pointer argument is not accessible from " + device_.properties().name);
}

Status CudaKernel::launchError(CUresult r, const LaunchCall &call, LaunchOutcome &outcome) const {
  std::string what = "launching `" + info_->name + "` on " + device_.properties().name;
  Status s = device_.blame(r, what, outcome);
  if (r == CUDA_ERROR_INVALID_HANDLE || r == CUDA_ERROR_INVALID_CONTEXT)
    s.text += call.stream ? "; is the stream of another device or context, or destroyed?" : "";
  if (r == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE)
    s.text += "; a cooperative grid must fit on the GPU at once: at most " +
              std::to_string(use_.blocksPerCore * device_.properties().cores) + " blocks";
  return s;
}

} // namespace tegula::runtime::cuda
