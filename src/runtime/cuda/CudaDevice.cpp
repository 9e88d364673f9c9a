// Properties, context, memory and errors of one GPU.
#include "runtime/cuda/CudaDevice.h"
#include "runtime/cuda/CudaKernel.h"
#include <algorithm>
#include <cstring>
#include <dlfcn.h>

namespace tegula::runtime::cuda {

void RangeCache::add(uint64_t address, uint64_t begin, uint64_t end) {
  std::lock_guard lock(mutex_);
  Entry &e = entries_[slot(address)];
  e.end.store(0, std::memory_order_release);
  e.begin.store(begin, std::memory_order_release);
  e.end.store(end, std::memory_order_release);
}

void RangeCache::remove(uint64_t begin) {
  std::lock_guard lock(mutex_);
  for (Entry &e : entries_)
    if (e.begin.load(std::memory_order_relaxed) == begin) e.end.store(0, std::memory_order_release);
}

const std::vector<CudaDevice *> &CudaDevice::all(Status &status) {
  struct Devices {
    std::vector<CudaDevice *> list;
    Status status;
  };
  static const Devices &devices = *[] {
    auto *d = new Devices;
    const Driver *driver = Driver::get(d->status);
    for (int i = 0; driver && i < driver->count; ++i)
      if (std::unique_ptr<CudaDevice> one = make(*driver, i, d->status)) d->list.push_back(one.release());
    return d;
  }();
  if (devices.list.empty()) status = devices.status;
  return devices.list;
}

std::unique_ptr<CudaDevice> CudaDevice::make(const Driver &driver, int ordinal, Status &status) {
  std::unique_ptr<CudaDevice> d(new CudaDevice(driver, ordinal));
  status = d->read();
  return status ? std::move(d) : nullptr;
}

CudaDevice::~CudaDevice() {
  if (!context_) return;
  ContextScope scope(driver_, context_);
  for (void *slab : slabs_) driver_.hostFree(slab);
}

bool CudaDevice::inUse() {
  const std::string path = driverLibraryPath();
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (!library) return false;
  auto *current = reinterpret_cast<CUresult (*)(CUcontext *)>(dlsym(library, "cuCtxGetCurrent"));
  CUcontext context = nullptr;
  bool used = current && current(&context) == CUDA_SUCCESS && context;
  dlclose(library); // releases only the reference of this look-up
  return used;
}

int CudaDevice::ownerOf(uint64_t address) {
  Status why;
  const std::vector<CudaDevice *> &devices = all(why);
  for (CudaDevice *d : devices)
    if (d->own_.contains(address)) return d->ordinal_;
  if (devices.empty()) return -1;
  unsigned memoryType = 0;
  int owner = -1;
  uint64_t begin = 0;
  size_t bytes = 0;
  int which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void *values[] = {&memoryType, &owner, &begin, &bytes};
  if (devices[0]->driver_.pointerGetAttributes(4, which, values, address) != CUDA_SUCCESS ||
      memoryType != CU_MEMORYTYPE_DEVICE)
    return -1;
  for (CudaDevice *d : devices) {
    if (d->ordinal_ != owner) continue;
    if (bytes && address - begin < bytes) d->own_.add(address, begin, begin + bytes);
    return owner;
  }
  return -1;
}

int CudaDevice::currentOrdinal() {
  Status why;
  const Driver *driver = Driver::get(why);
  CUdevice handle = 0;
  if (!driver || driver->contextGetDevice(&handle) != CUDA_SUCCESS) return -1;
  for (CudaDevice *d : all(why))
    if (d->handle_ == handle) return d->ordinal_;
  return -1;
}

Status CudaDevice::read() {
  properties_.kind = DeviceProperties::Kind::Cuda;
  properties_.name = "cuda:" + std::to_string(ordinal_);
  auto attribute = [&](int which, CUresult &r) {
    int v = 0;
    if (r == CUDA_SUCCESS) r = driver_.deviceGetAttribute(&v, which, handle_);
    return static_cast<uint32_t>(v);
  };
  CUresult r = driver_.deviceGet(&handle_, ordinal_);
  char name[256] = "";
  if (r == CUDA_SUCCESS) r = driver_.deviceGetName(name, sizeof name - 1, handle_);
  size_t total = 0;
  if (r == CUDA_SUCCESS) r = driver_.deviceTotalMem(&total, handle_);
  properties_.description = name;
  properties_.memoryBytes = total;
  properties_.cores = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, r);
  properties_.l2Bytes = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, r);
  properties_.maxSharedBytes = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, r);
  uint32_t major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, r);
  properties_.capability = major * 10 + attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, r);
  return r == CUDA_SUCCESS ? Status::ok() : driver_.error(r, "reading the properties of " + properties_.name);
}

