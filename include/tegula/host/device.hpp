// Devices, their memory, streams and events. Included by tegula/tegula.hpp.
//
//   tegula::Device gpu = context.device("cuda").value();
//   tegula::Stream stream = gpu.stream().value();
//   auto x = gpu.upload(values, stream).value();          // Buffer<float>, queued
//   auto out = gpu.allocate<float>(x.size()).value();
//   tegula::Status s = add(tegula::Grid(n / 1024), {x, out, n}, stream);
//   tegula::Graph graph = stream.record([&] { return add(tegula::Grid(n / 1024), {x, out, n}, stream); }).value();
//   s = graph.launch(stream);                             // as often as one likes
//   s = out.copyTo(results);                              // waits
//
// Handles are shared owners and cheap to copy; a Buffer owns its memory alone and is moved. All may be used from any thread; memory, streams and events keep their context alive.
#pragma once
#include "tegula/host/argument.hpp"

namespace tegula {
inline namespace v0 {

namespace detail {
using ContextHandle = Handle<TegulaContext, tegula_context_retain, tegula_context_release>;
}

/// Work of a device in order, beside that of other streams. Launches, copies and fills that are given one return when they are queued; what they use must live until the
/// stream has done it, and what fails is said by synchronize(). The last handle waits.
class Stream : public detail::Handle<TegulaStream, tegula_stream_retain, tegula_stream_release> {
public:
  using Handle::Handle;
  /// The `stream` of launch options: a CUstream on GPUs.
  void *handle() const { return tegula_stream_handle(get()); }
  int32_t deviceIndex() const { return tegula_stream_device(get()); }
  /// Waits for all that is queued; what of it failed first, with the details of a fault.
  Status synchronize() const { return Status::from(tegula_synchronize(context_.get(), deviceIndex(), handle())); }
  /// What is queued from now on waits for the event.
  inline Status wait(const class Event &event) const;
  /// What `work` (it gives a Status) queues on this stream, as a graph; nothing of it is done. What fails in `work` is the result.
  template <typename F> inline Result<class Graph> record(F &&work) const;

private:
  friend class Device;
  Stream(TegulaStream *s, detail::ContextHandle context) : Handle(s), context_(std::move(context)) {}
  detail::ContextHandle context_;
};

/// Work that a stream recorded, to be launched as a whole as often as one likes: a CUDA graph, or a list on the CPU and the simulator. What its launches and copies use must live as long.
class Graph : public detail::Handle<TegulaGraph, tegula_graph_retain, tegula_graph_release> {
public:
  using Handle::Handle;
  /// Queues it; launches of one graph run one after the other.
  Status launch(const Stream &stream) const { return Status::from(tegula_graph_launch(get(), stream.handle())); }
  /// On the default stream.
  Status launch() const { return Status::from(tegula_graph_launch(get(), nullptr)); }
  /// Launches, copies and fills in it.
  size_t size() const { return tegula_graph_size(get()); }
};
template <typename F> Result<Graph> Stream::record(F &&work) const {
  if (Status s = Status::from(tegula_graph_begin(get())); !s) return s;
  Status worked = work();
  TegulaGraph *made = nullptr;
  Status ended = Status::from(tegula_graph_end(get(), &made));
  Graph graph(made);
  if (!worked || !ended) return worked ? ended : worked;
  return graph;
}

/// A point in a stream, recorded as often as one likes; the last counts.
class Event : public detail::Handle<TegulaEvent, tegula_event_retain, tegula_event_release> {
public:
  using Handle::Handle;
  /// Past when all that is queued on the stream now is done.
  Status record(const Stream &stream) const { return Status::from(tegula_event_record(get(), stream.handle())); }
  /// In the device's default stream.
  Status record() const { return Status::from(tegula_event_record(get(), nullptr)); }
  Result<bool> isPast() const {
    int32_t past = 0;
    if (Status s = Status::from(tegula_event_query(get(), &past)); !s) return s;
    return past != 0;
  }
  Status synchronize() const { return Status::from(tegula_event_synchronize(get())); }
  /// Nanoseconds from `earlier` to this one; waits for both.
  Result<double> since(const Event &earlier) const {
    double ns = 0;
    if (Status s = Status::from(tegula_event_elapsed(earlier.get(), get(), &ns)); !s) return s;
    return ns;
  }
};
inline Status Stream::wait(const Event &event) const { return Status::from(tegula_event_wait(event.get(), handle())); }

/// A part of a Buffer: where kernels and copies go. Owns nothing; const elements are read only.
template <typename T> class BufferView {
public:
  using device_element = T;
  BufferView(TegulaContext *context, int32_t device, T *data, size_t size) : context_(context), device_(device), data_(data), size_(size) {}
  operator BufferView<const T>() const
    requires(!std::is_const_v<T>)
  {
    return {context_, device_, data_, size_};
  }
  /// An address of the device.
  T *data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  int32_t deviceIndex() const { return device_; }
  /// `count` elements from `first` on, or as many as there are.
  BufferView part(size_t first, size_t count = static_cast<size_t>(-1)) const {
    first = first < size_ ? first : size_;
    return {context_, device_, data_ + first, count < size_ - first ? count : size_ - first};
  }
  /// Fill it from, and copy it to, as many elements of the host's memory; return when that is done, or queue it.
  Status copyFrom(std::span<const T> values) const
    requires(!std::is_const_v<T>)
  {
    return copy(TEGULA_TO_DEVICE, data_, values.data(), values.size(), nullptr, false);
  }
  Status copyFrom(std::span<const T> values, const Stream &stream) const
    requires(!std::is_const_v<T>)
  {
    return copy(TEGULA_TO_DEVICE, data_, values.data(), values.size(), &stream, true);
  }
  Status copyTo(std::span<std::remove_const_t<T>> values) const { return copy(TEGULA_FROM_DEVICE, values.data(), data_, values.size(), nullptr, false); }
  Status copyTo(std::span<std::remove_const_t<T>> values, const Stream &stream) const { return copy(TEGULA_FROM_DEVICE, values.data(), data_, values.size(), &stream, true); }
  /// From as many elements of the same device.
  Status copyFrom(BufferView<const T> other) const
    requires(!std::is_const_v<T>)
  {
    return other.deviceIndex() == device_ ? copy(TEGULA_WITHIN_DEVICE, data_, other.data(), other.size(), nullptr, false) : otherDevice();
  }
  Status copyFrom(BufferView<const T> other, const Stream &stream) const
    requires(!std::is_const_v<T>)
  {
    return other.deviceIndex() == device_ ? copy(TEGULA_WITHIN_DEVICE, data_, other.data(), other.size(), &stream, true) : otherDevice();
  }
  /// Every byte becomes `value`.
  Status fillBytes(uint8_t value) const
    requires(!std::is_const_v<T>)
  {
    if (Status s = Status::from(tegula_memory_fill(context_, device_, data_, value, bytes(), nullptr)); !s) return s;
    return Status::from(tegula_synchronize(context_, device_, nullptr));
  }
  Status fillBytes(uint8_t value, const Stream &stream) const
    requires(!std::is_const_v<T>)
  {
    return Status::from(tegula_memory_fill(context_, device_, data_, value, bytes(), stream.handle()));
  }
  /// The elements, in a new vector; waits.
  Result<std::vector<std::remove_const_t<T>>> toVector() const
    requires(!std::same_as<std::remove_const_t<T>, bool>)
  {
    std::vector<std::remove_const_t<T>> values(size_);
    if (Status s = copyTo(values); !s) return s;
    return values;
  }
  TegulaArg arg() const {
    constexpr TegulaDtype d = detail::dtypeOf<std::remove_const_t<T>>();
    if constexpr (std::is_const_v<T>) return tegula_const_ptr(data_, d, static_cast<int64_t>(bytes()));
    else return tegula_ptr(data_, d, static_cast<int64_t>(bytes()));
  }

private:
  Status copy(int32_t direction, void *to, const void *from, size_t count, const Stream *stream, bool queued) const {
    if (count != size_)
      return Status::error(TEGULA_INVALID_ARGUMENT, "a copy between " + std::to_string(size_) + " elements on a device and " + std::to_string(count) + ": they must be as many");
    auto *call = queued ? tegula_memory_copy_async : tegula_memory_copy;
    return Status::from(call(context_, device_, direction, to, from, bytes(), stream ? stream->handle() : nullptr));
  }
  static Status otherDevice() { return Status::error(TEGULA_INVALID_ARGUMENT, "a copy between two devices: copy to the host's memory and from there"); }
  TegulaContext *context_;
  int32_t device_;
  T *data_;
  size_t size_;
};

/// Elements in the memory of a device, which end with this object; it may not be before streams are done with them, unless the device is the CPU or the simulator, where the
/// destructor waits, or a GPU's driver, which does as well.
template <typename T> class Buffer {
  static_assert(detail::Element<T> && !std::is_const_v<T>, "a buffer is of elements that kernels know: bool, integers, float, double, _Float16, tegula::tile::bf16 ...");

public:
  using device_element = T;
  Buffer() = default;
  Buffer(Buffer &&other) noexcept
      : context_(std::move(other.context_)), device_(other.device_), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer &operator=(Buffer other) noexcept {
    std::swap(context_, other.context_);
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() {
    if (data_) tegula_memory_free(context_.get(), device_, data_);
  }
  BufferView<T> view() { return {context_.get(), device_, data_, size_}; }
  BufferView<const T> view() const { return {context_.get(), device_, data_, size_}; }
  BufferView<T> part(size_t first, size_t count = static_cast<size_t>(-1)) { return view().part(first, count); }
  BufferView<const T> part(size_t first, size_t count = static_cast<size_t>(-1)) const { return view().part(first, count); }
  operator BufferView<T>() { return view(); }
  operator BufferView<const T>() const { return view(); }
  T *data() { return data_; }
  const T *data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }
  int32_t deviceIndex() const { return device_; }
  /// As of BufferView.
  template <typename... A> Status copyFrom(const A &...a) { return view().copyFrom(a...); }
  template <typename... A> Status copyTo(A &&...a) const { return view().copyTo(std::forward<A>(a)...); }
  template <typename... A> Status fillBytes(uint8_t value, const A &...a) { return view().fillBytes(value, a...); }
  auto toVector() const { return view().toVector(); }
  TegulaArg arg() { return view().arg(); }
  TegulaArg arg() const { return view().arg(); } // read only

private:
  friend class Device;
  Buffer(detail::ContextHandle context, int32_t device, T *data, size_t size) : context_(std::move(context)), device_(device), data_(data), size_(size) {}
  detail::ContextHandle context_;
  int32_t device_ = 0;
  T *data_ = nullptr;
  size_t size_ = 0;
};

/// A CPU, a GPU, or the simulator of one. From Context::device().
class Device {
public:
  Device(detail::ContextHandle context, int32_t index) : context_(std::move(context)), index_(index) {}
  /// As launch options take it.
  int32_t index() const { return index_; }
  /// What it is; its texts live as long as the context.
  Result<TegulaDeviceInfo> info() const {
    TegulaDeviceInfo i{};
    i.size = sizeof i;
    if (Status s = Status::from(tegula_device_info(context_.get(), static_cast<size_t>(index_), &i)); !s) return s;
    return i;
  }
  /// "cpu", "cuda:0"
  std::string name() const {
    Result<TegulaDeviceInfo> i = info();
    return i ? i->name : "";
  }
  /// Bytes that are free now; other programs may take them before allocate() does.
  Result<uint64_t> availableMemory() const {
    uint64_t bytes = 0;
    if (Status s = Status::from(tegula_memory_available(context_.get(), index_, &bytes)); !s) return s;
    return bytes;
  }
  /// Memory for so many elements, whose values are anything.
  template <typename T> Result<Buffer<T>> allocate(size_t count) const {
    void *memory = nullptr;
    if (count > SIZE_MAX / sizeof(T)) return Status::error(TEGULA_OUT_OF_RESOURCES, "no memory for " + std::to_string(count) + " elements");
    if (Status s = Status::from(tegula_memory_allocate(context_.get(), index_, count * sizeof(T), &memory)); !s) return s;
    return Buffer<T>(context_, index_, static_cast<T *>(memory), count);
  }
  /// A copy of elements of the host's memory: a vector, a span, an array. With a stream it is queued.
  template <detail::ElementRange R, typename... S> Result<Buffer<std::remove_cv_t<std::ranges::range_value_t<R>>>> upload(const R &values, const S &...stream) const {
    using T = std::remove_cv_t<std::ranges::range_value_t<R>>;
    Result<Buffer<T>> made = allocate<T>(std::ranges::size(values));
    if (!made) return made;
    if (Status s = made->copyFrom(std::span<const T>(std::ranges::data(values), std::ranges::size(values)), stream...); !s) return s;
    return made;
  }
  Result<Stream> stream() const {
    TegulaStream *made = nullptr;
    if (Status s = Status::from(tegula_stream_create(context_.get(), index_, &made)); !s) return s;
    return Stream(made, context_);
  }
  Result<Event> event() const {
    TegulaEvent *made = nullptr;
    if (Status s = Status::from(tegula_event_create(context_.get(), index_, &made)); !s) return s;
    return Event(made);
  }
  /// Waits for the default stream.
  Status synchronize() const { return Status::from(tegula_synchronize(context_.get(), index_, nullptr)); }

private:
  detail::ContextHandle context_;
  int32_t index_;
};

} // inline namespace v0
} // namespace tegula
