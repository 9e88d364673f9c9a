// How the runtime talks to the CUDA driver, against a stand-in (FakeCuda.cpp): opening, refusing, loading, launching,
// failing.
#include "runtime/cuda/CudaKernel.h"
#include "FakeCuda.h"
#include "TestPaths.h"
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <thread>

using namespace tegula::runtime;
using namespace tegula::runtime::cuda;

namespace {

std::string libfakecuda() { return std::string(tegula::testBinaryDir) + "/lib/libfakecuda.so"; }

struct NoHooks final : LaunchHooks {
  void print(const std::string &) override {}
};

struct Cuda : testing::Test {
  fakecuda::FakeCuda *fake = nullptr;
  std::unique_ptr<const Driver> driver;
  Status status;

  void SetUp() override {
    void *library = dlopen(libfakecuda().c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    fake = reinterpret_cast<decltype(&fakeCuda)>(dlsym(library, "fakeCuda"))();
    reinterpret_cast<decltype(&fakeCudaReset)>(dlsym(library, "fakeCudaReset"))();
  }
  const Driver *open() {
    driver = Driver::open(libfakecuda(), status);
    return driver.get();
  }
  std::unique_ptr<CudaDevice> device(int ordinal = 0) {
    if (!driver && !open()) return nullptr;
    return CudaDevice::make(*driver, ordinal, status);
  }
  /// k(x: pointer at 0, n: i32 at 8): 12 bytes, record at 16.
  static KernelInfo info() {
    KernelInfo k;
    k.name = "add";
    k.symbol = "add_entry";
    k.args = {{"x", TEGULA_FP32, true, false, true, 0}, {"n", TEGULA_INT32, false, false, false, 8}};
    k.argBytes = 12;
    k.gpu.threads = 128;
    k.gpu.sharedBytes = 1024;
    SiteInfo site;
    site.file = "k.py", site.function = "add", site.text = "n is positive", site.line = 7, site.column = 3;
    k.sites.push_back(site);
    return k;
  }
  static KernelInfo otherKernel() {
    KernelInfo k = info();
    k.name = "other";
    return k;
  }
  /// Of a launch that was made.
  TegulaGpuRecord &recordOf(size_t launch) {
    void *record;
    std::memcpy(&record, fake->launches.at(launch).arguments.data() + 16, 8);
    return *static_cast<TegulaGpuRecord *>(record);
  }
  std::unique_ptr<Executable> load(CudaDevice &d, const KernelInfo &k = info()) {
    static constexpr char ptx[] = ".version 8.0\n.visible .entry add_entry()\n{\nret;\n}\n";
    return d.load(k, {ptx, sizeof ptx}, status);
  }
  Status launch(const Executable &e, const void *x, int n, int gx = 4, int gy = 1, void *stream = nullptr) {
    char block[12 + argRoom];
    std::memcpy(block, &x, 8);
    std::memcpy(block + 8, &n, 4);
    NoHooks hooks;
    LaunchCall call{{gx, gy, 1}, int64_t(gx) * gy, block, nullptr, 1, stream, &hooks};
    outcome = {};
    return e.launch(call, outcome);
  }
  LaunchOutcome outcome;
};

bool has(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

TEST_F(Cuda, NoDriver) {
  EXPECT_EQ(Driver::open("/nonexistent/libcuda.so.1", status), nullptr);
  EXPECT_EQ(status.code, TEGULA_NOT_FOUND);
  EXPECT_TRUE(has(status.text, "no NVIDIA driver found")) << status.text;
  EXPECT_EQ(Driver::open("libm.so.6", status), nullptr);
  EXPECT_TRUE(has(status.text, "is no NVIDIA driver")) << status.text;
}

TEST_F(Cuda, OldDriver) {
  fake->version = 11040;
  EXPECT_EQ(open(), nullptr);
  EXPECT_EQ(status.code, TEGULA_UNSUPPORTED);
  EXPECT_EQ(status.text, "the NVIDIA driver supports CUDA 11.4; tegula needs a driver for CUDA 12.0 or later");
}

TEST_F(Cuda, NoGpu) {
  fake->initResult = CUDA_ERROR_NO_DEVICE;
  EXPECT_EQ(open(), nullptr);
  EXPECT_EQ(status.code, TEGULA_NOT_FOUND);
  fake->initResult = 0, fake->deviceCount = 0;
  EXPECT_EQ(open(), nullptr);
  EXPECT_EQ(status.text, "the NVIDIA driver finds no GPU");
}

TEST_F(Cuda, OldGeneration) {
  fake->capability = 70;
  auto d = device();
  ASSERT_TRUE(d) << status.text;
  EXPECT_EQ(load(*d), nullptr);
  EXPECT_EQ(status.code, TEGULA_UNSUPPORTED);
  EXPECT_EQ(status.text, "cuda:0 (Fake H200, compute capability 7.0) is too old: tegula needs 8.0 (Ampere) or later");
}

TEST_F(Cuda, Properties) {
  auto d = device();
  ASSERT_TRUE(d);
  EXPECT_EQ(d->properties().name, "cuda:0");
  EXPECT_EQ(d->properties().description, "Fake H200");
  EXPECT_EQ(d->properties().capability, 90u);
  EXPECT_EQ(d->properties().cores, 132u);
}

TEST_F(Cuda, Memory) {
  auto d = device();
  void *m = nullptr;
  ASSERT_TRUE(d->allocate(100, &m));
  char in[100], out[100] = {};
  for (int i = 0; i < 100; ++i) in[i] = static_cast<char>(i);
  ASSERT_TRUE(d->copyIn(m, in, 100, nullptr));
  ASSERT_TRUE(d->copyOut(out, m, 100, nullptr));
  EXPECT_EQ(std::memcmp(in, out, 100), 0);
  d->free(m);
  fake->usedMiB = 1024;
  uint64_t available = 0;
  ASSERT_TRUE(d->availableBytes(available));
  EXPECT_EQ(available, uint64_t(127) << 30);
  fake->usedMiB = 0;
  fake->allocateResult = CUDA_ERROR_OUT_OF_MEMORY;
  Status s = d->allocate(1 << 20, &m);
  EXPECT_EQ(s.code, TEGULA_OUT_OF_RESOURCES);
  EXPECT_TRUE(has(s.text, "allocating 1048576 bytes on cuda:0 failed: CUDA_ERROR_OUT_OF_MEMORY") &&
              has(s.text, "; 137438953472 of 137438953472 bytes are free"))
      << s.text;
  EXPECT_EQ(s.shortage.required, 1048576u);
}

TEST_F(Cuda, PacksArgumentsAndRecord) {
  auto d = device();
  auto k = load(*d);
  ASSERT_TRUE(k) << status.text;
  void *x = nullptr;
  ASSERT_TRUE(d->allocate(4096, &x));
  auto *stream = reinterpret_cast<void *>(0x77);
  ASSERT_TRUE(launch(*k, x, 5, 7, 3, stream));
  ASSERT_EQ(fake->launches.size(), 1u);
  const fakecuda::Launch &l = fake->launches[0];
  EXPECT_EQ(l.function, "add_entry");
  EXPECT_EQ(l.config.gridX, 7u);
  EXPECT_EQ(l.config.gridY, 3u);
  EXPECT_EQ(l.config.gridZ, 1u);
  EXPECT_EQ(l.config.blockX, 128u);
  EXPECT_EQ(l.config.sharedBytes, 1024u);
  EXPECT_EQ(static_cast<void *>(l.config.stream), stream);
  EXPECT_EQ(l.attributes.size(), 0u);
  EXPECT_NE(l.context, nullptr);
  ASSERT_EQ(l.arguments.size(), 24u);
  void *pointer, *record;
  int n;
  std::memcpy(&pointer, l.arguments.data(), 8);
  std::memcpy(&n, l.arguments.data() + 8, 4);
  std::memcpy(&record, l.arguments.data() + 16, 8);
  EXPECT_EQ(pointer, x);
  EXPECT_EQ(n, 5);
  TegulaGpuRecord zero{};
  EXPECT_EQ(std::memcmp(record, &zero, sizeof zero), 0);
  EXPECT_EQ(fake->functionAttributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES], 1024);
  CUcontext current;
  driver->contextGetCurrent(&current);
  EXPECT_EQ(current, nullptr) << "the caller's context stays as it was";
  d->free(x);
}

TEST_F(Cuda, LaunchAsksTheDriverOnceForAnAllocation) {
  auto d = device();
  auto k = load(*d);
  void *x = nullptr;
  ASSERT_TRUE(d->allocate(8 << 20, &x));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(launch(*k, static_cast<char *>(x) + 16 * i, i));
  EXPECT_EQ(fake->pointerQueries, 1);
  EXPECT_EQ(fake->waits, 0);
  int before = fake->allocations;
  ASSERT_TRUE(launch(*k, nullptr, 1)) << "null may be passed";
  EXPECT_EQ(fake->allocations, before);
  d->free(x);
  EXPECT_FALSE(d->accessible(reinterpret_cast<uint64_t>(x))) << "what was freed is forgotten";
}

TEST_F(Cuda, TensorMapsComeBehindTheArguments) {
  auto d = device();
  ASSERT_TRUE(d) << status.text;
  KernelInfo k = info();
  // Rows of n floats in blocks of 8 x 32.
  k.tensorMaps.push_back({TEGULA_FP32, false, 128, {0}, {{-1, 100}, {1}}, {{1}, {-1, 1}}, {8, 32}});
  auto e = load(*d, k);
  ASSERT_TRUE(e) << status.text;
  void *x = nullptr;
  ASSERT_TRUE(d->allocate(4096, &x));
  fake->parameterSizes = {8, 4, 128, 8}; // one by one: where an aligned one lies is the driver's business
  for (int n : {64, 64, 128, 64}) ASSERT_TRUE(launch(*e, x, n)) << status.text;
  EXPECT_EQ(fake->mapsEncoded, 2) << "an equal descriptor is encoded once";
  ASSERT_EQ(fake->launches.size(), 4u);
  const auto &bytes = fake->launches.back().arguments;
  ASSERT_EQ(bytes.size(), 8u + 4 + 128 + 8);
  uint64_t words[3], record;
  std::memcpy(words, bytes.data() + 12, sizeof words);
  std::memcpy(&record, bytes.data() + 140, 8);
  EXPECT_EQ(words[0], reinterpret_cast<uint64_t>(x));
  EXPECT_EQ(words[1], 2u);
  EXPECT_EQ(words[2], 32u) << "the innermost dimension comes first";
  EXPECT_NE(record, 0u);
  Status s = launch(*e, x, 3);
  EXPECT_EQ(s.code, TEGULA_INVALID_ARGUMENT);
  EXPECT_NE(s.text.find("descriptor of `x`"), std::string::npos) << s.text;
  EXPECT_NE(s.text.find("multiple of 16"), std::string::npos) << s.text;
  d->free(x);
}

TEST_F(Cuda, ClusterCooperativeProgrammatic) {
  auto d = device();
  KernelInfo i = info();
  i.gpu.clusterCtas = 16;
  i.gpu.cooperative = i.gpu.programmaticLaunch = true;
  auto k = load(*d, i);
  ASSERT_TRUE(k) << status.text;
  EXPECT_EQ(fake->functionAttributes[CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED], 1);
  ASSERT_TRUE(launch(*k, nullptr, 1, 5));
  const fakecuda::Launch &l = fake->launches.at(0);
  EXPECT_EQ(l.config.gridX, 80u) << "one cluster a program";
  ASSERT_EQ(l.attributes.size(), 3u);
  EXPECT_EQ(l.attributes[0].id, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  EXPECT_EQ(l.attributes[0].value.cluster.x, 16u);
  EXPECT_EQ(l.attributes[1].id, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  EXPECT_EQ(l.attributes[2].id, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  EXPECT_EQ(l.attributes[2].value.flag, 1);
  fake->clustersThatFit = 0;
  EXPECT_EQ(load(*d, i), nullptr);
  EXPECT_EQ(status.code, TEGULA_OUT_OF_RESOURCES);
  EXPECT_EQ(
      status.text,
      "`add` needs clusters of 16 blocks with 1024 bytes of shared memory each; cuda:0 has no room for one. A smaller num_ctas helps");
  fake->capability = 80;
  auto old = device();
  EXPECT_EQ(load(*old, i), nullptr);
  EXPECT_EQ(status.code, TEGULA_UNSUPPORTED);
  // Kernels of a stream do not overlap before sm_90: the option changes nothing there.
  i.gpu.clusterCtas = 1;
  i.gpu.cooperative = false;
  auto alone = load(*old, i);
  ASSERT_TRUE(alone) << status.text;
  ASSERT_TRUE(launch(*alone, nullptr, 1));
  EXPECT_EQ(fake->launches.back().attributes.size(), 0u);
}

/// Shared memory is cut to the least that has room for that many blocks, and each takes an equal part of it.
TEST_F(Cuda, MostBlocks) {
  auto d = device();
  KernelInfo i = info();
  const auto sharedWith = [&](uint8_t blocks, uint32_t needs) {
    i.gpu.mostBlocks = blocks, i.gpu.sharedBytes = needs;
    fake->functionAttributes.erase(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
    auto k = load(*d, i);
    EXPECT_TRUE(k) << status.text;
    EXPECT_EQ(k->use().sharedBytes, needs) << "what it needs, not what keeps others away";
    EXPECT_TRUE(launch(*k, nullptr, 1));
    EXPECT_EQ(fake->functionAttributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES],
              static_cast<int>(fake->launches.back().config.sharedBytes));
    return fake->launches.back().config.sharedBytes;
  };
  EXPECT_EQ(sharedWith(2, 128), 128u) << "no more have room";
  EXPECT_FALSE(fake->functionAttributes.contains(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT));
  fake->blocksThatFit = 9;
  EXPECT_EQ(sharedWith(2, 128), (4u << 10) - 1024);
  EXPECT_EQ(fake->functionAttributes[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT], 3) << "8 KiB of 228";
  EXPECT_EQ(sharedWith(3, 1024), 10880u - 1024) << "32 KiB";
  EXPECT_EQ(sharedWith(3, 48 << 10), 55936u - 1024) << "164 KiB";
  EXPECT_EQ(fake->functionAttributes[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT], 71);
  EXPECT_EQ(sharedWith(2, 120000), 120000u) << "two have no room anyway";
  EXPECT_FALSE(fake->functionAttributes.contains(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT));
  i.gpu.cooperative = true;
  EXPECT_EQ(sharedWith(2, 128), 128u) << "all of its blocks have to be there";
  EXPECT_FALSE(fake->functionAttributes.contains(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT));
  i.gpu.cooperative = false;
  EXPECT_EQ(sharedWith(0, 128), 128u);
  EXPECT_FALSE(fake->functionAttributes.contains(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT));
}

TEST_F(Cuda, TooMuch) {
  auto d = device();
  KernelInfo i = info();
  i.gpu.sharedBytes = 300000;
  EXPECT_EQ(load(*d, i), nullptr);
  EXPECT_EQ(status.code, TEGULA_OUT_OF_RESOURCES);
  EXPECT_EQ(
      status.text,
      "out of resource: shared memory, Required: 300000, Hardware limit: 232448. `add` needs 300000 bytes per block, cuda:0 (Fake "
      "H200, compute capability 9.0) has 232448. Smaller blocks or a smaller num_stages help");
  EXPECT_STREQ(status.shortage.name, "shared memory");
  EXPECT_EQ(status.shortage.required, 300000u);
  EXPECT_EQ(status.shortage.limit, 232448u);
  i.gpu.tiles = {{200000, "dot", "k.py", 9, 5}, {100000, "convert", "k.py", 7, 5}};
  EXPECT_EQ(load(*d, i), nullptr);
  EXPECT_TRUE(has(status.text, "most of it, 200000 bytes, is for the tile of k.py:9:5. Smaller")) << status.text;
  i = info();
  i.gpu.threads = 512;
  fake->maxThreads = 256, fake->registers = 200;
  EXPECT_EQ(load(*d, i), nullptr);
  EXPECT_TRUE(has(status.text, "takes 200 registers in each of 512 threads; cuda:0 runs at most 256")) << status.text;
  EXPECT_EQ(fake->modulesAlive, 0) << "what failed is unloaded";
  fake->maxThreads = 1024, fake->localBytes = 48;
  auto k = load(*d);
  ASSERT_TRUE(k);
  EXPECT_EQ(k->use().registers, 200u);
  EXPECT_EQ(k->use().spillBytes, 48u);
  EXPECT_EQ(k->use().sharedBytes, 1024u);
  EXPECT_EQ(k->use().blocksPerCore, 2u);
  Status s = launch(*k, nullptr, 1, 1, 70000);
  EXPECT_EQ(s.code, TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(s.text, "`add`: the grid is 1 x 70000 x 1; GPUs take at most 2147483647 x 65535 x 65535");
}

TEST_F(Cuda, WrongPointers) {
  fake->deviceCount = 2;
  auto d0 = device(0), d1 = device(1);
  auto k = load(*d0);
  float cpu[4];
  Status s = launch(*k, cpu, 4);
  EXPECT_EQ(s.code, TEGULA_INVALID_ARGUMENT);
  EXPECT_EQ(s.text, "`add`: argument `x` points to CPU memory, which cuda:0 cannot access");
  void *other = nullptr;
  ASSERT_TRUE(d1->allocate(64, &other));
  s = launch(*k, other, 4);
  EXPECT_EQ(s.text,
            "`add`: argument `x` points to memory of cuda:1; the kernel runs on cuda:0, which cannot access it");
  EXPECT_TRUE(fake->launches.empty());
  d1->free(other);
}

TEST_F(Cuda, AssemblerErrors) {
  auto d = device();
  fake->loadResult = CUDA_ERROR_INVALID_PTX;
  fake->loadLog = "ptxas application ptx input, line 2; error   : Unknown symbol 'q'\n";
  EXPECT_EQ(load(*d), nullptr);
  EXPECT_TRUE(has(status.text, "loading `add` on cuda:0 failed: CUDA_ERROR_INVALID_PTX")) << status.text;
  EXPECT_TRUE(has(status.text, "Unknown symbol 'q'")) << status.text;
  EXPECT_TRUE(has(status.text, "2 | .visible .entry add_entry()")) << status.text;
  fake->loadResult = 0;
  KernelInfo i = info();
  i.symbol = "other";
  EXPECT_EQ(load(*d, i), nullptr);
  EXPECT_TRUE(has(status.text, "finding its entry point `other`")) << status.text;
}

TEST_F(Cuda, AssertNamesKernelAndLine) {
  auto d = device();
  auto k = load(*d);
  ASSERT_TRUE(launch(*k, nullptr, 1));
  void *record;
  std::memcpy(&record, fake->launches.at(0).arguments.data() + 16, 8);
  *static_cast<TegulaGpuRecord *>(record) = {1, TEGULA_FAULT_ASSERT, 0, {3, 0, 1}, {}};
  fake->waitResult = CUDA_ERROR_LAUNCH_FAILED;
  Status s = d->synchronize(nullptr, outcome);
  EXPECT_EQ(s.code, TEGULA_FAULT);
  EXPECT_TRUE(has(
      s.text, "k.py:7:3: error: device-side assertion failed: n is positive in program (3, 0, 1) of `add` on cuda:0"))
      << s.text;
  ASSERT_TRUE(outcome.culprit);
  EXPECT_EQ(outcome.culprit->name, "add");
  EXPECT_EQ(outcome.fault.pid[0], 3);
  // The next launch tells the same, and so does one of another kernel after the failed one is gone.
  fake->launchResult = CUDA_ERROR_LAUNCH_FAILED;
  auto other = load(*d);
  k.reset();
  s = launch(*other, nullptr, 1);
  EXPECT_TRUE(has(s.text, "n is positive")) << s.text;
}

TEST_F(Cuda, TrapNamesTheKernelsLaunchedLast) {
  auto d = device();
  auto k = load(*d);
  ASSERT_TRUE(launch(*k, nullptr, 1));
  fake->waitResult = CUDA_ERROR_ILLEGAL_ADDRESS;
  Status s = d->synchronize(nullptr, outcome);
  EXPECT_EQ(s.code, TEGULA_FAULT);
  EXPECT_TRUE(has(s.text, "stopped with CUDA_ERROR_ILLEGAL_ADDRESS") &&
              has(s.text, "launched last (latest first): `add`"))
      << s.text;
  EXPECT_FALSE(outcome.culprit);
}

TEST_F(Cuda, LaunchErrors) {
  auto d = device();
  auto k = load(*d);
  fake->launchResult = CUDA_ERROR_INVALID_HANDLE;
  Status s = launch(*k, nullptr, 1, 1, 1, reinterpret_cast<void *>(8));
  EXPECT_EQ(s.code, TEGULA_INVALID_ARGUMENT);
  EXPECT_TRUE(has(s.text, "launching `add` on cuda:0 failed: CUDA_ERROR_INVALID_HANDLE") &&
              has(s.text, "stream of another device"))
      << s.text;
  fake->launchResult = CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  s = launch(*k, nullptr, 1);
  EXPECT_EQ(s.code, TEGULA_OUT_OF_RESOURCES);
  EXPECT_TRUE(has(s.text, "at most 264 blocks")) << s.text;
}

TEST_F(Cuda, ManyThreads) {
  auto d = device();
  auto shared = load(*d);
  ASSERT_TRUE(shared);
  std::vector<std::jthread> threads;
  std::atomic<int> bad{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      Status s;
      NoHooks hooks;
      static constexpr char ptx[] = "add_entry";
      for (int i = 0; i < 50; ++i) {
        void *x = nullptr;
        if (!d->allocate(256, &x)) ++bad;
        auto own = d->load(info(), {ptx, sizeof ptx}, s);
        for (const Executable *e :
             {static_cast<const Executable *>(own.get()), static_cast<const Executable *>(shared.get())}) {
          char block[12 + argRoom] = {};
          std::memcpy(block, &x, 8);
          LaunchCall call{{1, 1, 1}, 1, block, nullptr, 1, nullptr, &hooks};
          LaunchOutcome o;
          if (!e || !e->launch(call, o)) ++bad;
        }
        d->free(x);
      }
    });
  threads.clear();
  EXPECT_EQ(bad, 0);
  EXPECT_EQ(fake->modulesAlive, 1);
}

TEST_F(Cuda, StreamsAndEvents) {
  auto d = device();
  ASSERT_TRUE(d) << status.text;
  void *stream = nullptr, *x = nullptr;
  ASSERT_TRUE(d->makeStream(&stream));
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(fake->streamsAlive, 1);
  EXPECT_EQ(d->hostStream(stream), nullptr);
  ASSERT_TRUE(d->allocate(8, &x));
  uint64_t value = 77, back = 0;
  int waits = fake->waits;
  ASSERT_TRUE(d->queueCopyIn(x, &value, 8, stream));
  ASSERT_TRUE(d->queueCopyOut(&back, x, 8, stream));
  EXPECT_EQ(fake->waits, waits);
  std::unique_ptr<Event> a = d->event(status), b = d->event(status);
  ASSERT_TRUE(a && b) << status.text;
  bool past = false;
  double ns = 0;
  EXPECT_TRUE(a->record(stream) && b->record(nullptr) && a->holdBack(nullptr) && a->wait() && a->isPast(past) &&
              b->since(*a, ns));
  EXPECT_TRUE(past);
  d->free(x);
  d->endStream(stream);
  EXPECT_EQ(fake->streamsAlive, 0);
  EXPECT_EQ(fake->waits, waits + 1);
}

TEST_F(Cuda, Graphs) {
  auto d = device();
  ASSERT_TRUE(d) << status.text;
  std::unique_ptr<Executable> k = load(*d);
  ASSERT_TRUE(k) << status.text;
  void *x = nullptr;
  ASSERT_TRUE(d->allocate(64, &x));
  {
    std::unique_ptr<Recorder> r = d->recorder(status);
    ASSERT_TRUE(r) << status.text;
    ASSERT_NE(r->stream(), nullptr);
    EXPECT_EQ(fake->streamsAlive, 1);
    size_t operations = 7;
    auto twice = [&]() -> Status {
      if (Status s = d->fill(x, 3, 64, r->stream()); !s) return s;
      for (int n : {5, 6})
        if (Status s = launch(*k, x, n, 4, 1, r->stream()); !s) return s;
      return Status::ok();
    };
    ASSERT_TRUE(r->record(0, twice, operations));
    EXPECT_EQ(operations, 3u);
    EXPECT_TRUE(fake->launches.empty());
    EXPECT_NE(*static_cast<char *>(x), 3);
    ASSERT_TRUE(r->launch(0));
    ASSERT_TRUE(r->launch(0));
    ASSERT_EQ(fake->launches.size(), 4u);
    EXPECT_EQ(fake->launches[3].arguments[8], 6); // as they were when it was recorded
    EXPECT_EQ(*static_cast<char *>(x), 3);
    // Nothing is no graph, and launching it is nothing.
    ASSERT_TRUE(r->record(1, [] { return Status::ok(); }, operations));
    EXPECT_EQ(operations, 0u);
    EXPECT_TRUE(r->launch(1));
    EXPECT_EQ(fake->graphLaunches, 2);
    EXPECT_EQ(fake->graphsAlive, 1);
    // In place of what was there.
    ASSERT_TRUE(r->record(0, [&] { return launch(*k, x, 9, 4, 1, r->stream()); }, operations));
    EXPECT_EQ(fake->graphsAlive, 1);
  }
  EXPECT_EQ(fake->graphsAlive, 0);
  EXPECT_EQ(fake->streamsAlive, 0);
  d->free(x);
}

/// Of a stream of the user's, by the device's own calls.
TEST_F(Cuda, GraphsOfStreams) {
  auto d = device();
  ASSERT_TRUE(d) << status.text;
  int before = fake->modulesAlive;
  std::unique_ptr<Executable> k = load(*d);
  void *x = nullptr, *stream = nullptr;
  ASSERT_TRUE(d->allocate(64, &x) && d->makeStream(&stream));
  EXPECT_EQ(d->beginGraph(nullptr).text, "the default stream records no graph; make a stream for it");
  EXPECT_EQ(d->endGraph(stream, status), nullptr);
  EXPECT_EQ(status.text, "the stream records no graph");
  ASSERT_TRUE(d->beginGraph(stream));
  EXPECT_TRUE(d->isRecording(stream) && !d->isRecording(nullptr));
  EXPECT_EQ(d->beginGraph(stream).text, "the stream records a graph already");
  ASSERT_TRUE(d->fill(x, 3, 64, stream) && launch(*k, x, 5, 4, 1, stream));
  EXPECT_TRUE(fake->launches.empty());
  std::unique_ptr<Graph> g = d->endGraph(stream, status);
  ASSERT_TRUE(g) << status.text;
  EXPECT_FALSE(d->isRecording(stream));
  EXPECT_EQ(g->operations(), 2u);
  for (void *on : {stream, static_cast<void *>(nullptr)}) ASSERT_TRUE(g->launch(on, outcome));
  ASSERT_EQ(fake->launches.size(), 2u);
  EXPECT_EQ(fake->launches[1].arguments[8], 5);
  // The graph may be launched after its kernels are gone for everybody else.
  k.reset();
  EXPECT_EQ(fake->modulesAlive, before + 1);
  fake->launchResult = 0;
  ASSERT_TRUE(g->launch(stream, outcome));
  // Nothing is a graph too; what the driver refuses is told, and the stream records the next time.
  ASSERT_TRUE(d->beginGraph(stream));
  std::unique_ptr<Graph> empty = d->endGraph(stream, status);
  ASSERT_TRUE(empty && empty->operations() == 0 && empty->launch(stream, outcome));
  EXPECT_EQ(fake->graphLaunches, 3);
  ASSERT_TRUE(d->beginGraph(stream) && d->fill(x, 3, 64, stream));
  fake->graphResult = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(d->endGraph(stream, status), nullptr);
  EXPECT_TRUE(has(status.text, "recording a CUDA graph on cuda:0")) << status.text;
  fake->graphResult = 0;
  ASSERT_TRUE(d->beginGraph(stream));
  d->endStream(stream); // in the middle of a recording
  EXPECT_EQ(fake->streamsAlive, 0);
  g.reset();
  EXPECT_EQ(fake->graphsAlive, 0);
  d->free(x);
}

/// The code of a kernel that somebody's graph may launch stays; a recorder's graphs end before their kernels.
TEST_F(Cuda, CodeInGraphsOfOthersStays) {
  auto d = device();
  ASSERT_TRUE(d) << status.text;
  const Driver &driver = d->driver();
  void *x = nullptr;
  ASSERT_TRUE(d->allocate(64, &x));
  CUstream stream = nullptr;
  ASSERT_EQ(driver.streamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  int before = fake->modulesAlive;
  std::unique_ptr<Executable> k = load(*d);
  ASSERT_TRUE(launch(*k, x, 5, 4, 1, stream));
  k.reset();
  EXPECT_EQ(fake->modulesAlive, before);
  k = load(*d);
  std::unique_ptr<Recorder> r = d->recorder(status);
  size_t operations = 0;
  ASSERT_TRUE(r->record(0, [&] { return launch(*k, x, 5, 4, 1, r->stream()); }, operations));
  r.reset();
  k.reset();
  EXPECT_EQ(fake->modulesAlive, before);
  k = load(*d);
  ASSERT_EQ(driver.streamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  ASSERT_TRUE(launch(*k, x, 5, 4, 1, stream));
  CUgraph graph = nullptr;
  ASSERT_EQ(driver.streamEndCapture(stream, &graph), CUDA_SUCCESS);
  k.reset();
  EXPECT_EQ(fake->modulesAlive, before + 1);
  // Its record stays, too: a fault in the graph is not blamed on a kernel that was loaded later.
  k = load(*d, otherKernel());
  size_t first = fake->launches.size();
  CUgraphExec exec = nullptr;
  ASSERT_EQ(driver.graphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(driver.graphLaunch(exec, stream), CUDA_SUCCESS);
  recordOf(first) = {1, TEGULA_FAULT_ASSERT, 0, {3, 0, 1}, {}};
  fake->waitResult = CUDA_ERROR_LAUNCH_FAILED;
  Status s = d->synchronize(stream, outcome);
  EXPECT_TRUE(has(s.text, "n is positive in program (3, 0, 1) of `add` on cuda:0")) << s.text;
  driver.graphExecDestroy(exec);
  driver.graphDestroy(graph);
  driver.streamDestroy(stream);
  d->free(x);
}

/// Unloading waits for what runs, which may still fail.
TEST_F(Cuda, FaultWhileUnloading) {
  auto d = device();
  auto k = load(*d);
  ASSERT_TRUE(launch(*k, nullptr, 1));
  fake->unloading = [this] { recordOf(0) = {1, TEGULA_FAULT_ASSERT, 0, {3, 0, 1}, {}}; };
  k.reset();
  fake->unloading = nullptr;
  k = load(*d, otherKernel());
  fake->waitResult = CUDA_ERROR_LAUNCH_FAILED;
  Status s = d->synchronize(nullptr, outcome);
  EXPECT_TRUE(has(s.text, "n is positive in program (3, 0, 1) of `add` on cuda:0")) << s.text;
}

/// Whatever goes wrong, the stream records the next time.
TEST_F(Cuda, GraphsThatFail) {
  auto d = device();
  ASSERT_TRUE(d);
  std::unique_ptr<Recorder> r = d->recorder(status);
  void *x = nullptr;
  ASSERT_TRUE(d->allocate(64, &x));
  size_t operations = 0;
  auto fill = [&] { return d->fill(x, 3, 64, r->stream()); };
  Status s = r->record(
      0, [&]() -> Status { return (void)fill(), Status::error(TEGULA_INVALID_ARGUMENT, "a reason"); }, operations);
  EXPECT_EQ(s.text, "a reason");
  EXPECT_EQ(operations, 0u);
  EXPECT_TRUE(r->launch(0));
  EXPECT_EQ(fake->graphLaunches, 0);
  // The work waits for the stream, which breaks the capture.
  auto waits = [&]() -> Status { return d->synchronize(r->stream(), outcome); };
  s = r->record(0, waits, operations);
  EXPECT_TRUE(has(s.text, "waiting for cuda:0")) << s.text;
  EXPECT_TRUE(has(s.text, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED")) << s.text;
  // It hides that.
  s = r->record(0, [&]() -> Status { return (void)waits(), fill(); }, operations);
  EXPECT_TRUE(has(s.text, "recording a CUDA graph on cuda:0")) << s.text;
  for (int *result : {&fake->captureResult, &fake->graphResult}) {
    *result = CUDA_ERROR_OUT_OF_MEMORY;
    s = r->record(0, fill, operations);
    EXPECT_TRUE(has(s.text, "recording a CUDA graph on cuda:0")) << s.text;
    EXPECT_EQ(operations, 0u);
    *result = 0;
  }
  ASSERT_TRUE(r->record(0, fill, operations));
  EXPECT_EQ(operations, 1u);
  EXPECT_EQ(fake->graphsAlive, 1);
  d->free(x);
}

} // namespace
