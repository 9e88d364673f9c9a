// A stand-in for libcuda.so.1: device memory is host memory, launches are recorded, results are switches. It runs no
// kernels; what it checks is how the runtime talks to a driver.
#include "FakeCuda.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <sstream>
#include <string_view>

#pragma GCC diagnostic ignored "-Wreturn-type-c-linkage"
#define EXPORT extern "C" __attribute__((visibility("default")))

using namespace fakecuda;

/// $FAKECUDA, for tests that are not in C++: "deviceCount=2 capability=75", switches by name.
static void readEnvironment(FakeCuda &f) {
  const std::pair<const char *, int *> switches[] = {{"version", &f.version},
                                                     {"deviceCount", &f.deviceCount},
                                                     {"capability", &f.capability},
                                                     {"maxShared", &f.maxShared},
                                                     {"initResult", &f.initResult},
                                                     {"loadResult", &f.loadResult},
                                                     {"launchResult", &f.launchResult},
                                                     {"waitResult", &f.waitResult},
                                                     {"allocateResult", &f.allocateResult},
                                                     {"captureResult", &f.captureResult},
                                                     {"graphResult", &f.graphResult},
                                                     {"registers", &f.registers},
                                                     {"localBytes", &f.localBytes},
                                                     {"maxThreads", &f.maxThreads},
                                                     {"clustersThatFit", &f.clustersThatFit},
                                                     {"usedMiB", &f.usedMiB}};
  const char *text = std::getenv("FAKECUDA");
  std::istringstream words(text ? text : "");
  for (std::string word; words >> word;)
    for (auto [name, value] : switches)
      if (word.starts_with(std::string(name) + "=")) *value = std::atoi(word.c_str() + std::strlen(name) + 1);
}

EXPORT FakeCuda *fakeCuda() {
  static FakeCuda &state = *[] {
    auto *f = new FakeCuda;
    readEnvironment(*f);
    return f;
  }();
  return &state;
}
static FakeCuda &s() { return *fakeCuda(); }

EXPORT void fakeCudaReset() {
  FakeCuda &f = s();
  std::lock_guard lock(f.mutex);
  f.version = 12080, f.deviceCount = 1, f.capability = 90, f.maxShared = 232448;
  f.initResult = f.loadResult = f.launchResult = f.waitResult = f.allocateResult = f.captureResult = f.graphResult = 0;
  f.loadLog.clear(), f.unloading = nullptr;
  f.registers = 32, f.localBytes = 0, f.fixedShared = 0, f.maxThreads = 1024, f.clustersThatFit = 1,
  f.blocksThatFit = 2, f.usedMiB = 0;
  f.launches.clear(), f.modules.clear(), f.functionAttributes.clear();
  f.pointerQueries = f.waits = f.allocations = f.graphLaunches = f.captured = 0;
  f.ns = 0;
}

static thread_local std::vector<CUcontext> contexts;
static CUcontext contextOf(int device) { return reinterpret_cast<CUcontext>(static_cast<uint64_t>(0x1000 + device)); }

EXPORT CUresult cuInit(unsigned) { return s().initResult; }
EXPORT CUresult cuDriverGetVersion(int *v) { return *v = s().version, 0; }
EXPORT CUresult cuGetErrorName(CUresult r, const char **name) {
  static const std::map<int, const char *> names = {{1, "CUDA_ERROR_INVALID_VALUE"},
                                                    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                    {218, "CUDA_ERROR_INVALID_PTX"},
                                                    {400, "CUDA_ERROR_INVALID_HANDLE"},
                                                    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
                                                    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                    {719, "CUDA_ERROR_LAUNCH_FAILED"},
                                                    {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"}};
  auto it = names.find(r);
  return it == names.end() ? 1 : (*name = it->second, 0);
}
EXPORT CUresult cuGetErrorString(CUresult r, const char **text) { return *text = "as the switch says", 0; }
EXPORT CUresult cuDeviceGetCount(int *n) { return *n = s().deviceCount, 0; }
EXPORT CUresult cuDeviceGet(CUdevice *d, int i) { return *d = i, 0; }
EXPORT CUresult cuDeviceGetName(char *name, int n, CUdevice) { return std::strncpy(name, "Fake H200", n), 0; }
EXPORT CUresult cuDeviceTotalMem_v2(size_t *n, CUdevice) { return *n = size_t(1) << 37, 0; }
EXPORT CUresult cuDeviceGetAttribute(int *v, int which, CUdevice) {
  switch (which) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return *v = s().capability / 10, 0;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return *v = s().capability % 10, 0;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return *v = s().maxShared, 0;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return *v = 132, 0;
  default: return *v = 0, 0;
  }
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) { return *c = contextOf(d), 0; }
EXPORT CUresult cuCtxGetCurrent(CUcontext *c) { return *c = contexts.empty() ? nullptr : contexts.back(), 0; }
EXPORT CUresult cuCtxPushCurrent_v2(CUcontext c) { return contexts.push_back(c), 0; }
EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *c) {
  if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *c = contexts.back();
  return contexts.pop_back(), 0;
}
EXPORT CUresult cuCtxGetDevice(CUdevice *d) {
  if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  return *d = static_cast<int>(reinterpret_cast<uint64_t>(contexts.back()) - 0x1000), 0;
}
EXPORT CUresult cuCtxSynchronize() { return s().waitResult; }

