// The devices of a context: cpu, sim, the GPUs. No CUDA call is made before a GPU is requested or already in use.
#include "api/Handles.h"
#include "api/Sized.h"
#include "runtime/cuda/Assembler.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/SimDevice.h"
#include <charconv>
#include <cstring>
#include <unistd.h>

using namespace tegula;
using namespace tegula::api;
using runtime::Status;
using runtime::cuda::CudaDevice;

/// "model name" of /proc/cpuinfo, or the architecture.
static std::string processorName() {
  std::string name = "CPU";
  if (FILE *f = fopen("/proc/cpuinfo", "re")) {
    char line[512];
    while (fgets(line, sizeof line, f)) {
      std::string_view l = line;
      if (!l.starts_with("model name")) continue;
      size_t at = l.find(": ");
      if (at != l.npos) name = std::string(l.substr(at + 2, l.find('\n') - at - 2));
      break;
    }
    fclose(f);
  }
  return name;
}

const Target &TegulaContext::hostTarget() {
  GateSection section;
  std::call_once(targetOnce_, [this] {
    hostTarget_ = forcedTarget ? *forcedTarget : hostProcessor();
    if (std::string name = hostTarget_->portable(); !name.empty()) hostTarget_.name = std::move(name);
  });
  return hostTarget_;
}

namespace {
/// The simulator has one device per generation, in the order of targetNames(); only the first is listed.
struct SimName {
  int32_t index;
  std::string name;
};
const std::vector<SimName> &simNames() {
  static const std::vector<SimName> &all = *new std::vector<SimName>([] {
    std::vector<SimName> list;
    for (std::string &name : targetNames())
      if (parseTarget(name)->isSim()) {
        const int32_t index =
            list.empty() ? DeviceIndex::sim : DeviceIndex::namedSims + static_cast<int32_t>(list.size()) - 1;
        list.push_back({index, std::move(name)});
      }
    return list;
  }());
  return all;
}
} // namespace

DeviceEntry *TegulaContext::makeDevice(int32_t index, Status &status) {
  auto e = std::make_unique<DeviceEntry>();
  e->index = index;
  if (index == DeviceIndex::cpu) {
    e->owned = runtime::makeCpuDevice(pool, cancel);
    e->target = hostTarget();
    e->description = processorName();
  }
  for (const SimName &s : simNames()) {
    if (index != s.index) continue;
    e->target = *parseTarget(s.name);
    e->owned = runtime::makeSimDevice(s.name, static_cast<uint32_t>(e->target->language().capability), pool, cancel);
    e->description = "simulated GPU";
  }
  e->device = e->owned.get();
  if (!e->device && index >= DeviceIndex::firstCuda && index < DeviceIndex::namedSims) {
    const std::vector<CudaDevice *> &gpus = CudaDevice::all(status);
    size_t ordinal = static_cast<size_t>(index - DeviceIndex::firstCuda);
    if (gpus.empty()) return nullptr;
    if (ordinal < gpus.size()) {
      e->device = gpus[ordinal];
      e->description = e->device->properties().description;
      std::string why;
      if (std::optional<Target> t = targetOfGpu("cuda", e->device->properties().capability, why)) e->target = *t;
      else
        e->unusable = Status::error(TEGULA_UNSUPPORTED,
                                    e->device->properties().name + " (" + e->description + ", compute capability " +
                                        std::to_string(e->device->properties().capability / 10) + "." +
                                        std::to_string(e->device->properties().capability % 10) +
                                        ") cannot run tegula's code: " + why);
    }
  }
  if (!e->device) {
    status = Status::error(TEGULA_NOT_FOUND, "there is no device " + std::to_string(index));
    return nullptr;
  }
  return devices_.emplace(index, std::move(e)).first->second.get();
}

DeviceEntry *TegulaContext::device(int32_t index, Status &status) {
  if (index >= 0 && index < static_cast<int32_t>(std::size(fastDevices_)))
    if (DeviceEntry *e = fastDevices_[index].load(std::memory_order_acquire)) return e;
  GateSection section;
  std::lock_guard lock(devicesMutex_);
  auto it = devices_.find(index);
  DeviceEntry *e = it == devices_.end() ? makeDevice(index, status) : it->second.get();
  if (e && index < static_cast<int32_t>(std::size(fastDevices_)))
    fastDevices_[index].store(e, std::memory_order_release);
  return e;
}

size_t TegulaContext::cudaCount() {
  GateSection section;
  Status why;
  return CudaDevice::all(why).size();
}

bool TegulaContext::findDevice(std::string_view name, int32_t &index, Status &status) {
  if (name == "cpu") return index = DeviceIndex::cpu, true;
  for (const SimName &s : simNames())
    if (name == s.name) return index = s.index, device(index, status) != nullptr;
  GateSection section;
  if (name == "cuda" || name.starts_with("cuda:")) {
    const std::vector<CudaDevice *> &gpus = CudaDevice::all(status);
    if (gpus.empty()) return false;
    uint32_t n = 0;
    std::string_view number = name.substr(std::min<size_t>(5, name.size()));
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), n);
    bool plain = name == "cuda";
    if (plain || (error == std::errc() && end == number.data() + number.size() && n < gpus.size()))
      return index = DeviceIndex::firstCuda + static_cast<int32_t>(n), true;
  }
  std::string has = "cpu, sim";
  for (size_t i = 0, n = cudaCount(); i < n; ++i) has += ", cuda:" + std::to_string(i);
  status = Status::error(TEGULA_NOT_FOUND, "there is no device `" + std::string(name) + "`; this machine has: " + has);
  return false;
}

