#include "Device.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace llm {

Result<Device> Device::open(const tegula::Context &context, const std::string &name, bool graphs) {
  Device d;
  d.context_ = context;
  d.name_ = name;
  int32_t index = 0;
  if (Status s = Status::from(tegula_device_find(context.get(), name.c_str(), &index)); !s) return s;
  TegulaDeviceInfo info{};
  info.size = sizeof info;
  if (Status s = Status::from(tegula_device_info(context.get(), size_t(index), &info)); !s) return s;
  d.options_.device = index;
  d.gpu_ = info.kind != TEGULA_DEVICE_CPU;
  d.host_ = info.kind != TEGULA_DEVICE_CUDA;
  d.cores_ = info.cores;
  d.blocksTogether_ = info.capability >= 90 ? 8 : 1;
  if (graphs || !d.host_) {
    Result<tegula::Stream> stream = tegula::Device(context, index).stream();
    if (!stream) return stream.status();
    d.stream_ = *stream;
    d.options_.on(*d.stream_);
    Result<tegula::Stream> copies = tegula::Device(context, index).stream();
    if (!copies) return copies.status();
    d.copies_ = *copies;
    for (tegula::Event &mark : d.marks_) {
      Result<tegula::Event> made = tegula::Device(context, index).event();
      if (!made) return made.status();
      mark = *made;
    }
  }
  return d;
}

static double clockSeconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

Status Device::timed(const tegula::Function &f, tegula::Grid grid, std::initializer_list<tegula::Arg> args, const tegula::LaunchOptions &o) const {
  double start = clockSeconds(CLOCK_MONOTONIC), processor = clockSeconds(CLOCK_THREAD_CPUTIME_ID);
  Status s = f(grid, args, o);
  if (s && stream_) s = synchronize();
  Count &c = (*profile_)[f.name()];
  ++c.launches;
  c.seconds += clockSeconds(CLOCK_MONOTONIC) - start;
  c.processor += clockSeconds(CLOCK_THREAD_CPUTIME_ID) - processor;
  return s;
}

std::string Device::profile() const {
  if (!profile_) return "";
  std::vector<std::pair<std::string, Count>> rows(profile_->begin(), profile_->end());
  std::ranges::sort(rows, [](const auto &a, const auto &b) { return a.second.seconds > b.second.seconds; });
  std::string text = "kernel                 launches         ms   processor ms\n";
  for (auto &[name, c] : rows) {
    char line[128];
    std::snprintf(line, sizeof line, "%-22s %8lld %10.2f %14.2f\n", name.c_str(), static_cast<long long>(c.launches), c.seconds * 1e3, c.processor * 1e3);
    text += line;
  }
  return text;
}

Result<Buffer> Device::allocate(TegulaDtype dtype, int64_t count) const {
  int64_t bytes = count * tegula_dtype_bytes(dtype);
  if (host_) {
    void *address = nullptr;
    Tensor t = Tensor::make(dtype, {count}, &address);
    return Buffer{address, bytes, dtype, t.owner};
  }
  Result<tegula::Buffer<uint8_t>> made = tegula::Device(context_, options_.device).allocate<uint8_t>(size_t(bytes));
  if (!made) return made.status();
  auto owner = std::make_shared<tegula::Buffer<uint8_t>>(std::move(*made));
  return Buffer{owner->data(), bytes, dtype, owner};
}

Result<Buffer> Device::place(const Tensor &t) const {
  // Files promise no alignment of a tensor. Kernels need that of its elements, and where descriptors bring tiles, of 16 bytes.
  bool aligned = reinterpret_cast<uintptr_t>(t.data) % (gpu_ ? 16 : tegula_dtype_bytes(t.dtype)) == 0;
  if (host_ && aligned) return Buffer{const_cast<void *>(t.data), t.bytes(), t.dtype, t.owner};
  Result<Buffer> b = allocate(t.dtype, t.count());
  if (!b) return b;
  if (Status s = upload(*b, t.data, t.bytes()); !s) return s;
  return b;
}

Status Device::upload(const Buffer &to, const void *from, int64_t bytes) const {
  if (bytes == 0) return {};
  if (stream_) return Status::from(tegula_memory_copy(context_.get(), options_.device, TEGULA_TO_DEVICE, to.address, from, uint64_t(bytes), options_.stream));
  std::memcpy(to.address, from, size_t(bytes));
  return {};
}

Status Device::queueUpload(const Buffer &to, const void *from, int64_t bytes) const {
  if (bytes == 0 || !stream_) return upload(to, from, bytes);
  return Status::from(tegula_memory_copy_async(context_.get(), options_.device, TEGULA_TO_DEVICE, to.address, from, uint64_t(bytes), options_.stream));
}

Status Device::download(void *to, const Buffer &from, int64_t bytes) const {
  if (stream_) return Status::from(tegula_memory_copy(context_.get(), options_.device, TEGULA_FROM_DEVICE, to, from.address, uint64_t(bytes), options_.stream));
  std::memcpy(to, from.address, size_t(bytes));
  return {};
}

Status Device::downloadMarked(int side, void *to, const Buffer &from, int64_t bytes) const {
  if (!stream_) return download(to, from, bytes);
  Status s = marks_[side].synchronize();
  return s ? Status::from(tegula_memory_copy(context_.get(), options_.device, TEGULA_FROM_DEVICE, to, from.address, uint64_t(bytes), copies_->handle())) : s;
}

} // namespace llm