// ---- modules

namespace {
struct Module {
  std::string image;
  std::set<std::string> functions;
};
} // namespace
static size_t optionValue(unsigned n, int *options, void **values, int which) {
  for (unsigned i = 0; i < n; ++i)
    if (options[i] == which) return reinterpret_cast<size_t>(values[i]);
  return 0;
}
/// A module that a graph keeps is loaded for good: held here, it is no leak.
static std::set<Module *> &living() {
  static auto &set = *new std::set<Module *>;
  return set;
}
EXPORT CUresult cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned n, int *options, void **values) {
  FakeCuda &f = s();
  std::lock_guard lock(f.mutex);
  if (f.loadResult) {
    auto *log = reinterpret_cast<char *>(optionValue(n, options, values, CU_JIT_ERROR_LOG_BUFFER));
    size_t room = optionValue(n, options, values, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    if (log && room) std::strncpy(log, f.loadLog.c_str(), room - 1);
    return f.loadResult;
  }
  f.modules.push_back(static_cast<const char *>(image));
  ++f.modulesAlive;
  auto *module = new Module{f.modules.back(), {}};
  living().insert(module);
  *m = reinterpret_cast<CUmodule>(module);
  return 0;
}
EXPORT CUresult cuModuleUnload(CUmodule m) {
  if (s().unloading) s().unloading();
  std::lock_guard lock(s().mutex);
  --s().modulesAlive;
  living().erase(reinterpret_cast<Module *>(m));
  delete reinterpret_cast<Module *>(m);
  return 0;
}
EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule m, const char *name) {
  auto *module = reinterpret_cast<Module *>(m);
  bool cubin = module->image.starts_with("\x7f" "ELF"); // the name is after the first NUL
  if (!cubin && module->image.find(name) == std::string::npos) return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(const_cast<std::string *>(&*module->functions.insert(name).first));
  return 0;
}
EXPORT CUresult cuFuncGetAttribute(int *v, int which, CUfunction) {
  FakeCuda &f = s();
  switch (which) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return *v = f.maxThreads, 0;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: return *v = f.fixedShared, 0;
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: return *v = f.localBytes, 0;
  case CU_FUNC_ATTRIBUTE_NUM_REGS: return *v = f.registers, 0;
  default: return CUDA_ERROR_INVALID_VALUE;
  }
}
EXPORT CUresult cuFuncSetAttribute(CUfunction, int which, int value) {
  std::lock_guard lock(s().mutex);
  return s().functionAttributes[which] = value, 0;
}
EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction, int, size_t) {
  return *n = s().blocksThatFit, 0;
}
EXPORT CUresult cuOccupancyMaxActiveClusters(int *n, CUfunction, const CUlaunchConfig *) {
  return *n = s().clustersThatFit, 0;
}

/// Leaves address, rank and the first box extent in the map.
EXPORT CUresult cuTensorMapEncodeTiled(void *map, int, uint32_t rank, void *address, const uint64_t *,
                                       const uint64_t *strides, const uint32_t *box, const uint32_t *, int, int, int,
                                       int) {
  std::lock_guard lock(s().mutex);
  ++s().mapsEncoded;
  if (rank > 1 && (strides[0] % 16 || strides[0] >> 40)) return CUDA_ERROR_INVALID_VALUE;
  uint64_t words[] = {reinterpret_cast<uint64_t>(address), rank, box[0]};
  std::memset(map, 0x5a, 128);
  std::memcpy(map, words, sizeof words);
  return 0;
}

// ---- streams and graphs: what is queued on a stream that captures becomes a list of what launching the graph does

