// Memory, streams and events of the devices whose kernels run in this process: the CPU and the simulator.
#pragma once
#include "runtime/Device.h"
#include "runtime/HostStream.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tegula::runtime {

class HostDevice : public Device {
public:
  Status allocate(uint64_t bytes, void **out) override {
    // Whole cache lines; not null for 0 bytes.
    uint64_t rounded = (bytes + 255) / 256 * 256;
    *out = rounded < bytes ? nullptr : std::aligned_alloc(256, rounded ? rounded : 256);
    return *out ? Status::ok()
                : Status::error(TEGULA_OUT_OF_RESOURCES, "no memory for " + std::to_string(bytes) + " bytes");
  }
  void free(void *memory) override { std::free(memory); }
  Status availableBytes(uint64_t &bytes) override;
  Status copyIn(void *to, const void *from, uint64_t bytes, void *stream) override {
    return copyNow(to, from, bytes, stream);
  }
  Status copyOut(void *to, const void *from, uint64_t bytes, void *stream) override {
    return copyNow(to, from, bytes, stream);
  }
  Status queueCopyIn(void *to, const void *from, uint64_t bytes, void *stream) override {
    return copyWithin(to, from, bytes, stream);
  }
  Status queueCopyOut(void *to, const void *from, uint64_t bytes, void *stream) override {
    return copyWithin(to, from, bytes, stream);
  }
  Status copyWithin(void *to, const void *from, uint64_t bytes, void *stream) override {
    return queue(stream, [=] {
      if (bytes) std::memmove(to, from, bytes);
    });
  }
  Status fill(void *to, uint8_t value, uint64_t bytes, void *stream) override {
    return queue(stream, [=] {
      if (bytes) std::memset(to, value, bytes);
    });
  }
  Status synchronize(void *stream, LaunchOutcome &outcome) override {
    HostStream *s = hostStream(stream);
    return s ? s->wait(outcome) : Status::ok();
  }
  std::unique_ptr<Stopwatch> stopwatch(unsigned marks, Status &) override {
    return std::make_unique<HostStopwatch>(*this, marks);
  }
  Status makeStream(void **out) override {
    auto made = std::make_unique<HostStream>();
    *out = made.get();
    std::lock_guard lock(mutex_);
    streams_.push_back(std::move(made));
    return Status::ok();
  }
  void endStream(void *stream) override {
    std::unique_ptr<HostStream> ended; // outside of the lock: it waits
    std::lock_guard lock(mutex_);
    for (std::unique_ptr<HostStream> &s : streams_)
      if (s.get() == stream) ended = std::move(s);
    std::erase(streams_, nullptr);
  }
  HostStream *hostStream(void *stream) override {
    if (!stream) return nullptr;
    std::lock_guard lock(mutex_);
    for (const std::unique_ptr<HostStream> &s : streams_)
      if (s.get() == stream) return s.get();
    return nullptr;
  }
  void settle() override {
    std::lock_guard lock(mutex_);
    for (const std::unique_ptr<HostStream> &s : streams_) s->settle();
  }
  std::unique_ptr<Event> event(Status &) override { return std::make_unique<HostDeviceEvent>(*this); }
  Status beginGraph(void *stream) override {
    HostStream *s = hostStream(stream);
    if (!s) return Status::error(TEGULA_INVALID_ARGUMENT, "the default stream records no graph; make a stream for it");
    return s->beginRecording() ? Status::ok()
                               : Status::error(TEGULA_INVALID_ARGUMENT, "the stream records a graph already");
  }
  std::unique_ptr<Graph> endGraph(void *stream, Status &status) override {
    HostStream *s = hostStream(stream);
    std::optional<std::vector<HostStream::Work>> work = s ? s->endRecording() : std::nullopt;
    if (work) return std::make_unique<HostGraph>(*this, std::move(*work));
    status = Status::error(TEGULA_INVALID_ARGUMENT, "the stream records no graph");
    return nullptr;
  }
  bool isRecording(void *stream) override {
    HostStream *s = hostStream(stream);
    return s && s->isRecording();
  }

private:
  /// The pieces of work in order, up to the first that fails.
  struct HostGraph final : Graph {
    struct Body {
      // one launch of a graph runs at a time, as with CUDA graphs: launches of kernels write after their arguments
      std::mutex mutex;
      std::vector<HostStream::Work> work;
      Status run(LaunchOutcome &outcome) {
        std::lock_guard lock(mutex);
        for (HostStream::Work &w : work)
          if (Status s = w(outcome); !s) return s;
        return Status::ok();
      }
    };
    HostDevice &device;
    std::shared_ptr<Body> body = std::make_shared<Body>(); // streams hold it until they have done it
    HostGraph(HostDevice &d, std::vector<HostStream::Work> w) : device(d) { body->work = std::move(w); }
    Status launch(void *stream, LaunchOutcome &outcome) override {
      HostStream *s = device.hostStream(stream);
      if (!s) return body->run(outcome);
      s->add([b = body](LaunchOutcome &o) { return b->run(o); });
      return Status::ok();
    }
    size_t operations() const override { return body->work.size(); }
  };
  /// Reads the steady clock when the stream reaches a mark.
  struct HostStopwatch final : Stopwatch {
    HostDevice &device;
    std::vector<HostEvent> marks;
    HostStopwatch(HostDevice &d, unsigned n) : device(d), marks(n) {}
    Status mark(unsigned i, void *stream) override { return marks[i].record(device.hostStream(stream)), Status::ok(); }
    Status between(unsigned from, unsigned to, double &ns) override {
      std::chrono::steady_clock::time_point a, b;
      if (marks[from].time(a) && marks[to].time(b)) ns = std::chrono::duration<double, std::nano>(b - a).count();
      return Status::ok();
    }
  };
  struct HostDeviceEvent final : Event {
    HostDevice &device;
    HostEvent e;
    explicit HostDeviceEvent(HostDevice &d) : device(d) {}
    Status record(void *stream) override { return e.record(device.hostStream(stream)), Status::ok(); }
    Status isPast(bool &past) override { return past = e.isPast(), Status::ok(); }
    Status wait() override { return e.wait(), Status::ok(); }
    Status holdBack(void *stream) override { return e.holdBack(device.hostStream(stream)), Status::ok(); }
    Status since(Event &from, double &ns) override {
      std::chrono::steady_clock::time_point a, b;
      if (!static_cast<HostDeviceEvent &>(from).e.time(a) || !e.time(b))
        return Status::error(TEGULA_INVALID_ARGUMENT, "an event was never recorded");
      ns = std::chrono::duration<double, std::nano>(b - a).count();
      return Status::ok();
    }
  };

  template <typename F> Status queue(void *stream, F work) {
    if (HostStream *s = hostStream(stream)) s->add([work](LaunchOutcome &) { return work(), Status::ok(); });
    else work();
    return Status::ok();
  }
  Status copyNow(void *to, const void *from, uint64_t bytes, void *stream) {
    LaunchOutcome outcome;
    if (Status s = synchronize(stream, outcome); !s) return s;
    if (bytes) std::memmove(to, from, bytes);
    return Status::ok();
  }
  std::mutex mutex_;
  std::vector<std::unique_ptr<HostStream>> streams_;
};

} // namespace tegula::runtime
