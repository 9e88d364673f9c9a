#include "api/Rehearsal.h"
#include "api/Sized.h"
#include "api/Specialize.h"
#include "api/TuneSubject.h"
#include <cstring>

namespace tegula::api {

using runtime::Status;

const Rehearsal::Copy *Rehearsal::copyOf(const TegulaArg &pointer, const DeviceEntry &device, void *stream) {
  auto bytes = static_cast<uint64_t>(std::max<int64_t>(pointer.u2.extent, 0));
  for (const Copy &c : originals_)
    if (c.from == pointer.u.ptr && c.bytes.size() == bytes) return &c;
  if (pointer.u2.extent < 0 || bytes > limit_ - taken_) return nullptr;
  Copy c;
  c.from = pointer.u.ptr;
  c.bytes.resize(bytes);
  if (bytes && !device.device->copyOut(c.bytes.data(), c.from, bytes, stream)) return nullptr;
  taken_ += bytes;
  return &originals_.emplace_back(std::move(c));
}

bool Rehearsal::replace(const TegulaArg &a, const DeviceEntry &device, void *stream,
                        std::vector<std::vector<TegulaArg>> &tuples, TegulaArg &out) {
  out = a;
  if (a.kind == TEGULA_ARG_POINTER && a.u.ptr) {
    const Copy *c = copyOf(a, device, stream);
    if (!c) return false;
    // Aligned at least like the original, as far as kernels depend on it: their facts go up to 16 bytes.
    constexpr size_t alignment = 256;
    std::vector<char> &to = scratch_.emplace_back(c->bytes.size() + 2 * alignment);
    auto begin = (reinterpret_cast<uintptr_t>(to.data()) + alignment - 1) / alignment * alignment +
                 reinterpret_cast<uintptr_t>(a.u.ptr) % alignment;
    out.u.ptr = std::memcpy(reinterpret_cast<void *>(begin), c->bytes.data(), c->bytes.size());
    return true;
  }
  if (a.kind != TEGULA_ARG_TUPLE || !a.u.items) return true;
  std::vector<TegulaArg> items(a.count);
  for (uint32_t i = 0; i < a.count; ++i)
    if (!replace(a.u.items[i], device, stream, tuples, items[i])) return false;
  out.u.items = tuples.emplace_back(std::move(items)).data();
  return true;
}

Status Rehearsal::run(const TegulaKernel &kernel, const int64_t grid[3], const TegulaArg *args, size_t count,
                      const TegulaLaunchOptions &options) {
  if (!kernel.device) return Status::ok();
  std::lock_guard lock(mutex_);
  TegulaContext &context = *function_.context;
  Status status;
  int32_t simulator = DeviceIndex::sim;
  if (kernel.target.isGpu() && !context.findDevice(kernel.target->simulator(), simulator, status)) return Status::ok();
  std::vector<TegulaArg> copies(count);
  std::vector<std::vector<TegulaArg>> tuples;
  scratch_.clear();
  for (size_t i = 0; i < count; ++i)
    if (!replace(args[i], *kernel.device, options.stream, tuples, copies[i])) return Status::ok();
  TegulaLaunchOptions o = options;
  o.device = simulator;
  o.stream = nullptr;
  o.memory = nullptr;
  o.hang_s = 10; // it may wait for a program that is never run
  if (launchFirst(function_, grid, copies.data(), count, &o) != TEGULA_FAULT) return Status::ok();
  if (TegulaFault fault{}; tegula_last_fault(&fault) == TEGULA_OK && fault.kind == TEGULA_FAULT_KIND_HANG)
    return Status::ok();
  Status found = lastStatus();
  found.text = "one program on the simulator: " + found.text;
  return found;
}

} // namespace tegula::api

TegulaStatus tegula_rehearse(TegulaFunction *f, const int64_t grid[3], const TegulaArg *args, size_t count,
                             const TegulaLaunchOptions *options) {
  using namespace tegula::api;
  if (!f || !grid || (!args && count)) return fail(TEGULA_INVALID_ARGUMENT, "tegula_rehearse: null argument");
  TegulaLaunchOptions o = TEGULA_LAUNCH_OPTIONS_INIT;
  if (options && !takeSized(options, o))
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_rehearse: `size` of the options is not set");
  TegulaKernel *k = nullptr;
  if (TegulaStatus s = tegula_compile(f, args, count, &o, &k); s != TEGULA_OK) return s;
  tegula::runtime::Status s = Rehearsal(*f, f->context->tuning.copyBytes).run(*k, grid, args, count, o);
  tegula_kernel_release(k);
  return s ? TEGULA_OK : fail(s);
}