CUcontext CudaDevice::context(Status &status) {
  std::call_once(contextOnce_, [this] {
    CUresult r = driver_.primaryContextRetain(&context_, handle_);
    if (r != CUDA_SUCCESS) {
      context_ = nullptr;
      contextStatus_ = driver_.error(r, "starting " + properties_.name);
    }
  });
  if (!context_) status = contextStatus_;
  return context_;
}

std::unique_ptr<Executable> CudaDevice::load(const KernelInfo &info, std::span<const char> code, Status &status) {
  return CudaKernel::load(*this, info, code, status);
}

// ---- memory

Status CudaDevice::allocate(uint64_t bytes, void **out) {
  Status status;
  CUcontext c = context(status);
  if (!c) return status;
  ContextScope scope(driver_, c);
  CUdeviceptr p = 0;
  CUresult r = driver_.memoryAllocate(&p, bytes ? bytes : 1);
  if (r != CUDA_SUCCESS) {
    Status s = driver_.error(r, "allocating " + std::to_string(bytes) + " bytes on " + properties_.name);
    size_t free = 0, total = 0;
    if (r != CUDA_ERROR_OUT_OF_MEMORY || driver_.memoryGetInfo(&free, &total) != CUDA_SUCCESS) return s;
    s.text += "; " + std::to_string(free) + " of " + std::to_string(total) + " bytes are free";
    s.shortage = {"device memory", bytes, free};
    return s;
  }
  *out = reinterpret_cast<void *>(p);
  return Status::ok();
}

Status CudaDevice::availableBytes(uint64_t &bytes) {
  Status status;
  CUcontext c = context(status);
  if (!c) return status;
  ContextScope scope(driver_, c);
  size_t free = 0, total = 0;
  CUresult r = driver_.memoryGetInfo(&free, &total);
  if (r != CUDA_SUCCESS) return driver_.error(r, "reading the free memory of " + properties_.name);
  bytes = free;
  return Status::ok();
}

void CudaDevice::free(void *memory) {
  Status status;
  CUcontext c = memory ? context(status) : nullptr;
  if (!c) return;
  ContextScope scope(driver_, c);
  ranges_.remove(reinterpret_cast<uint64_t>(memory));
  own_.remove(reinterpret_cast<uint64_t>(memory));
  driver_.memoryFree(reinterpret_cast<CUdeviceptr>(memory));
}

/// Runs `copy` on the stream and waits for it.
template <typename Copy> static Status runCopy(CudaDevice &d, void *stream, const char *what, Copy copy) {
  Status status;
  CUcontext c = d.context(status);
  if (!c) return status;
  ContextScope scope(d.driver(), c);
  auto s = static_cast<CUstream>(stream);
  CUresult r = copy(s);
  if (r == CUDA_SUCCESS) r = d.driver().streamSynchronize(s);
  LaunchOutcome outcome;
  return r == CUDA_SUCCESS ? Status::ok() : d.blame(r, what + d.properties().name, outcome);
}

Status CudaDevice::copyIn(void *to, const void *from, uint64_t bytes, void *stream) {
  if (bytes == 0) return Status::ok();
  return runCopy(*this, stream, "copying to ",
                 [&](CUstream s) { return driver_.copyIn(reinterpret_cast<CUdeviceptr>(to), from, bytes, s); });
}

