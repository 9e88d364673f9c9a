// Devices, buffers, streams, events, typed kernels, what a context is given, failures as data: on cpu and sim, or `host DEVICE` on a card (there a fault ends the process's use of
// it, so it comes last), with launches in a CUDA graph.
#include "host.hpp"
#include <atomic>
#include <dlfcn.h>
#include <memory_resource>
#include <mutex>
#include <numeric>
#include <thread>

static const char *text = R"(
import triton, triton.language as tl
@triton.jit
def scale(x, out, f, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * f, mask=i < n)
@triton.jit
def bad(x, n):
    tl.device_assert(n > 5, "too small")
    tl.store(x, 1.0)
@triton.jit
def helper(x):
    return tl.load(x) + tl.zeros([4], tl.float32) + tl.zeros([8], tl.float32)
@triton.jit
def wrong(x):
    tl.store(x, helper(x))
)";

struct Counted : std::pmr::memory_resource {
  std::atomic<int> live{0}, given{0};
  void *do_allocate(size_t n, size_t a) override { return ++live, ++given, std::pmr::new_delete_resource()->allocate(n, a); }
  void do_deallocate(void *p, size_t n, size_t a) override { --live, std::pmr::new_delete_resource()->deallocate(p, n, a); }
  bool do_is_equal(const memory_resource &o) const noexcept override { return this == &o; }
};

/// A fault is told by who waits; what was queued behind it did not run.
static void faults(const Module &module, const Stream &s, Buffer<float> &x, Buffer<float> *behind) {
  LaunchOptions o(s);
  o.debug = 1;
  OK(module.kernel("bad").value()(1, {x, 3}, o));
  if (behind) OK(behind->fillBytes(0, s));
  Status st = s.synchronize();
  SAYS(st, "too small");
  CHECK(st.code() == TEGULA_FAULT && st.fault() && st.fault()->message == "too small" && st.fault()->kernel == "bad" && st.fault()->line == 9 && st.fault()->file == "t.py");
}

/// Launches that a CUDA graph records run when the graph does, and as often.
static void graphs(const Module &module, const Device &d, const Stream &s, const Buffer<float> &x) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  CHECK(driver);
  if (!driver) return;
  auto call = [&](const char *name, auto... arguments) {
    auto *f = reinterpret_cast<int (*)(decltype(arguments)...)>(dlsym(driver, name));
    return f ? f(arguments...) : -1;
  };
  void *graph = nullptr, *ready = nullptr;
  // Graphs are the driver's own business here, so the thread gets the context that ours is, too.
  void *current = nullptr;
  CHECK(call("cuDevicePrimaryCtxRetain", &current, 0) == 0 && call("cuCtxPushCurrent_v2", current) == 0);
  auto a = d.allocate<float>(x.size()).value();
  OK(a.copyFrom(x));
  Function scale = module.kernel("scale").value();
  const LaunchOptions o(s);
  auto twice = [&] { return scale(98, {a, a, 2.0, static_cast<int>(a.size()), 1024}, o); };
  OK(twice()); // compiled before a stream records
  OK(s.synchronize());
  CHECK(call("cuStreamBeginCapture_v2", s.handle(), 0) == 0);
  for (int i = 0; i < 3; ++i) OK(twice());
  CHECK(call("cuStreamEndCapture", s.handle(), &graph) == 0);
  OK(s.synchronize());
  CHECK(a.toVector().value()[7] == 14); // nothing of it ran yet
  CHECK(call("cuGraphInstantiateWithFlags", &ready, graph, 0ull) == 0);
  for (int i = 0; i < 2; ++i) CHECK(call("cuGraphLaunch", ready, s.handle()) == 0);
  OK(s.synchronize());
  CHECK(a.toVector().value()[7] == 14 * 64);
  CHECK(call("cuGraphExecDestroy", ready) == 0 && call("cuGraphDestroy", graph) == 0);
  CHECK(call("cuCtxPopCurrent_v2", &current) == 0 && call("cuDevicePrimaryCtxRelease_v2", 0) == 0);
}

