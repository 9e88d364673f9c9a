// Random kernels: generated code must leave the same memory behind as the reference interpreter.
#include "KernelHarness.h"
#include "RandomKernel.h"
#include "ir/Interp.h"
#include "ir/Verifier.h"

using namespace tegula;
using namespace tegula::cpu;
using namespace tegula::ir;
using tegula::test::elements;
using tegula::test::RandomKernel;

TEST(RandomKernels, SameMemoryAsTheInterpreter) {
  uint64_t first = 0, count = 25;
  if (const char *s = std::getenv("TEGULA_RANDOM_SEED"))
    first = std::strtoull(s, nullptr, 10), count = 1;
  if (const char *s = std::getenv("TEGULA_RANDOM_COUNT"))
    count = std::strtoull(s, nullptr, 10);
  std::vector<std::string> targets = {cpu::test::machineName()};
  for (const char *name : {"cpu:x86-64", "cpu:avx2"})
    if (cpu::test::runsHere(name))
      targets.push_back(name);
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Module m;
    RandomKernel generate(m, seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + (count == 1 ? print(m) : ""));
    std::string why;
    ASSERT_TRUE(verify(m, &why)) << why;
    std::vector<int32_t> a(elements), o(elements);
    for (size_t i = 0; i < elements; ++i) {
      a[i] = static_cast<int32_t>(i * i * 31 + seed) % 300;
      o[i] = static_cast<int32_t>(i);
    }
    auto wantA = a, wantO = o;
    Interp interp(m);
    interp.addBuffer(wantA.data(), elements * 4);
    interp.addBuffer(wantO.data(), elements * 4);
    uint64_t args[] = {reinterpret_cast<uint64_t>(wantA.data()), reinterpret_cast<uint64_t>(wantO.data()),
                       100 + seed % 120, 3};
    InterpResult r = interp.run(args, {1, 1, 1});
    ASSERT_TRUE(r.ok) << r.fault;
    Options options;
    options.checked = seed % 7 == 3;
    cpu::test::Kernel k(m, targets[seed % targets.size()], options);
    ASSERT_EQ(k.run({a, o, static_cast<int>(100 + seed % 120), 3}), 0);
    ASSERT_EQ(a, wantA);
    ASSERT_EQ(o, wantO);
  }
}