Status CudaDevice::copyOut(void *to, const void *from, uint64_t bytes, void *stream) {
  if (bytes == 0) return Status::ok();
  return runCopy(*this, stream, "copying from ",
                 [&](CUstream s) { return driver_.copyOut(to, reinterpret_cast<CUdeviceptr>(from), bytes, s); });
}

Status CudaDevice::copyWithin(void *to, const void *from, uint64_t bytes, void *stream) {
  if (bytes == 0) return Status::ok();
  return queueOn(*this, stream, "copying on ", [&](CUstream s) {
    return driver_.copyWithin(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes, s);
  });
}

Status CudaDevice::fill(void *to, uint8_t value, uint64_t bytes, void *stream) {
  if (bytes == 0) return Status::ok();
  return queueOn(*this, stream, "filling memory of ",
                 [&](CUstream s) { return driver_.fill(reinterpret_cast<CUdeviceptr>(to), value, bytes, s); });
}

namespace {
struct CudaStopwatch final : Stopwatch {
  CudaDevice &device;
  std::vector<CUevent> events;
  explicit CudaStopwatch(CudaDevice &d) : device(d) {}
  ~CudaStopwatch() override {
    Status status;
    CUcontext c = device.context(status);
    if (!c) return;
    ContextScope scope(device.driver(), c);
    for (CUevent e : events) device.driver().eventDestroy(e);
  }
  Status mark(unsigned i, void *stream) override {
    return queueOn(device, stream, "timing on ", [&](CUstream s) { return device.driver().eventRecord(events[i], s); });
  }
  Status between(unsigned from, unsigned to, double &ns) override {
    float ms = 0;
    Status s = queueOn(device, nullptr, "waiting for ", [&](CUstream) {
      CUresult r = device.driver().eventSynchronize(events[to]);
      return r == CUDA_SUCCESS ? device.driver().eventElapsed(&ms, events[from], events[to]) : r;
    });
    ns = double(ms) * 1e6;
    return s;
  }
};
} // namespace

std::unique_ptr<Stopwatch> CudaDevice::stopwatch(unsigned marks, Status &status) {
  CUcontext c = context(status);
  if (!c) return nullptr;
  ContextScope scope(driver_, c);
  auto watch = std::make_unique<CudaStopwatch>(*this);
  for (unsigned i = 0; i < marks; ++i) {
    CUevent e = nullptr;
    if (CUresult r = driver_.eventCreate(&e, 0); r != CUDA_SUCCESS) {
      status = driver_.error(r, "making events on " + properties_.name);
      return nullptr;
    }
    watch->events.push_back(e);
  }
  return watch;
}

Status CudaDevice::synchronize(void *stream, LaunchOutcome &outcome) {
  Status status;
  CUcontext c = context(status);
  if (!c) return status;
  ContextScope scope(driver_, c);
  CUresult r = driver_.streamSynchronize(static_cast<CUstream>(stream));
  return r == CUDA_SUCCESS ? Status::ok() : blame(r, "waiting for " + properties_.name, outcome);
}

Status CudaDevice::checkPointer(uint64_t address) {
  unsigned memoryType = 0;
  int owner = -1;
  CUdeviceptr device = 0;
  uint64_t begin = 0;
  size_t bytes = 0;
  int which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                 CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                 CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void *values[] = {&memoryType, &owner, &device, &begin, &bytes};
  CUresult r = driver_.pointerGetAttributes(5, which, values, address);
  if (r != CUDA_SUCCESS && r != CUDA_ERROR_INVALID_VALUE) return driver_.error(r, "asking for the memory of a pointer");
  if (r == CUDA_SUCCESS && device == address) {
    // Memory without a range (some imported kinds) needs a driver call every time.
    if (bytes && address - begin < bytes) ranges_.add(address, begin, begin + bytes);
    return Status::ok();
  }
  return whatIs(address, r == CUDA_SUCCESS ? memoryType : 0, owner);
}

