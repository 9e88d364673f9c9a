// See GpuLibrary.h.
#include "GpuLibrary.h"
#include "runtime/cuda/Driver.h"
#include <cstring>
#include <algorithm>
#include <gtest/gtest.h>

namespace tegula::nvidia {

using namespace runtime::cuda;

namespace {

struct Gpu {
  const Driver *driver = nullptr;
  CUcontext context = nullptr;
  int major = 0, minor = 0;
};

const Gpu &gpu() {
  static const Gpu g = [] {
    Gpu g;
    runtime::Status status;
    const Driver *driver = Driver::get(status);
    CUdevice device;
    int count = 0;
    if (driver && driver->deviceGetCount(&count) == CUDA_SUCCESS && count > 0 &&
        driver->deviceGet(&device, 0) == CUDA_SUCCESS &&
        driver->primaryContextRetain(&g.context, device) == CUDA_SUCCESS) {
      driver->deviceGetAttribute(&g.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
      driver->deviceGetAttribute(&g.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
      g.driver = driver;
    } else {
      printf("not run on a GPU here: %s\n", driver ? "the driver has none" : status.text.c_str());
    }
    return g;
  }();
  return g;
}

} // namespace

std::optional<NvTarget> gpuOfThisMachine() {
  if (!gpu().driver)
    return std::nullopt;
  unsigned sm = static_cast<unsigned>(10 * gpu().major + gpu().minor);
  return NvTarget{sm, sm == 90, false};
}

struct GpuLibrary::State {
  CUmodule module = nullptr;
};

GpuLibrary::GpuLibrary() : state_(std::make_unique<State>()) {}

GpuLibrary::~GpuLibrary() {
  if (state_->module)
    gpu().driver->moduleUnload(state_->module);
}

bool GpuLibrary::load(const std::string &ptx) {
  const Driver &d = *gpu().driver;
  d.contextPush(gpu().context);
  std::string log(8192, '\0');
  int options[] = {5, 6}; // CU_JIT_ERROR_LOG_BUFFER, its size
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
  CUresult r = d.moduleLoad(&state_->module, ptx.c_str(), 2, options, values);
  EXPECT_EQ(r, CUDA_SUCCESS) << log.c_str();
  CUcontext old;
  d.contextPop(&old);
  return r == CUDA_SUCCESS;
}

void GpuLibrary::run(const std::string &name, const std::vector<std::pair<const void *, size_t>> &in, void *out,
                     size_t outBytes, int64_t n) const {
  const Driver &d = *gpu().driver;
  d.contextPush(gpu().context);
  auto check = [&](CUresult r, const char *what) { EXPECT_EQ(r, CUDA_SUCCESS) << name << ": " << what; };
  std::vector<CUdeviceptr> memory;
  auto copy = [&](const void *data, size_t bytes) {
    CUdeviceptr p = 0;
    check(d.memoryAllocate(&p, bytes ? bytes : 1), "allocation");
    check(d.copyIn(p, data, bytes, nullptr), "copy");
    memory.push_back(p);
    return p;
  };
  std::vector<CUdeviceptr> inputs;
  for (auto [data, bytes] : in)
    inputs.push_back(copy(data, bytes));
  CUdeviceptr list = copy(inputs.data(), inputs.size() * sizeof(CUdeviceptr)), result = copy(out, outBytes);
  CUfunction f = nullptr;
  check(d.moduleGetFunction(&f, state_->module, name.c_str()), "no such function");
  void *args[] = {&list, &result, &n};
  CUlaunchConfig config{};
  config.gridX = blocks;
  config.blockX = threads;
  config.gridY = config.gridZ = config.blockY = config.blockZ = 1;
  check(d.launch(&config, f, args, nullptr), "launch");
  check(d.copyOut(out, result, outBytes, nullptr), "copy back");
  check(d.streamSynchronize(nullptr), "run");
  for (CUdeviceptr p : memory)
    d.memoryFree(p);
  CUcontext old;
  d.contextPop(&old);
}

void GpuLibrary::runOnce(const std::string &name, std::vector<uint32_t> &data, void *args, size_t argBytes,
                         unsigned threads, unsigned clusterCtas, unsigned sharedBytes) const {
  const Driver &d = *gpu().driver;
  d.contextPush(gpu().context);
  auto check = [&](CUresult r, const char *what) { EXPECT_EQ(r, CUDA_SUCCESS) << name << ": " << what; };
  CUdeviceptr memory = 0;
  check(d.memoryAllocate(&memory, data.size() * 4), "allocation");
  check(d.copyIn(memory, data.data(), data.size() * 4, nullptr), "copy");
  memcpy(args, &memory, sizeof memory);
  CUfunction f = nullptr;
  check(d.moduleGetFunction(&f, state_->module, name.c_str()), "no such function");
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.cluster.x = clusterCtas;
  cluster.value.cluster.y = cluster.value.cluster.z = 1;
  CUlaunchConfig config{};
  config.gridX = clusterCtas;
  config.blockX = threads;
  config.gridY = config.gridZ = config.blockY = config.blockZ = 1;
  config.sharedBytes = sharedBytes;
  config.attributes = &cluster;
  config.attributeCount = clusterCtas > 1;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, args, CU_LAUNCH_PARAM_BUFFER_SIZE, &argBytes, CU_LAUNCH_PARAM_END};
  check(d.launch(&config, f, nullptr, extra), "launch");
  check(d.copyOut(data.data(), memory, data.size() * 4, nullptr), "copy back");
  check(d.streamSynchronize(nullptr), "run");
  d.memoryFree(memory);
  CUcontext old;
  d.contextPop(&old);
}

void GpuLibrary::runKernel(const GpuKernelMeta &meta, const std::vector<std::pair<void *, size_t>> &buffers) const {
  const Driver &d = *gpu().driver;
  d.contextPush(gpu().context);
  auto check = [&](CUresult r, const char *what) { EXPECT_EQ(r, CUDA_SUCCESS) << meta.symbol << ": " << what; };
  std::vector<CUdeviceptr> memory(buffers.size() + 1); // and no launch record
  std::vector<void *> args;
  for (size_t i = 0; i < buffers.size(); ++i) {
    check(d.memoryAllocate(&memory[i], std::max<size_t>(buffers[i].second, 1)), "allocation");
    check(d.copyIn(memory[i], buffers[i].first, buffers[i].second, nullptr), "copy");
  }
  for (CUdeviceptr &p : memory)
    args.push_back(&p);
  CUfunction f = nullptr;
  check(d.moduleGetFunction(&f, state_->module, meta.symbol.c_str()), "no such function");
  check(d.functionSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(meta.sharedBytes)),
        "shared memory");
  CUlaunchConfig config{};
  config.gridX = config.gridY = config.gridZ = config.blockY = config.blockZ = 1;
  config.blockX = meta.threads;
  config.sharedBytes = meta.sharedBytes;
  check(d.launch(&config, f, args.data(), nullptr), "launch");
  for (size_t i = 0; i < buffers.size(); ++i)
    check(d.copyOut(buffers[i].first, memory[i], buffers[i].second, nullptr), "copy back");
  check(d.streamSynchronize(nullptr), "run");
  for (size_t i = 0; i < buffers.size(); ++i)
    d.memoryFree(memory[i]);
  CUcontext old;
  d.contextPop(&old);
}

} // namespace tegula::nvidia
