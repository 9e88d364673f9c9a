// Memory of devices, their streams, events and graphs.
#include "api/Handles.h"
#include "runtime/HostStream.h"
#include <algorithm>
#include <cstdlib>

using namespace tegula;
using namespace tegula::api;
using runtime::Status;

struct TegulaStream : RefCounted {
  Ref<TegulaContext> context;
  DeviceEntry *entry = nullptr;
  void *handle = nullptr;
  ~TegulaStream() {
    if (handle) entry->device->endStream(handle);
  }
};

struct TegulaGraph : RefCounted {
  Ref<TegulaContext> context;
  DeviceEntry *entry = nullptr;
  std::unique_ptr<runtime::Graph> graph; // ends before the context
};

struct TegulaEvent : RefCounted {
  Ref<TegulaContext> context;
  DeviceEntry *entry = nullptr;
  std::unique_ptr<runtime::Event> event;
};

static TegulaStatus statusOf(const Status &s) { return s ? TEGULA_OK : fail(s); }

/// The entry for a call; null with the last error set.
static DeviceEntry *deviceOf(TegulaContext *c, int32_t device, const char *call) {
  if (!c) {
    fail(TEGULA_INVALID_ARGUMENT, std::string(call) + ": null context");
    return nullptr;
  }
  Status status;
  DeviceEntry *e = c->device(device < 0 ? 0 : device, status);
  if (!e) fail(status);
  return e;
}

/// A stream that records a graph has no running work that a call could wait for. True: the call fails, with the last
/// error set.
static bool isRecording(const DeviceEntry &e, void *stream, const char *call) {
  if (!stream || !e.device->isRecording(stream)) return false;
  fail(TEGULA_INVALID_ARGUMENT,
       std::string(call) + ": the stream records a graph, in which nothing can be waited for; end the graph first");
  return true;
}

/// The error of a device: with the details of a fault, if they are known.
static TegulaStatus outcomeOf(Status s, const runtime::LaunchOutcome &outcome) {
  if (s) return TEGULA_OK;
  return outcome.culprit ? fault(*outcome.culprit, outcome.fault, std::move(s.text)) : fail(s);
}

TegulaStatus tegula_memory_available(TegulaContext *c, int32_t device, uint64_t *bytes) {
  if (!bytes) return fail(TEGULA_INVALID_ARGUMENT, "tegula_memory_available: null argument");
  DeviceEntry *e = deviceOf(c, device, "tegula_memory_available");
  return e ? statusOf(e->device->availableBytes(*bytes)) : tegula_last_status();
}