/// Launches, copies and fills that a stream records are done when the graph is launched, and as often, on every device.
static void recordedGraphs(const Module &module, const Device &d, const Stream &s, bool card) {
  Function scale = module.kernel("scale").value(), wrong = module.kernel("wrong").value();
  const std::vector<float> ones(4096, 1.0f);
  std::vector<float> in = ones, back(4096);
  auto a = d.upload(ones).value();
  const LaunchOptions o(s);
  Stream other = d.stream().value();
  {
    Result<Graph> g = s.record([&] {
      for (int i = 0; i < 3; ++i)
        if (Status st = scale(4, {a, a, 2.0, 4096, 1024}, o); !st) return st;
      return a.copyTo(back, s);
    });
    OK(g.status());
    CHECK(g->size() == 4);
    OK(s.synchronize());
    CHECK(a.toVector().value()[7] == 1); // nothing of it ran yet
    OK(g->launch(s));
    OK(s.synchronize());
    CHECK(back[7] == 8);
    OK(g->launch(other));
    OK(other.synchronize());
    OK(g->launch());
    OK(d.synchronize());
    CHECK(back[7] == 512 && a.toVector().value()[4095] == 512);
  }
  // What cannot be recorded says so and leaves the stream as it was; so does what fails in the work.
  SAYS(s.record([&] { return s.synchronize(); }).status(), "nothing can be waited for");
  SAYS(s.record([&] { return d.event().value().record(s); }).status(), "nothing can be waited for");
  SAYS(s.record([&] { return wrong(1, {a}, o); }).status(), "incompatible dimensions");
  SAYS(s.record([&] { return s.record([] { return Status(); }).status(); }).status(), "records a graph already");
  Graph fill = s.record([&] { return a.fillBytes(0, s); }).value();
  SAYS(s.record([&] { return fill.launch(s); }).status(), "graphs do not go into graphs");
  OK(a.copyFrom(in));
  OK(fill.launch(s));
  OK(scale(4, {a, a, 2.0, 4096, 1024}, o));
  OK(s.synchronize());
  CHECK(a.toVector().value()[7] == 0);
  if (card) return;
  // A fault ends the graph and is told by who waits.
  LaunchOptions checked(s);
  checked.debug = 1;
  Graph bad = s.record([&] {
                 if (Status st = module.kernel("bad").value()(1, {a, 3}, checked); !st) return st;
                 return scale(4, {a, a, 0.0, 4096, 1024}, o);
               }).value();
  OK(a.copyFrom(in));
  SAYS(bad.launch(), "too small");
  OK(bad.launch(s));
  Status st = s.synchronize();
  SAYS(st, "too small");
  CHECK(st.fault() && st.fault()->kernel == "bad" && a.toVector().value()[7] == 1);
}

static void streams(const Context &context, const Module &module, const char *name) {
  Device d = context.device(name).value();
  CHECK(d.name() == name);
  std::vector<float> v(100000), r(v.size());
  std::iota(v.begin(), v.end(), 0.0f);
  Stream s = d.stream().value(), other = d.stream().value();
  auto x = d.upload(v, s).value();
  auto out = d.allocate<float>(v.size()).value();
  Event begin = d.event().value(), end = d.event().value();
  CHECK(end.isPast().value());
  OK(begin.record(s));
  auto f = context.function<void(const Buffer<float> &, Buffer<float> &, float, int)>("scale", {{"BLOCK", Value::of(1024)}}, s).value();
  for (int i = 0; i < 3; ++i) OK(f(Grid(98), x, out, 2.0f, static_cast<int>(v.size())));
  OK(end.record(s));
  OK(other.wait(end));
  OK(out.copyTo(r, other));
  OK(other.synchronize());
  bool right = true;
  for (size_t i = 0; i < r.size(); ++i) right &= r[i] == 2 * v[i];
  CHECK(right);
  CHECK(end.isPast().value() && end.since(begin).value() > 0);

  const bool card = d.name().starts_with("cuda");
  recordedGraphs(module, d, s, card);
  if (card) graphs(module, d, s, x);
  else {
    faults(module, s, x, &out);
    OK(s.synchronize());
    CHECK(out.toVector().value()[7] == 14);
  }
  OK(out.fillBytes(0, s));
  OK(s.synchronize());
  CHECK(out.toVector().value()[7] == 0);

  OK(out.copyFrom(x));
  CHECK(out.toVector().value()[7] == 7);
  SAYS(out.copyTo(std::span(r).first(5)), "they must be as many");
  OK(out.part(3, 5).copyTo(std::span(r).first(5)));
  CHECK(r[0] == 3);
  OK(module.kernel("scale").value()(1, {x.part(8, 4), out.part(16), 3.0, 4, 4}));
  CHECK(out.toVector().value()[17] == 27);
  const Buffer<float> &readOnly = out;
  SAYS(module.kernel("scale").value()(1, {x, readOnly, 3.0, 4, 4}), "read-only");
  // Memory that a stream still uses goes when it is done with it.
  { auto gone = d.upload(v, s).value(); OK(f(Grid(98), x, gone, 2.0f, static_cast<int>(v.size()))); }
  OK(s.synchronize());
  if (card) faults(module, s, x, nullptr);
}