Status CudaDevice::whatIs(uint64_t address, unsigned memoryType, int owner) const {
  std::string text;
  if (memoryType == CU_MEMORYTYPE_DEVICE && owner >= 0 && owner != ordinal_)
    text = "points to memory of cuda:" + std::to_string(owner) + "; the kernel runs on " + properties_.name +
           ", which cannot access it";
  else if (memoryType == CU_MEMORYTYPE_HOST)
    text = "points to CPU memory that " + properties_.name + " knows under another address";
  else
    text = "points to CPU memory, which " + properties_.name + " cannot access";
  return Status::error(TEGULA_INVALID_ARGUMENT, std::move(text));
}

// ---- failures of kernels

TegulaGpuRecord *CudaDevice::takeRecord(std::shared_ptr<const KernelInfo> owner, uint64_t &deviceAddress) {
  static constexpr size_t slab = 128;
  std::lock_guard lock(recordMutex_);
  auto unowned = [](const Owned &o) { return !o.owner; };
  auto free = std::find_if(records_.begin(), records_.end(), unowned);
  if (free == records_.end()) {
    void *host = nullptr;
    CUdeviceptr device = 0;
    if (driver_.hostAllocate(&host, slab * sizeof(TegulaGpuRecord),
                             CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) != CUDA_SUCCESS)
      return nullptr;
    if (driver_.hostDevicePointer(&device, host, 0) != CUDA_SUCCESS) {
      driver_.hostFree(host);
      return nullptr;
    }
    slabs_.push_back(host);
    std::memset(host, 0, slab * sizeof(TegulaGpuRecord));
    for (size_t i = 0; i < slab; ++i)
      records_.push_back({static_cast<TegulaGpuRecord *>(host) + i, device + i * sizeof(TegulaGpuRecord), nullptr});
    free = std::find_if(records_.begin(), records_.end(), unowned);
  }
  *free->record = {};
  free->owner = std::move(owner);
  deviceAddress = free->deviceAddress;
  return free->record;
}

void CudaDevice::giveRecord(TegulaGpuRecord *record) {
  std::lock_guard lock(recordMutex_);
  for (Owned &o : records_)
    // A claimed record keeps its owner: its fault has not been reported yet.
    if (o.record == record && !__atomic_load_n(&record->claimed, __ATOMIC_ACQUIRE)) o.owner.reset();
}

void CudaDevice::forget(const KernelInfo *info) {
  std::lock_guard lock(recordMutex_);
  for (std::atomic<const KernelInfo *> &l : last_) {
    const KernelInfo *expected = info;
    l.compare_exchange_strong(expected, nullptr);
  }
}

Status CudaDevice::blame(CUresult r, const std::string &what, LaunchOutcome &outcome) {
  if (!isFault(r)) return driver_.error(r, what);
  static constexpr const char *lost =
      "; the GPU gave up this process's context, which must be restarted to use it again";
  std::lock_guard lock(recordMutex_);
  for (Owned &o : records_) {
    TegulaGpuRecord &g = *o.record;
    if (!o.owner || !__atomic_load_n(&g.claimed, __ATOMIC_ACQUIRE)) continue;
    outcome.culprit = o.owner;
    outcome.fault = {1, g.code, g.site, {g.pid[0], g.pid[1], g.pid[2]}, 0, 0};
    return Status::error(TEGULA_FAULT, faultText(*o.owner, outcome.fault) + " on " + properties_.name + lost);
  }
  std::vector<const KernelInfo *> names;
  for (unsigned i = 0, n = lastIndex_.load(); i < lastCount; ++i) {
    const KernelInfo *k = last_[(n - 1 - i) % lastCount].load();
    if (k && std::find(names.begin(), names.end(), k) == names.end()) names.push_back(k);
  }
  std::string who;
  for (const KernelInfo *k : names) who += (who.empty() ? "`" : ", `") + k->name + "`";
  return Status::error(TEGULA_FAULT, what + " failed: a kernel on " + properties_.name + " stopped with " +
                                         driver_.errorText(r) +
                                         (who.empty() ? "" : "; launched last (latest first): " + who) + lost);
}

} // namespace tegula::runtime::cuda