int32_t TegulaContext::deviceOf(const TegulaArg *args, size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    if (args[i].kind == TEGULA_ARG_TUPLE && args[i].u.items) {
      int32_t d = deviceOf(args[i].u.items, args[i].count);
      if (d >= 0) return d;
    }
    if (args[i].kind != TEGULA_ARG_POINTER || !args[i].u.ptr) continue;
    int owner = CudaDevice::ownerOf(reinterpret_cast<uint64_t>(args[i].u.ptr));
    return owner >= 0 ? DeviceIndex::firstCuda + owner : DeviceIndex::cpu;
  }
  return -1;
}

int32_t TegulaContext::currentDevice() {
  int ordinal = CudaDevice::currentOrdinal();
  return ordinal < 0 ? DeviceIndex::cpu : DeviceIndex::firstCuda + ordinal;
}

bool TegulaContext::noticeCuda() {
  if (cudaInUse.load(std::memory_order_relaxed)) return false;
  // a child forked during another thread's dlopen() would find the loader's tables half unmapped
  GateSection section;
  if (!CudaDevice::inUse()) return false;
  Status why;
  CudaDevice::all(why);
  cudaInUse = true;
  return true;
}

// ---- the C interface

size_t tegula_device_count(TegulaContext *c) { return c ? DeviceIndex::firstCuda + c->cudaCount() : 0; }

TegulaStatus tegula_device_info(TegulaContext *c, size_t index, TegulaDeviceInfo *out) {
  if (!c || !isSized(out)) return fail(TEGULA_INVALID_ARGUMENT, "tegula_device_info: null argument or `size` not set");
  Status status;
  DeviceEntry *e = c->device(static_cast<int32_t>(std::min<size_t>(index, 1 << 20)), status);
  if (!e) return fail(status);
  const runtime::DeviceProperties &p = e->device->properties();
  TegulaDeviceInfo i{};
  i.size = sizeof i;
  i.name = p.name.c_str();
  i.description = e->description.c_str();
  i.target = e->target.name.c_str();
  i.features = "";
  i.cores = p.cores;
  i.memory_bytes = p.memoryBytes;
  i.l2_bytes = p.l2Bytes;
  i.kind = static_cast<int32_t>(p.kind);
  i.capability = p.capability;
  i.max_shared_bytes = p.maxSharedBytes;
  if (const targets::Processor *t = index == DeviceIndex::cpu ? e->target->processor() : nullptr) {
    i.features = t->features.c_str();
    i.vector_bits = t->vectorBits;
    i.l1_bytes = t->l1Bytes;
    i.l2_bytes = t->l2Bytes;
  }
  giveSized(i, out);
  return TEGULA_OK;
}

TegulaStatus tegula_device_find(TegulaContext *c, const char *name, int32_t *index) {
  if (!c)
    return fail(TEGULA_INVALID_ARGUMENT,
                "tegula_device_find: null context (tegula_context_create and tegula::Context::create make one)");
  if (!name || !index) return fail(TEGULA_INVALID_ARGUMENT, "tegula_device_find: null argument");
  Status status;
  return c->findDevice(name, *index, status) ? TEGULA_OK : fail(status);
}

int32_t tegula_device_default(TegulaContext *c) {
  return c ? c->defaultDevice() : DeviceIndex::cpu;
}

int32_t TegulaContext::defaultDevice() {
  if (int32_t d = environmentDevice(); d >= 0) return d;
  const int32_t found = cudaCount() ? DeviceIndex::firstCuda : DeviceIndex::cpu;
  if (!environmentStatus_ && !saidEnvironmentStatus_.exchange(true))
    warn("TEGULA_DEVICE: " + environmentStatus_.text + "; " + (found == DeviceIndex::cpu ? "cpu" : "the first GPU") +
         " takes its place");
  return found;
}

int32_t TegulaContext::environmentDevice() {
  if (environmentRead_.load(std::memory_order_acquire)) return environmentDevice_;
  GateSection section;
  std::call_once(environmentOnce_, [this] {
    Status status;
    if (!deviceName.empty() && !findDevice(deviceName, environmentDevice_, status)) environmentStatus_ = status;
    environmentRead_.store(true, std::memory_order_release);
  });
  return environmentDevice_;
}

void tegula_add_package_folder(const char *folder) {
  if (folder && *folder) runtime::cuda::addAssemblerFolder(folder);
}

const char *tegula_assembler_name(void) {
  GateSection section;
  static const std::string &name = *new std::string(assemblerName());
  return name.c_str();
}