namespace {
using Work = std::vector<std::function<void(FakeCuda &)>>;
struct Stream {
  bool captures = false, isBroken = false;
  Work work;
};
std::set<Stream *> &streams() {
  static auto &all = *new std::set<Stream *>;
  return all;
}
Stream *capturing(CUstream stream) {
  auto *one = reinterpret_cast<Stream *>(stream);
  return streams().contains(one) && one->captures ? one : nullptr;
}
/// Does it now, or when the graph is launched. With the lock held.
CUresult queue(CUstream stream, std::function<void(FakeCuda &)> what) {
  if (Stream *one = capturing(stream)) one->work.push_back(std::move(what)), ++s().captured;
  else what(s());
  return 0;
}
} // namespace

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  std::lock_guard lock(s().mutex);
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  auto *one = new Stream;
  streams().insert(one);
  ++s().streamsAlive;
  *stream = reinterpret_cast<CUstream>(one);
  return 0;
}
EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  std::lock_guard lock(s().mutex);
  auto *one = reinterpret_cast<Stream *>(stream);
  if (!streams().erase(one)) return CUDA_ERROR_INVALID_HANDLE;
  --s().streamsAlive;
  delete one;
  return 0;
}
EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int) {
  std::lock_guard lock(s().mutex);
  auto *one = reinterpret_cast<Stream *>(stream);
  if (!streams().contains(one) || one->captures) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  *one = {true, false, {}};
  return 0;
}
EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  std::lock_guard lock(s().mutex);
  Stream *one = capturing(stream);
  *graph = nullptr;
  if (!one) return CUDA_ERROR_INVALID_VALUE;
  one->captures = false;
  if (one->isBroken || s().captureResult)
    return one->isBroken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : s().captureResult;
  *graph = reinterpret_cast<CUgraph>(new Work(std::move(one->work)));
  return 0;
}
EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *, size_t *count) {
  return *count = reinterpret_cast<Work *>(graph)->size(), 0;
}
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long) {
  std::lock_guard lock(s().mutex);
  if (s().graphResult) return s().graphResult;
  ++s().graphsAlive;
  *exec = reinterpret_cast<CUgraphExec>(new Work(*reinterpret_cast<Work *>(graph)));
  return 0;
}
EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream) {
  std::lock_guard lock(s().mutex);
  ++s().graphLaunches;
  s().ns += 2000; // what starting it takes
  for (auto &one : *reinterpret_cast<Work *>(exec)) one(s());
  return 0;
}
EXPORT CUresult cuGraphDestroy(CUgraph graph) { return delete reinterpret_cast<Work *>(graph), 0; }
EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) {
  std::lock_guard lock(s().mutex);
  --s().graphsAlive;
  delete reinterpret_cast<Work *>(exec);
  return 0;
}

static CUresult launched(const CUlaunchConfig *config, Launch l) {
  return queue(config->stream, [l = std::move(l)](FakeCuda &f) {
    f.ns += 1000 + l.config.gridX;
    if (f.launches.size() < 4096) f.launches.push_back(l); // else somebody measures
  });
}
EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
  FakeCuda &f = s();
  std::lock_guard lock(f.mutex);
  if (f.launchResult) return f.launchResult;
  Launch l{*config,
           {config->attributes, config->attributes + config->attributeCount},
           {},
           *reinterpret_cast<std::string *>(function),
           contexts.empty() ? nullptr : contexts.back()};
  if (parameters && !extra && !f.parameterSizes.empty()) {
    for (size_t size : f.parameterSizes) {
      auto *from = static_cast<unsigned char *>(*parameters++);
      l.arguments.insert(l.arguments.end(), from, from + size);
    }
    return launched(config, std::move(l));
  }
  if (parameters && !extra) return launched(config, std::move(l)); // of unknown sizes
  if (parameters || !extra || extra[0] != CU_LAUNCH_PARAM_BUFFER_POINTER || extra[2] != CU_LAUNCH_PARAM_BUFFER_SIZE ||
      extra[4] != CU_LAUNCH_PARAM_END)
    return CUDA_ERROR_INVALID_VALUE;
  auto *bytes = static_cast<unsigned char *>(extra[1]);
  l.arguments.assign(bytes, bytes + *static_cast<size_t *>(extra[3]));
  return launched(config, std::move(l));
}

// ---- memory

