// Kernels compiled for the GPU and executed by the simulator: the same memory as the reference interpreter, no fault.
#include "RandomKernel.h"
#include "ir/Interp.h"
#include "ir/Text.h"
#include "runtime/ObjectLoader.h"
#include "sim/Machine.h"
#include "targets/nvidia/Nvidia.h"
#include <cstring>
#include <gtest/gtest.h>

using namespace tegula;
using namespace tegula::ir;
using tegula::test::elements;
using tegula::test::RandomKernel;

namespace {

struct SimKernel {
  nvidia::GpuKernel compiled;
  std::unique_ptr<runtime::LoadedObject> object;
  TegulaSimEntry entry = nullptr;
  std::string error;

  SimKernel(const Module &m, unsigned warps) {
    nvidia::NvOptions options;
    options.numWarps = warps;
    DiagEngine diag;
    if (auto k = nvidia::compile(m, *nvidia::parseTarget("sim"), options, diag)) {
      compiled = std::move(*k);
      runtime::Status status;
      object = runtime::LoadedObject::load(compiled.code, status);
      if (object)
        entry = reinterpret_cast<TegulaSimEntry>(object->symbol(compiled.meta.symbol));
      error = status.text;
    }
    for (const Diagnostic &d : diag.all())
      error += d.message() + "\n";
  }

  sim::Report run(std::span<const uint64_t> args, std::span<const sim::Extent> buffers, std::array<int32_t, 3> grid = {1, 1, 1}) {
    std::vector<char> block(compiled.meta.argBytes + 8);
    for (size_t i = 0; i < args.size(); ++i) {
      const targets::ArgSlot &s = compiled.meta.args[i];
      std::memcpy(block.data() + s.offset, &args[i], s.type.isPtr ? 8 : byteWidth(s.type.elem));
    }
    sim::LaunchConfig c;
    c.entry = entry;
    c.args = block.data();
    c.grid = grid;
    c.threads = compiled.meta.threads;
    c.sharedBytes = compiled.meta.sharedBytes;
    c.buffers = buffers;
    return sim::launch(c);
  }
};

struct Memory {
  std::vector<int32_t> a, o;
  explicit Memory(uint64_t seed) : a(elements), o(elements) {
    for (size_t i = 0; i < elements; ++i) {
      a[i] = static_cast<int32_t>(i * i * 31 + seed) % 300;
      o[i] = static_cast<int32_t>(i);
    }
  }
  std::array<uint64_t, 4> args(uint64_t seed) {
    return {reinterpret_cast<uint64_t>(a.data()), reinterpret_cast<uint64_t>(o.data()), 100 + seed % 120, 3};
  }
};

} // namespace

TEST(GpuKernels, RandomKernelsGiveTheSameMemoryAsTheInterpreter) {
  uint64_t first = 0, count = 60;
  if (const char *s = std::getenv("TEGULA_RANDOM_SEED"))
    first = std::strtoull(s, nullptr, 10), count = 1;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Module m;
    RandomKernel generate(m, seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    Memory want(seed), got(seed);
    Interp interp(m);
    interp.addBuffer(want.a.data(), elements * 4);
    interp.addBuffer(want.o.data(), elements * 4);
    ASSERT_TRUE(interp.run(want.args(seed), {1, 1, 1}).ok);
    SimKernel k(m, 1u << seed % 4);
    ASSERT_TRUE(k.entry) << k.error;
    sim::Extent buffers[] = {{reinterpret_cast<uint64_t>(got.a.data()), elements * 4}, {reinterpret_cast<uint64_t>(got.o.data()), elements * 4}};
    sim::Report r = k.run(got.args(seed), buffers);
    ASSERT_FALSE(r.fault) << r.fault.text;
    ASSERT_EQ(got.a, want.a);
    ASSERT_EQ(got.o, want.o);
  }
}
