// A matrix product as the compiler will write it: a producer warp feeds a ring of stages by TMA, a consumer warpgroup
// multiplies them with wgmma from 128B-swizzled shared memory. Correct rings run without a fault and give exact
// results.
#include "Fixture.h"
#include "sim/TensorMap.h"
#include <random>

namespace tegula::sim {
namespace {

constexpr int K = 512, stageK = 64, steps = K / stageK;
constexpr uint32_t tileBytes = 64 * 128, stageBytes = 2 * tileBytes, stages = 3;

struct Problem {
  alignas(64) unsigned char mapA[128], mapB[128];
  float *out;
  int32_t bug;
};

uint64_t descriptor(uint32_t address) {
  // K-major, 128B swizzle, 1024 bytes from 8 rows to the next 8.
  return uint64_t((address & 0x3ffff) >> 4) | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

enum Bug { Right, NoFullWait, EarlyRelease, NoWgmmaWait, WrongBytes, WrongParity, NoEmptyArrive, NoInitFence };

/// 160 threads: warps 0 to 3 multiply, thread 128 loads.
void ringKernel(T t, const void *args) {
  const Problem &p = *static_cast<const Problem *>(args);
  const uint32_t bars = stages * stageBytes;
  auto full = [&](int s) { return smem(t, bars + uint32_t(s) * 16); };
  auto empty = [&](int s) { return smem(t, bars + uint32_t(s) * 16 + 8); };
  if (tid(t) == 0) {
    for (uint32_t s = 0; s < stages; ++s) {
      tegula_sim_mbar_init(t, 10, full(int(s)), 1);
      tegula_sim_mbar_init(t, 11, empty(int(s)), 1);
    }
    if (p.bug != NoInitFence)
      tegula_sim_fence_mbarrier_init(t, 12);
  }
  sync(t, 160);
  if (tid(t) >= 128) {
    if (tid(t) != 128)
      return;
    for (int i = 0; i < steps; ++i) {
      int s = i % int(stages);
      tegula_sim_mbar_wait(t, 20, empty(s), (i / int(stages) + 1) & 1);
      tegula_sim_mbar_arrive_expect(t, 21, full(s), int32_t(p.bug == WrongBytes ? stageBytes + 16 : stageBytes), 1);
      int32_t coord[2] = {i * stageK, 0};
      tegula_sim_tma_load(t, 22, smem(t, uint32_t(s) * stageBytes), address(p.mapA), 2, coord, full(s), 0, 1);
      tegula_sim_tma_load(t, 23, smem(t, uint32_t(s) * stageBytes + tileBytes), address(p.mapB), 2, coord, full(s), 0,
                          1);
      tegula_sim_backedge(t, -1);
    }
    return;
  }
  uint32_t d[32] = {};
  for (int i = 0; i < steps; ++i) {
    int s = i % int(stages);
    if (p.bug != NoFullWait)
      tegula_sim_mbar_wait(t, 30, full(s), (i / int(stages) + (p.bug == WrongParity)) & 1);
    uint32_t a = smem(t, uint32_t(s) * stageBytes);
    tegula_sim_wgmma_fence(t, 31);
    for (uint32_t k = 0; k < 4; ++k)
      tegula_sim_wgmma(t, 32, 64, TEGULA_MMA_F32, TEGULA_MMA_BF16, TEGULA_MMA_BF16, nullptr, descriptor(a + 32 * k),
                       descriptor(a + tileBytes + 32 * k), i + int(k) != 0, 0, 0, 0, 0, d);
    tegula_sim_wgmma_commit(t, 33);
    // One group stays in flight; the stage before this one is free.
    if (p.bug != NoWgmmaWait)
      tegula_sim_wgmma_wait(t, 34, 1, d, 32);
    int freed = p.bug == EarlyRelease ? s : (i + int(stages) - 1) % int(stages);
    bool release = p.bug == EarlyRelease || i > 0;
    if (tid(t) == 0 && release && p.bug != NoEmptyArrive)
      tegula_sim_mbar_arrive(t, 35, empty(freed), 1, 1);
    tegula_sim_backedge(t, -1);
  }
  if (p.bug != NoWgmmaWait)
    tegula_sim_wgmma_wait(t, 36, 0, d, 32);
  for (int r = 0; r < 32; ++r) {
    int lane = tid(t) % 32, row = tid(t) / 32 * 16 + lane / 4 + (r & 2 ? 8 : 0),
        col = lane % 4 * 2 + (r & 1) + r / 4 * 8;
    float v;
    std::memcpy(&v, &d[r], 4);
    storeGlobal(t, p.out + row * 64 + col, v, 37);
  }
}

struct Ring : testing::Test {
  std::vector<uint16_t> a = std::vector<uint16_t>(64 * K), b = std::vector<uint16_t>(64 * K);
  std::vector<float> out = std::vector<float>(64 * 64), expected = std::vector<float>(64 * 64);
  Problem problem{};

  Ring() {
    std::mt19937 random(7);
    auto small = [&] { return float(int(random() % 9) - 4); };
    for (auto *m : {&a, &b})
      for (uint16_t &v : *m) {
        float f = small();
        uint32_t bits;
        std::memcpy(&bits, &f, 4);
        v = uint16_t(bits >> 16);
      }
    auto value = [](uint16_t h) {
      uint32_t bits = uint32_t(h) << 16;
      float f;
      std::memcpy(&f, &bits, 4);
      return f;
    };
    for (int m = 0; m < 64; ++m)
      for (int n = 0; n < 64; ++n)
        for (int k = 0; k < K; ++k)
          expected[size_t(m * 64 + n)] += value(a[size_t(m * K + k)]) * value(b[size_t(n * K + k)]);
    auto encode = [](unsigned char *map, std::vector<uint16_t> &m) {
      TensorMapSpec s;
      s.dataType = 9, s.rank = 2, s.address = address(m.data()), s.swizzle = 3;
      s.dims[0] = K, s.dims[1] = 64, s.strides[0] = K * 2, s.box[0] = stageK, s.box[1] = 64;
      ASSERT_EQ(encodeTensorMap(s, map), "");
    };
    encode(problem.mapA, a);
    encode(problem.mapB, b);
    problem.out = out.data();
  }
  Report run(Bug bug) {
    problem.bug = bug;
    Kernel k(160, stages * stageBytes + 64);
    return k.buffer(a).buffer(b).buffer(out)(ringKernel, &problem);
  }
};

TEST_F(Ring, GivesExactResults) {
  Report r = run(Right);
  EXPECT_RUNS(r);
  EXPECT_EQ(out, expected);
  EXPECT_EQ(r.counters[Instr::Wgmma], uint64_t(steps) * 4);
  EXPECT_EQ(r.counters[Instr::BulkLoad], uint64_t(steps) * 2);
}

TEST_F(Ring, NoFullWait) {
  expectFault(run(NoFullWait), FaultKind::Uninitialized, {"wgmma", "site 32", "was never written"});
}
TEST_F(Ring, EarlyRelease) {
  expectFault(run(EarlyRelease), FaultKind::AsyncReadOverwritten,
              {"bulk tensor load", "site 22", "wgmma of warps 0 to 3 at site 32 still reads"});
}
TEST_F(Ring, NoWgmmaWait) {
  Report r = run(NoWgmmaWait);
  expectFault(r, FaultKind::AsyncReadOverwritten, {"site 22", "site 32"});
}
TEST_F(Ring, WrongBytes) {
  expectFault(run(WrongBytes), FaultKind::Deadlock,
              {"threads 0 to 127 at site 30 for parity 0", "0 of 1 arrivals and 16 bytes pending",
               "thread 128 at site 20", "threads 129 to 159 left"});
}
TEST_F(Ring, WrongParity) { expectFault(run(WrongParity), FaultKind::Uninitialized, {"site 32"}); }
TEST_F(Ring, NoEmptyArrive) {
  expectFault(run(NoEmptyArrive), FaultKind::Deadlock,
              {"thread 128 at site 20 for parity 0", "1 of 1 arrivals", "threads 0 to 127 at site 30"});
}
TEST_F(Ring, NoInitFence) {
  expectFault(run(NoInitFence), FaultKind::MissingProxyFence, {"thread 128", "site 22", "(site 10)"});
}

} // namespace
} // namespace tegula::sim