static CUresult allocate(uint64_t *p, size_t n, unsigned type) {
  FakeCuda &f = s();
  std::lock_guard lock(f.mutex);
  ++f.allocations;
  if (f.allocateResult) return f.allocateResult;
  void *m = std::aligned_alloc(256, (n + 255) / 256 * 256);
  std::memset(m, 0xcc, n);
  *p = reinterpret_cast<uint64_t>(m);
  f.ranges[*p] = {n, type,
                  contexts.empty() ? 0 : static_cast<int>(reinterpret_cast<uint64_t>(contexts.back()) - 0x1000)};
  return 0;
}
static CUresult release(uint64_t p) {
  std::lock_guard lock(s().mutex);
  if (!s().ranges.erase(p)) return CUDA_ERROR_INVALID_VALUE;
  std::free(reinterpret_cast<void *>(p));
  return 0;
}
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n) { return allocate(p, n, CU_MEMORYTYPE_DEVICE); }
EXPORT CUresult cuMemFree_v2(CUdeviceptr p) { return release(p); }
EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  *total = size_t(1) << 37;
  return *free = *total - (size_t(s().usedMiB) << 20), 0;
}
EXPORT CUresult cuMemHostAlloc(void **p, size_t n, unsigned) {
  uint64_t a = 0;
  CUresult r = allocate(&a, n, CU_MEMORYTYPE_HOST);
  *p = reinterpret_cast<void *>(a);
  return r;
}
EXPORT CUresult cuMemFreeHost(void *p) { return release(reinterpret_cast<uint64_t>(p)); }
EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *d, void *h, unsigned) {
  return *d = reinterpret_cast<uint64_t>(h), 0;
}
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream) {
  return std::memcpy(reinterpret_cast<void *>(to), from, n), 0;
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream) {
  return std::memcpy(to, reinterpret_cast<void *>(from), n), 0;
}

EXPORT CUresult cuPointerGetAttributes(unsigned n, int *which, void **values, CUdeviceptr p) {
  FakeCuda &f = s();
  std::lock_guard lock(f.mutex);
  ++f.pointerQueries;
  auto it = f.ranges.upper_bound(p);
  bool known = it != f.ranges.begin() && p - std::prev(it)->first < std::prev(it)->second.bytes;
  if (known) --it;
  int current = contexts.empty() ? 0 : static_cast<int>(reinterpret_cast<uint64_t>(contexts.back()) - 0x1000);
  for (unsigned i = 0; i < n; ++i) switch (which[i]) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned *>(values[i]) = known ? it->second.memoryType : 0;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int *>(values[i]) = known ? it->second.device : -2; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<uint64_t *>(values[i]) = known && it->second.device == current ? p : 0;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *static_cast<uint64_t *>(values[i]) = known ? it->first : 0; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *static_cast<size_t *>(values[i]) = known ? it->second.bytes : 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
  return 0;
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream) {
  std::lock_guard lock(s().mutex);
  return queue(stream, [=](FakeCuda &f) {
    f.ns += 100, std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), n);
  });
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, CUstream stream) {
  std::lock_guard lock(s().mutex);
  return queue(stream, [=](FakeCuda &f) { f.ns += 100, std::memset(reinterpret_cast<void *>(to), v, n); });
}
EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  std::lock_guard lock(s().mutex);
  if (Stream *one = capturing(stream)) return one->isBroken = true, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return ++s().waits, s().waitResult;
}
EXPORT CUresult cuStreamIsCapturing(CUstream stream, int *v) {
  std::lock_guard lock(s().mutex);
  return *v = capturing(stream) != nullptr, 0;
}
EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
  static thread_local int current = 0;
  std::swap(current, *mode);
  return 0;
}
EXPORT CUresult cuEventCreate(CUevent *e, unsigned) { return *e = reinterpret_cast<CUevent>(new double(0)), 0; }
EXPORT CUresult cuEventDestroy_v2(CUevent e) { return delete reinterpret_cast<double *>(e), 0; }
EXPORT CUresult cuEventRecord(CUevent e, CUstream) {
  std::lock_guard lock(s().mutex);
  return *reinterpret_cast<double *>(e) = s().ns, 0;
}
EXPORT CUresult cuEventSynchronize(CUevent) { return 0; }
EXPORT CUresult cuEventQuery(CUevent) { return 0; }
EXPORT CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) { return 0; }
EXPORT CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
  return *ms = static_cast<float>((*reinterpret_cast<double *>(b) - *reinterpret_cast<double *>(a)) / 1e6), 0;
}
/// For tests that are not in C++.
EXPORT int fakeCudaCounter(const char *name) {
  std::lock_guard lock(s().mutex);
  const std::pair<std::string_view, int> counters[] = {{"streamsAlive", s().streamsAlive},
                                                       {"graphsAlive", s().graphsAlive},
                                                       {"graphLaunches", s().graphLaunches},
                                                       {"captured", s().captured},
                                                       {"launches", static_cast<int>(s().launches.size())}};
  for (auto &[known, value] : counters)
    if (known == name) return value;
  return -1;
}
EXPORT uint64_t fakeCudaLastStream() {
  std::lock_guard lock(s().mutex);
  return s().launches.empty() ? 0 : reinterpret_cast<uint64_t>(s().launches.back().config.stream);
}
