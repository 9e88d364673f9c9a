// The fastest matmul known for the hardware (docs/hopper.md, section on a hand-written GEMM), small: clusters of two
// CTAs, a producer warpgroup that multicasts B, two consumer warpgroups, a ring of stages whose slots are freed across
// the cluster, register reallocation, and a persistent loop whose epilogue goes through stmatrix and TMA stores. It
// must run without a fault; each planted bug must be found.
#include "Fixture.h"
#include "sim/TensorMap.h"
#include <random>

namespace tegula::sim {
namespace {

constexpr int size = 256, steps = size / 64, tiles = 2, stages = 3;
constexpr uint32_t aBytes = 128 * 128, bBytes = 128 * 128, stageBytes = aBytes + bBytes, epilogue = stages * stageBytes,
                   bars = epilogue + 2 * 16384;

enum Bug {
  None,
  NoProxyFence,
  NoStoreWait,
  NoBarrierBeforeStore,
  FreesOwnOnly,
  NoFenceBeforeArrive,
  StoreNotAwaited,
  LeavesEarly
};
struct Problem {
  alignas(64) unsigned char a[128], b[128], c[128];
  Bug bug;
};

struct Places {
  T t;
  uint32_t full(int s) const { return smem(t, bars + uint32_t(s) * 16); }
  uint32_t empty(int s) const { return smem(t, bars + uint32_t(s) * 16 + 8); }
  uint32_t stage(int s) const { return smem(t, uint32_t(s) * stageBytes); }
};

void produce(T t, const Problem &p) {
  Places at{t};
  int rank = ctaRank(t);
  for (int i = 0; i < tiles * steps; ++i) {
    int s = i % stages, k = i % steps * 64, n = i / steps * 128;
    tegula_sim_mbar_wait(t, 20, at.empty(s), (i / stages + 1) & 1);
    tegula_sim_mbar_arrive_expect(t, 21, at.full(s), int32_t(stageBytes), 1);
    int32_t aAt[2] = {k, rank * 128}, bAt[2] = {k, n + rank * 64};
    tegula_sim_tma_load(t, 22, at.stage(s), address(p.a), 2, aAt, at.full(s), 0, 1);
    tegula_sim_tma_load(t, 23, at.stage(s) + aBytes + uint32_t(rank) * bBytes / 2, address(p.b), 2, bAt, at.full(s), 3,
                        1);
    tegula_sim_backedge(t, -1);
  }
}

/// Rows 64 * group .. of the CTA's tile, from registers through shared memory.
void writeTile(T t, const Problem &p, int group, int tile, const uint32_t *d) {
  int lane = tid(t) % 32, warp = tid(t) / 32 % 4;
  bool first = tid(t) % 128 == 0;
  uint32_t buffer = epilogue + uint32_t(group) * 16384;
  if (first && p.bug != NoStoreWait)
    tegula_sim_bulk_wait(t, 40, 0, 1);
  tegula_sim_bar_sync(t, 41, 1 + group, 128);
  auto bf16 = [&](int r) { return d[r] >> 16; };
  for (int c = 0; c < 8; ++c) { // 16 columns each
    uint32_t v[4];
    for (int m = 0; m < 4; ++m)
      v[m] = bf16(c * 8 + m * 2) | bf16(c * 8 + m * 2 + 1) << 16;
    uint32_t row = uint32_t(warp * 16 + lane % 8 + lane / 8 % 2 * 8), chunk = uint32_t(c % 4 * 2 + lane / 16);
    tegula_sim_stmatrix(t, 42, smem(t, buffer + uint32_t(c / 4) * 8192 + row * 128 + ((chunk ^ row % 8) << 4)), 4, 0,
                        v);
  }
  if (p.bug != NoProxyFence)
    tegula_sim_fence_proxy_async(t, 43);
  if (p.bug != NoBarrierBeforeStore)
    tegula_sim_bar_sync(t, 44, 1 + group, 128);
  if (!first)
    return;
  for (int h = 0; h < 2; ++h) {
    int32_t cAt[2] = {tile * 128 + h * 64, ctaRank(t) * 128 + group * 64};
    tegula_sim_tma_store(t, 45, address(p.c), 2, cAt, smem(t, buffer + uint32_t(h) * 8192), 1);
  }
  tegula_sim_bulk_commit(t, 46);
}

void consume(T t, const Problem &p, int group) {
  Places at{t};
  // One thread a CTA of the cluster tells it that the slot is free.
  int peer = tid(t) % 128 == 0 ? 0 : tid(t) % 128 == 32 ? 1 : -1;
  if (p.bug == FreesOwnOnly && peer != ctaRank(t))
    peer = -1;
  auto free = [&](int i) {
    if (peer >= 0)
      tegula_sim_mbar_arrive(t, 34, tegula_sim_mapa(t, at.empty(i % stages), peer), 1, 1);
  };
  auto desc = [](uint32_t a) { return uint64_t((a & 0x3ffff) >> 4) | uint64_t(64) << 32 | uint64_t(1) << 62; };
  for (int tile = 0; tile < tiles; ++tile) {
    uint32_t d[64];
    for (int k = 0; k < steps; ++k) {
      int i = tile * steps + k, s = i % stages;
      tegula_sim_mbar_wait(t, 30, at.full(s), i / stages & 1);
      tegula_sim_wgmma_fence(t, 31);
      for (uint32_t j = 0; j < 4; ++j)
        tegula_sim_wgmma(t, 32, 128, TEGULA_MMA_F32, TEGULA_MMA_BF16, TEGULA_MMA_BF16, nullptr,
                         desc(at.stage(s) + uint32_t(group) * aBytes / 2 + 32 * j), desc(at.stage(s) + aBytes + 32 * j),
                         k || j, 0, 0, 0, 0, d);
      tegula_sim_wgmma_commit(t, 33);
      tegula_sim_wgmma_wait(t, 33, 1, d, 64);
      if (k)
        free(i - 1);
      tegula_sim_backedge(t, -1);
    }
    tegula_sim_wgmma_wait(t, 33, 0, d, 64);
    free(tile * steps + steps - 1);
    writeTile(t, p, group, tile, d);
  }
  if (tid(t) % 128 == 0 && p.bug != StoreNotAwaited)
    tegula_sim_bulk_wait(t, 47, 0, 0);
}

void specialized(T t, const void *args) {
  const Problem &p = *static_cast<const Problem *>(args);
  Places at{t};
  if (tid(t) == 0) {
    for (int s = 0; s < stages; ++s) {
      tegula_sim_mbar_init(t, 10, at.full(s), 1);
      tegula_sim_mbar_init(t, 11, at.empty(s), 4);
    }
    if (p.bug != NoFenceBeforeArrive)
      tegula_sim_fence_mbarrier_init(t, 12);
  }
  tegula_sim_cluster_arrive(t, 13, 1);
  tegula_sim_cluster_wait(t, 13);
  sync(t, 384);
  int role = tid(t) / 128;
  tegula_sim_setmaxnreg(t, 14, role == 2 ? 24 : 240, role != 2);
  if (role < 2)
    consume(t, p, role);
  else if (tid(t) == 256)
    produce(t, p);
  if (p.bug == LeavesEarly)
    return;
  tegula_sim_cluster_arrive(t, 15, 0);
  tegula_sim_cluster_wait(t, 15);
}

struct Specialized : testing::Test {
  std::vector<uint16_t> a = std::vector<uint16_t>(size * size), b = a, c = a;
  Problem p{};
  Report run(Bug bug) {
    p.bug = bug;
    std::mt19937 random(5);
    for (auto *m : {&a, &b})
      for (uint16_t &v : *m)
        v = std::array<uint16_t, 3>{0, 0x3f80, 0xbf80}[random() % 3];
    auto encode = [](unsigned char *map, std::vector<uint16_t> &m, uint32_t rows) {
      TensorMapSpec s;
      s.dataType = 9, s.rank = 2, s.address = address(m.data()), s.swizzle = 3;
      s.dims[0] = s.dims[1] = size, s.strides[0] = size * 2, s.box[0] = 64, s.box[1] = rows;
      EXPECT_EQ(encodeTensorMap(s, map), "");
    };
    encode(p.a, a, 128), encode(p.b, b, 64), encode(p.c, c, 64);
    return Kernel(384, bars + 64).cluster(2).buffer(a).buffer(b).buffer(c)(specialized, &p);
  }
};

TEST_F(Specialized, RunsAndIsExact) {
  EXPECT_RUNS(run(None));
  auto value = [](uint16_t v) { return v == 0 ? 0 : v == 0x3f80 ? 1 : -1; };
  int wrong = 0;
  for (int m = 0; m < size; ++m)
    for (int n = 0; n < size; ++n) {
      int sum = 0;
      for (int k = 0; k < size; ++k)
        sum += value(a[size_t(m * size + k)]) * value(b[size_t(n * size + k)]);
      float f = float(sum);
      uint32_t bits;
      std::memcpy(&bits, &f, 4);
      wrong += c[size_t(m * size + n)] != bits >> 16;
    }
  EXPECT_EQ(wrong, 0);
}

TEST_F(Specialized, BugsAreFound) {
  expectFault(run(NoProxyFence), FaultKind::MissingProxyFence, {"bulk tensor store", "site 45", "site 42"});
  expectFault(run(NoBarrierBeforeStore), FaultKind::SharedRace, {"site 45", "site 42"});
  expectFault(run(NoStoreWait), FaultKind::AsyncReadOverwritten, {"stmatrix", "site 42", "site 45 still reads"});
  expectFault(run(FreesOwnOnly), FaultKind::Deadlock, {"of CTA 0", "at site 20", "2 of 4 arrivals"});
  expectFault(run(LeavesEarly), FaultKind::SharedBounds, {"its CTA ends", "of CTA 1 to its shared memory at site 34"});
  expectFault(run(NoFenceBeforeArrive), FaultKind::MissingProxyFence, {"of CTA 0", "site 22", "site 10"});
  expectFault(run(StoreNotAwaited), FaultKind::MissingWait, {"leaves the kernel", "site 45"});
}

} // namespace
} // namespace tegula::sim