static void typed(const Context &context) {
  Constants block{{"BLOCK", Value::of(64)}};
  SAYS((context.function<void(std::span<const float>, std::span<const float>, float, int)>("scale", block)).status(), "Cannot store to a constant pointer");
  SAYS((context.function<void(std::span<const float>, std::span<float>, float)>("scale", block)).status(), "the signature has 3 parameters, the kernel takes 4 at run time: x, out, f, n");
  SAYS((context.function<void(std::span<const float>, std::span<float>, float, int)>("scale")).status(), "the constexpr parameter `BLOCK` has no value");
  SAYS((context.function<void(std::span<const float>, std::span<float>, float, int)>("scale", {{"BLCK", Value::of(64)}})).status(), "BLOCK");
  SAYS((context.function<void(std::span<const float>, std::span<float>, float, int)>("scal", block)).status(), "no module of the context has a kernel `scal`");
  SAYS((context.function<void(std::span<const float>, float, float, int)>("scale", block)).status(), "store needs a pointer");
  SAYS((context.function<void(std::span<const float>, float, float, int)>("nowhere.py::scale", block)).status(), "nowhere.py");
  // Numbers are of the type that the signature says.
  auto f = context.function<void(std::span<const double>, std::span<double>, double, long long)>("scale", block).value();
  std::vector<double> a(100, 1.5), b(100);
  OK(f(Grid(2), a, b, 1.0 / 3, 100));
  CHECK(b[99] == 1.5 * (1.0 / 3));
  // Launches after the first of a kind look nothing up, and a number of another kind is no number of this one.
  auto lookups = [&] {
    TegulaCacheStat stat{};
    stat.size = sizeof stat;
    CHECK(tegula_cache_stat(context.get(), &stat) == TEGULA_OK);
    return stat.memory_hits;
  };
  const uint64_t before = lookups();
  for (int i = 0; i < 20; ++i) OK(f(Grid(2), a, b, i, 98 + i % 3));
  CHECK(lookups() == before);
  CHECK(b[97] == 1.5 * 19);
  OK(f(Grid(2), a, b, 2.0, 96));
  OK(f(Grid(2), a, b, 3.0, 1));
  CHECK(b[0] == 4.5 && b[1] == 3 && b[95] == 3 && b[97] == 1.5 * 19);
}

static void failures(const Module &module) {
  std::vector<float> x(8);
  Status s = module.kernel("wrong").value()(1, {x});
  CHECK(s.code() == TEGULA_COMPILE_ERROR && s.diagnostics().size() == 1);
  const std::vector<Message> &notes = s.diagnostics().at(0).notes;
  CHECK(notes.size() == 4 && notes[0].text == "shape [4]" && notes[2].text == "in `helper`, called from here" && notes[2].line == 16);
  Result<int> none = Status::error(TEGULA_NOT_FOUND, "gone");
  CHECK(none.or_else([](const Status &) { return Result<int>(3); }).value() == 3);
  CHECK(!none.transform([](int i) { return i + 1; }) && Result<int>(4).transform([](int i) { return std::to_string(i); }).value() == "4");
  CHECK(none.value_or(7) == 7 && none.status().message() == "gone");
}

int main(int argc, char **argv) {
  Counted memory;
  std::atomic<int> calls{0};
  std::mutex mutex;
  std::vector<std::string> said;
  auto threads = [&](uint32_t n, ContextOptions::Task task) {
    ++calls;
    std::vector<std::jthread> others;
    for (uint32_t i = 1; i < n; ++i) others.emplace_back([=] { task(i); });
    task(0);
  };
  auto log = [&](int severity, std::string_view s) {
    std::lock_guard lock(mutex);
    if (severity == TEGULA_REMARK) said.emplace_back(s);
  };
  ContextOptions options;
  if (argc == 1) options.allocator(memory); // of the CPU
  options.executor(threads).logger(log);
  options.num_threads = 3, options.cache_dir = "";
  {
    ContextOptions copy = options;
    Context context = Context::create(copy).value();
    Module module = context.loadText("t.py", text).value();
    typed(context);
    if (argc > 1) streams(context, module, argv[1]);
    else streams(context, module, "cpu"), streams(context, module, "sim");
    failures(module);
    CHECK(argc > 1 || memory.given > 5);
  }
  CHECK(memory.live == 0);
  CHECK(calls > 0);
  CHECK(!said.empty() && said[0].find("compiled `scale` for cpu:") == 0);
  if (!fails) std::printf("all right\n");
  return fails;
}