TegulaStatus tegula_memory_allocate(TegulaContext *c, int32_t device, uint64_t bytes, void **out) {
  if (!out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_memory_allocate: null argument");
  DeviceEntry *e = deviceOf(c, device, "tegula_memory_allocate");
  if (!e) return tegula_last_status();
  // From now on launches without a device look up their pointers' device: the thread need not have a current CUDA
  // context, which is what is checked otherwise.
  if (e->index >= DeviceIndex::firstCuda) c->cudaInUse = true;
  if (!c->allocator.allocate) return statusOf(e->device->allocate(bytes, out));
  void *memory = c->allocator.allocate(c->allocator.user, e->index, bytes ? bytes : 1, 256);
  if (!memory)
    return fail(TEGULA_OUT_OF_RESOURCES,
                "the context's allocator has no memory for " + std::to_string(bytes) + " bytes");
  std::lock_guard lock(c->allocatedMutex);
  c->allocated[memory] = bytes ? bytes : 1;
  *out = memory;
  return TEGULA_OK;
}

void tegula_memory_free(TegulaContext *c, int32_t device, void *memory) {
  DeviceEntry *e = memory ? deviceOf(c, device, "tegula_memory_free") : nullptr;
  if (!e) return;
  e->device->settle();
  if (!c->allocator.allocate) return e->device->free(memory);
  uint64_t bytes = 0;
  {
    std::lock_guard lock(c->allocatedMutex);
    auto it = c->allocated.find(memory);
    if (it == c->allocated.end()) return;
    bytes = it->second;
    c->allocated.erase(it);
  }
  if (c->allocator.free) c->allocator.free(c->allocator.user, e->index, memory, bytes);
}

/// `queued`: returns when the copy is queued, else when it is done.
static TegulaStatus copy(const char *call, TegulaContext *c, int32_t device, int32_t direction, void *to,
                         const void *from, uint64_t bytes, void *stream, bool queued) {
  if ((!to || !from) && bytes) return fail(TEGULA_INVALID_ARGUMENT, std::string(call) + ": null argument");
  DeviceEntry *e = deviceOf(c, device, call);
  if (!e) return tegula_last_status();
  runtime::Device &d = *e->device;
  if (!queued && isRecording(*e, stream, call)) return TEGULA_INVALID_ARGUMENT;
  Status s;
  switch (direction) {
  case TEGULA_TO_DEVICE: s = queued ? d.queueCopyIn(to, from, bytes, stream) : d.copyIn(to, from, bytes, stream); break;
  case TEGULA_FROM_DEVICE:
    s = queued ? d.queueCopyOut(to, from, bytes, stream) : d.copyOut(to, from, bytes, stream);
    break;
  case TEGULA_WITHIN_DEVICE: {
    s = d.copyWithin(to, from, bytes, stream);
    runtime::LaunchOutcome outcome;
    if (s && !queued) return outcomeOf(d.synchronize(stream, outcome), outcome);
    break;
  }
  default: return fail(TEGULA_INVALID_ARGUMENT, std::string(call) + ": no such direction");
  }
  return statusOf(s);
}

TegulaStatus tegula_memory_copy(TegulaContext *c, int32_t device, int32_t direction, void *to, const void *from,
                                uint64_t bytes, void *stream) {
  return copy("tegula_memory_copy", c, device, direction, to, from, bytes, stream, false);
}

TegulaStatus tegula_memory_copy_async(TegulaContext *c, int32_t device, int32_t direction, void *to, const void *from,
                                      uint64_t bytes, void *stream) {
  return copy("tegula_memory_copy_async", c, device, direction, to, from, bytes, stream, true);
}

TegulaStatus tegula_memory_fill(TegulaContext *c, int32_t device, void *to, uint8_t value, uint64_t bytes,
                                void *stream) {
  if (!to && bytes) return fail(TEGULA_INVALID_ARGUMENT, "tegula_memory_fill: null argument");
  DeviceEntry *e = deviceOf(c, device, "tegula_memory_fill");
  return e ? statusOf(e->device->fill(to, value, bytes, stream)) : tegula_last_status();
}

TegulaStatus tegula_synchronize(TegulaContext *c, int32_t device, void *stream) {
  DeviceEntry *e = deviceOf(c, device, "tegula_synchronize");
  if (!e) return tegula_last_status();
  if (isRecording(*e, stream, "tegula_synchronize")) return TEGULA_INVALID_ARGUMENT;
  runtime::LaunchOutcome outcome;
  Status s = e->device->synchronize(stream, outcome);
  return outcomeOf(std::move(s), outcome);
}

// ---- streams

TegulaStatus tegula_stream_create(TegulaContext *c, int32_t device, TegulaStream **out) {
  if (!out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_stream_create: null argument");
  DeviceEntry *e = deviceOf(c, device, "tegula_stream_create");
  if (!e) return tegula_last_status();
  auto made = std::make_unique<TegulaStream>();
  made->context = Ref(c);
  made->entry = e;
  if (Status s = e->device->makeStream(&made->handle); !s) return fail(s);
  *out = made.release();
  return TEGULA_OK;
}
void tegula_stream_retain(TegulaStream *s) { retain(s); }
void tegula_stream_release(TegulaStream *s) { release(s); }
void *tegula_stream_handle(const TegulaStream *s) { return s ? s->handle : nullptr; }
int32_t tegula_stream_device(const TegulaStream *s) { return s ? s->entry->index : TEGULA_DEVICE_INDEX_CPU; }

// ---- graphs

TegulaStatus tegula_graph_begin(TegulaStream *s) {
  return s ? statusOf(s->entry->device->beginGraph(s->handle))
           : fail(TEGULA_INVALID_ARGUMENT, "tegula_graph_begin: null stream");
}

TegulaStatus tegula_graph_end(TegulaStream *s, TegulaGraph **out) {
  if (!s || !out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_graph_end: null argument");
  Status status;
  auto made = std::make_unique<TegulaGraph>();
  made->context = s->context;
  made->entry = s->entry;
  made->graph = s->entry->device->endGraph(s->handle, status);
  if (!made->graph) return fail(status);
  *out = made.release();
  return TEGULA_OK;
}
void tegula_graph_retain(TegulaGraph *g) { retain(g); }
void tegula_graph_release(TegulaGraph *g) { release(g); }
size_t tegula_graph_size(const TegulaGraph *g) { return g ? g->graph->operations() : 0; }

TegulaStatus tegula_graph_launch(TegulaGraph *g, void *stream) {
  if (!g) return fail(TEGULA_INVALID_ARGUMENT, "tegula_graph_launch: null graph");
  if (stream && g->entry->device->isRecording(stream))
    return fail(TEGULA_INVALID_ARGUMENT,
                "tegula_graph_launch: the stream records a graph; graphs do not go into graphs");
  runtime::LaunchOutcome outcome;
  Status s = g->graph->launch(stream, outcome);
  return outcomeOf(std::move(s), outcome);
}

// ---- events

TegulaStatus tegula_event_create(TegulaContext *c, int32_t device, TegulaEvent **out) {
  if (!out) return fail(TEGULA_INVALID_ARGUMENT, "tegula_event_create: null argument");
  DeviceEntry *e = deviceOf(c, device, "tegula_event_create");
  if (!e) return tegula_last_status();
  Status status;
  auto made = std::make_unique<TegulaEvent>();
  made->context = Ref(c);
  made->entry = e;
  made->event = e->device->event(status);
  if (!made->event) return fail(status);
  *out = made.release();
  return TEGULA_OK;
}
void tegula_event_retain(TegulaEvent *e) { retain(e); }
void tegula_event_release(TegulaEvent *e) { release(e); }

TegulaStatus tegula_event_record(TegulaEvent *e, void *stream) {
  if (e && isRecording(*e->entry, stream, "tegula_event_record")) return TEGULA_INVALID_ARGUMENT;
  return e ? statusOf(e->event->record(stream)) : fail(TEGULA_INVALID_ARGUMENT, "tegula_event_record: null event");
}
TegulaStatus tegula_event_query(TegulaEvent *e, int32_t *past) {
  if (!e || !past) return fail(TEGULA_INVALID_ARGUMENT, "tegula_event_query: null argument");
  bool isPast = false;
  Status s = e->event->isPast(isPast);
  *past = isPast;
  return statusOf(s);
}
TegulaStatus tegula_event_synchronize(TegulaEvent *e) {
  return e ? statusOf(e->event->wait()) : fail(TEGULA_INVALID_ARGUMENT, "tegula_event_synchronize: null event");
}
TegulaStatus tegula_event_wait(TegulaEvent *e, void *stream) {
  if (e && isRecording(*e->entry, stream, "tegula_event_wait")) return TEGULA_INVALID_ARGUMENT;
  return e ? statusOf(e->event->holdBack(stream)) : fail(TEGULA_INVALID_ARGUMENT, "tegula_event_wait: null event");
}
TegulaStatus tegula_event_elapsed(TegulaEvent *from, TegulaEvent *to, double *ns) {
  if (!from || !to || !ns) return fail(TEGULA_INVALID_ARGUMENT, "tegula_event_elapsed: null argument");
  if (from->entry->device != to->entry->device)
    return fail(TEGULA_INVALID_ARGUMENT, "tegula_event_elapsed: the events are of two devices");
  return statusOf(to->event->since(*from->event, *ns));
}
